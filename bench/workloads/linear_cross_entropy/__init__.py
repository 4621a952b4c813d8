"""What the last linear layer with its cross-entropy is: inputs, semantics, reference, cost.

    logits[t, v] = <hidden[t, :], weight[v, :]>
    loss = mean over tokens t whose label is not -100 of  logsumexp(logits[t, :]) - logits[t, labels[t]]

hidden are (tokens, hidden_size) and weight (vocab_size, hidden_size), contiguous; both get a gradient. labels are (tokens,) int64, of
which a share is ignored (-100). The weight is drawn with the variance 1 / hidden_size, so that logits are normal. The loss is a scalar,
which `bind` takes to fp32 where an implementation gives it in a shorter dtype. Where all labels are ignored PyTorch gives NaN (0 / 0)
and so does what is built of it; Liger gives 0. No case is so.

The logits are the largest tensor of a training step, 12 bytes each by the time transformers has copied them to fp32 and made their
gradient. What never holds them all is the point of this workload.

Cost: one matrix product forward, two backward, each 2 * tokens * hidden_size * vocab_size; a recomputation is no work, and what the
softmax takes is left out (6 to 6 * hidden_size). Bytes are the least: hidden, weight and labels once, and each gradient once where it
is asked for; logits need not move. Both passes together read the inputs once, for the outer gradient is one number and gradients can
be made with the loss. An implementation that does so has no backward of its own that could be timed alone.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from bench.declare import Bound, Param, Pick, SlotKind, Workload, dtype_bytes, fill_normal, torch_dtype
from bench.records import Case, Cost, Pass
from bench.workloads.cross_entropy._labels import IGNORED, draw_labels, ignored_among
from bench.workloads.cross_entropy._overwritten import scalar
from bench.workloads.rms_norm._spread import spread

if TYPE_CHECKING:
    import torch

SMALL_TOKENS = 160
"""More than the 128 rows that the smallest chunk of `chunked` has."""

SMALL_HIDDEN = 128
SLICE_ELEMENTS = 2**22


@dataclass(frozen=True, slots=True)
class LinearCrossEntropySpec:
    """hidden (tokens, hidden_size), weight (vocab_size, hidden_size) in `dtype`; `ignored_tokens` of the labels are -100."""

    tokens: int
    hidden_size: int
    vocab_size: int
    ignored_tokens: int
    dtype: str
    training: bool = True
    """False where no gradient will be asked for."""
    counted_tokens: int | None = None
    """What sums are divided by where it is not the number of labels that count: in a part of a larger problem."""


class LinearCrossEntropy(Workload):
    name = "linear_cross_entropy"
    version = 1
    slots: ClassVar[Mapping[str, SlotKind]] = {"linear_cross_entropy": SlotKind.FUNCTION}
    params = (
        Param("tokens", int, minimum=1, description="rows of hidden states, all sequences together"),
        Param("ignored", float, default=0.05, minimum=0.0, below=1.0, description="share of labels that are ignored (-100)"),
    )
    dims = ("hidden_size", "vocab_size")
    constants = frozenset({"labels"})

    def spec(self, case: Case) -> LinearCrossEntropySpec:
        params: Mapping[str, Any] = case.params
        tokens = int(params["tokens"])
        return LinearCrossEntropySpec(
            tokens=tokens,
            hidden_size=int(params["hidden_size"]),
            vocab_size=int(params["vocab_size"]),
            ignored_tokens=ignored_among(tokens, float(params["ignored"])),
            dtype=case.dtype,
            training=case.pass_.differentiates,
        )

    def cost(self, spec: LinearCrossEntropySpec, pass_: Pass) -> Cost:
        """FLOPs and bytes by the essay above."""
        product = 2 * spec.tokens * spec.hidden_size * spec.vocab_size
        inputs = (spec.tokens + spec.vocab_size) * spec.hidden_size * dtype_bytes(spec.dtype)
        labels = 8 * spec.tokens
        return {
            Pass.FORWARD: Cost(flops=product, bytes=inputs + labels, tokens=spec.tokens),
            Pass.BACKWARD: Cost(flops=2 * product, bytes=2 * inputs + labels, tokens=spec.tokens),
            Pass.FORWARD_BACKWARD: Cost(flops=3 * product, bytes=2 * inputs + labels, tokens=spec.tokens),
        }[pass_]

    def small_spec(self, spec: LinearCrossEntropySpec) -> LinearCrossEntropySpec:
        """Few tokens, short hidden states, and the whole vocabulary: softmax kernels go over it in blocks."""
        tokens = min(spec.tokens, SMALL_TOKENS)
        return dataclasses.replace(
            spec,
            tokens=tokens,
            hidden_size=min(spec.hidden_size, SMALL_HIDDEN),
            ignored_tokens=ignored_among(tokens, spec.ignored_tokens / spec.tokens),
        )

    def make_inputs(self, spec: LinearCrossEntropySpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        import torch

        dtype = torch_dtype(spec.dtype)
        inputs = {
            "hidden": torch.empty(spec.tokens, spec.hidden_size, dtype=dtype, device=device),
            "weight": torch.empty(spec.vocab_size, spec.hidden_size, dtype=dtype, device=device),
            "labels": torch.empty(spec.tokens, dtype=torch.int64, device=device),
        }
        self.redraw(spec, inputs, generator)
        return inputs

    def redraw(self, spec: LinearCrossEntropySpec, inputs: Mapping[str, torch.Tensor], generator: torch.Generator) -> None:
        import torch

        fill_normal(inputs["hidden"], generator)
        fill_normal(inputs["weight"], generator)
        with torch.no_grad():
            inputs["weight"].mul_(1.0 / math.sqrt(spec.hidden_size))
        draw_labels(inputs["labels"], spec.vocab_size, spec.ignored_tokens, generator)

    def bind(self, spec: LinearCrossEntropySpec, built: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]) -> Bound:
        loss = built["linear_cross_entropy"]
        return Bound(lambda inputs: {"loss": scalar(loss(inputs["hidden"], inputs["weight"], inputs["labels"]))})

    def reference(
        self, spec: LinearCrossEntropySpec, inputs: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        import torch

        logits = inputs["hidden"] @ inputs["weight"].t()
        upcast = logits.to(torch.promote_types(logits.dtype, torch.float32))
        total = torch.nn.functional.cross_entropy(upcast, inputs["labels"], ignore_index=IGNORED, reduction="sum")
        return {"loss": total / (spec.counted_tokens or (inputs["labels"] != IGNORED).sum())}

    def slice(self, spec: LinearCrossEntropySpec) -> tuple[LinearCrossEntropySpec, Pick] | None:
        """The gradient of evenly spread hidden states, which depends on the whole weight and on how many labels count, on no other token.

        Loss and gradient of the weight are sums over all tokens and have no part.
        """
        rows, count = spread(spec.tokens, SLICE_ELEMENTS // spec.vocab_size)
        counted = spec.tokens - spec.ignored_tokens

        def pick(name: str, tensor: torch.Tensor) -> torch.Tensor | None:
            if name in ("loss", "grad_weight"):
                return None
            return tensor if name == "weight" else tensor[rows]

        return dataclasses.replace(spec, tokens=count, ignored_tokens=0, counted_tokens=counted), pick

    def isolate(
        self, spec: LinearCrossEntropySpec, inputs: Mapping[str, torch.Tensor]
    ) -> tuple[LinearCrossEntropySpec, Pick] | None:
        """All labels but those of the slice are ignored: then the loss and the gradient of the weight are the slice's own."""
        rows, count = spread(spec.tokens, SLICE_ELEMENTS // spec.vocab_size)
        kept = inputs["labels"][rows].clone()
        counted = int((kept != IGNORED).sum())
        if not counted:
            return None
        inputs["labels"].fill_(IGNORED)[rows] = kept

        def pick(name: str, tensor: torch.Tensor) -> torch.Tensor | None:
            return tensor if name in ("loss", "weight", "grad_weight") else tensor[rows]

        return dataclasses.replace(spec, tokens=count, ignored_tokens=count - counted, counted_tokens=None), pick


WORKLOAD = LinearCrossEntropy()
