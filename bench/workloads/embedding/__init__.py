"""What looking up the embeddings of tokens is: inputs, semantics, reference, cost.

    out[t, :] = weight[ids[t], :]          the gradient of weight[v, :] is the sum of the outer gradients of all tokens t with ids[t] = v

weight is (vocab_size, hidden_size), contiguous, and gets a dense gradient; ids are (tokens,) int64, each word as likely, so that some
words come several times and their gradients are sums. The slot is a function fn(weight, ids) -> out (tokens, hidden_size).

Cost: an addition for each number of the outer gradient, and none forward. Bytes are the least: forward each token's row read and
written, and ids; backward the outer gradient and ids read, and the whole gradient of the weight written, most of which is zeros.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from bench.declare import Bound, Param, Pick, SlotKind, Workload, dtype_bytes, fill_normal, torch_dtype
from bench.records import Case, Cost, Pass
from bench.workloads.rms_norm._spread import spread

if TYPE_CHECKING:
    import torch

SMALL_TOKENS, SMALL_WORDS, SMALL_HIDDEN = 200, 64, 192
"""More tokens than words, so that gradients are sums; and sides that no block of 128 divides."""
SLICE_ELEMENTS = 2**22


@dataclass(frozen=True, slots=True)
class EmbeddingSpec:
    """weight (vocab_size, hidden_size) in `dtype`, ids (tokens,)."""

    tokens: int
    hidden_size: int
    vocab_size: int
    dtype: str
    training: bool = True
    """False where no gradient will be asked for."""


class Embedding(Workload):
    name = "embedding"
    version = 1
    slots: ClassVar[Mapping[str, SlotKind]] = {"embedding": SlotKind.FUNCTION}
    params = (Param("tokens", int, minimum=1, description="tokens, all sequences together"),)
    dims = ("hidden_size", "vocab_size")
    constants = frozenset({"ids"})

    def spec(self, case: Case) -> EmbeddingSpec:
        params: Mapping[str, Any] = case.params
        return EmbeddingSpec(
            tokens=int(params["tokens"]),
            hidden_size=int(params["hidden_size"]),
            vocab_size=int(params["vocab_size"]),
            dtype=case.dtype,
            training=case.pass_.differentiates,
        )

    def cost(self, spec: EmbeddingSpec, pass_: Pass) -> Cost:
        """FLOPs and bytes by the essay above."""
        size, numbers, ids = dtype_bytes(spec.dtype), spec.tokens * spec.hidden_size, 8 * spec.tokens
        forward, backward = 2 * numbers * size + ids, (numbers + spec.vocab_size * spec.hidden_size) * size + ids
        flops, moved = {
            Pass.FORWARD: (None, forward),
            Pass.BACKWARD: (numbers, backward),
            Pass.FORWARD_BACKWARD: (numbers, forward + backward),
        }[pass_]
        return Cost(flops=flops, bytes=moved, tokens=spec.tokens)

    def small_spec(self, spec: EmbeddingSpec) -> EmbeddingSpec:
        return dataclasses.replace(
            spec,
            tokens=min(spec.tokens, SMALL_TOKENS),
            hidden_size=min(spec.hidden_size, SMALL_HIDDEN),
            vocab_size=min(spec.vocab_size, SMALL_WORDS),
        )

    def make_inputs(self, spec: EmbeddingSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        import torch

        weight = torch.empty(spec.vocab_size, spec.hidden_size, dtype=torch_dtype(spec.dtype), device=device)
        inputs = {"weight": weight, "ids": torch.empty(spec.tokens, dtype=torch.int64, device=device)}
        self.redraw(spec, inputs, generator)
        return inputs

    def redraw(self, spec: EmbeddingSpec, inputs: Mapping[str, torch.Tensor], generator: torch.Generator) -> None:
        import torch

        fill_normal(inputs["weight"], generator)
        inputs["ids"].copy_(torch.randint(spec.vocab_size, (spec.tokens,), generator=generator, device=generator.device))

    def bind(self, spec: EmbeddingSpec, built: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]) -> Bound:
        looked_up = built["embedding"]
        return Bound(lambda inputs: {"out": looked_up(inputs["weight"], inputs["ids"])})

    def reference(
        self, spec: EmbeddingSpec, inputs: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        return {"out": inputs["weight"][inputs["ids"]]}

    def slice(self, spec: EmbeddingSpec) -> tuple[EmbeddingSpec, Pick] | None:
        """Evenly spread columns of all words and tokens, the last among them: none depends on another."""
        columns, count = spread(spec.hidden_size, SLICE_ELEMENTS // max(spec.vocab_size, spec.tokens))

        def pick(name: str, tensor: torch.Tensor) -> torch.Tensor | None:
            return tensor if name == "ids" else tensor[:, columns]

        return dataclasses.replace(spec, hidden_size=count), pick


WORKLOAD = Embedding()
