"""What the cross-entropy of logits is: inputs, semantics, reference, cost.

    loss = mean over tokens t whose label is not -100 of  logsumexp(logits[t, :]) - logits[t, labels[t]]

logits are (tokens, vocab_size), contiguous, and get a gradient; labels are (tokens,) int64, of which a share is ignored (-100). The
logits are normal, and those of the labels are raised by amounts between 0 and twice the logarithm of the vocabulary: from hopeless to
certain, as in training, so that the difference of softmax and 1 is met where it cancels too. The loss is a scalar, which `bind` takes
to fp32 where an implementation gives it in the dtype of the logits; errors show what that lost. Where all labels are ignored,
PyTorch divides 0 by 0 and gives NaN, and so does what is built of it; Liger gives 0. No case is so.

A training step reads its logits no more after the loss, so an implementation may overwrite them with their gradient, and Liger's does.
It says so (`Overwrites`), and gets a fresh copy before each call, made untimed, as the layer before makes new ones in a model; the
copy is resident, and not in the peak. The inputs themselves are never overwritten.

Cost counts per logit: forward 4 (maximum, difference, exponential, sum), and 2 more for the gradient (scale, round). Bytes are the
least: logits and labels once forward; logits, labels and gradient once backward. Both together read the logits once, since the outer
gradient is one number and the gradient can be formed with the loss, while the row is at hand. An implementation that does so has no
backward of its own that could be timed alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from bench.declare import Bound, Param, Pick, SlotKind, Workload, dtype_bytes, fill_normal, torch_dtype
from bench.records import Case, Cost, Pass
from bench.workloads.cross_entropy._labels import IGNORED, draw_labels, ignored_among, raise_logits
from bench.workloads.cross_entropy._overwritten import Overwrites, fresh_copies, scalar
from bench.workloads.rms_norm._spread import spread

if TYPE_CHECKING:
    import torch

SMALL_TOKENS = 33
SLICE_ELEMENTS = 2**22


@dataclass(frozen=True, slots=True)
class CrossEntropySpec:
    """Logits (tokens, vocab_size) in `dtype`, labels (tokens,); `ignored_tokens` of the labels are -100."""

    tokens: int
    vocab_size: int
    ignored_tokens: int
    dtype: str
    training: bool = True
    """False where no gradient will be asked for."""
    counted_tokens: int | None = None
    """What sums are divided by where it is not the number of labels that count: in a part of a larger problem."""


class CrossEntropy(Workload):
    name = "cross_entropy"
    version = 1
    slots: ClassVar[Mapping[str, SlotKind]] = {"cross_entropy": SlotKind.FUNCTION}
    params = (
        Param("tokens", int, minimum=1, description="rows of logits, all sequences together"),
        Param("ignored", float, default=0.05, minimum=0.0, below=1.0, description="share of labels that are ignored (-100)"),
    )
    dims = ("vocab_size",)
    constants = frozenset({"labels"})

    def spec(self, case: Case) -> CrossEntropySpec:
        params: Mapping[str, Any] = case.params
        tokens = int(params["tokens"])
        return CrossEntropySpec(
            tokens=tokens,
            vocab_size=int(params["vocab_size"]),
            ignored_tokens=ignored_among(tokens, float(params["ignored"])),
            dtype=case.dtype,
            training=case.pass_.differentiates,
        )

    def cost(self, spec: CrossEntropySpec, pass_: Pass) -> Cost:
        """FLOPs and bytes by the essay above."""
        elements = spec.tokens * spec.vocab_size
        logits_bytes, labels_bytes = elements * dtype_bytes(spec.dtype), 8 * spec.tokens
        both = Cost(flops=6 * elements, bytes=2 * logits_bytes + labels_bytes, tokens=spec.tokens)
        return {
            Pass.FORWARD: dataclasses.replace(both, flops=4 * elements, bytes=logits_bytes + labels_bytes),
            Pass.BACKWARD: dataclasses.replace(both, flops=2 * elements),
            Pass.FORWARD_BACKWARD: both,
        }[pass_]

    def small_spec(self, spec: CrossEntropySpec) -> CrossEntropySpec:
        """Few tokens, and the whole vocabulary: kernels go over a row in blocks, and some faults show from the second block on."""
        tokens = min(spec.tokens, SMALL_TOKENS)
        return dataclasses.replace(spec, tokens=tokens, ignored_tokens=ignored_among(tokens, spec.ignored_tokens / spec.tokens))

    def make_inputs(self, spec: CrossEntropySpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        import torch

        logits = torch.empty(spec.tokens, spec.vocab_size, dtype=torch_dtype(spec.dtype), device=device)
        labels = torch.empty(spec.tokens, dtype=torch.int64, device=device)
        inputs = {"logits": logits, "labels": labels}
        self.redraw(spec, inputs, generator)
        return inputs

    def redraw(self, spec: CrossEntropySpec, inputs: Mapping[str, torch.Tensor], generator: torch.Generator) -> None:
        fill_normal(inputs["logits"], generator)
        draw_labels(inputs["labels"], spec.vocab_size, spec.ignored_tokens, generator)
        raise_logits(inputs["logits"], inputs["labels"], generator)

    def bind(self, spec: CrossEntropySpec, built: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]) -> Bound:
        loss = built["cross_entropy"]
        if isinstance(loss, Overwrites):
            return fresh_copies(loss)
        return Bound(lambda inputs: {"loss": scalar(loss(inputs["logits"], inputs["labels"]))})

    def reference(
        self, spec: CrossEntropySpec, inputs: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        import torch

        logits = inputs["logits"].to(torch.promote_types(inputs["logits"].dtype, torch.float32))
        total = torch.nn.functional.cross_entropy(logits, inputs["labels"], ignore_index=IGNORED, reduction="sum")
        return {"loss": total / (spec.counted_tokens or (inputs["labels"] != IGNORED).sum())}

    def slice(self, spec: CrossEntropySpec) -> tuple[CrossEntropySpec, Pick] | None:
        """Evenly spread rows, `SLICE_ELEMENTS` of logits at most. Their gradient depends on no other row but for how many labels count.

        The loss itself is a mean over all rows and has no part.
        """
        rows, count = spread(spec.tokens, SLICE_ELEMENTS // spec.vocab_size)
        counted = spec.tokens - spec.ignored_tokens

        def pick(name: str, tensor: torch.Tensor) -> torch.Tensor | None:
            return None if name == "loss" else tensor[rows]

        return dataclasses.replace(spec, tokens=count, ignored_tokens=0, counted_tokens=counted), pick

    def isolate(self, spec: CrossEntropySpec, inputs: Mapping[str, torch.Tensor]) -> tuple[CrossEntropySpec, Pick] | None:
        """All labels but those of the slice are ignored: then the loss is the slice's own."""
        rows, count = spread(spec.tokens, SLICE_ELEMENTS // spec.vocab_size)
        kept = inputs["labels"][rows].clone()
        counted = int((kept != IGNORED).sum())
        if not counted:
            return None
        inputs["labels"].fill_(IGNORED)[rows] = kept

        def pick(name: str, tensor: torch.Tensor) -> torch.Tensor | None:
            return tensor if name == "loss" else tensor[rows]

        return dataclasses.replace(spec, tokens=count, ignored_tokens=count - counted, counted_tokens=None), pick


WORKLOAD = CrossEntropy()
