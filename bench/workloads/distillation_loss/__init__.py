"""What the loss of distilling one model into another is, from hidden states on: inputs, semantics, reference, cost.

    s[t, :] = softmax over v of <student_hidden[t], student_weight[v]>,   q[t, :] the same of the teacher,   m = (s + q) / 2
    loss = mean over tokens t whose label is not -100 of  D(t)
    jsd         D = (KL(q, m) + KL(s, m)) / 2       Agarwal et al., On-Policy Distillation (2023, arXiv:2306.13649), equation 1
    forward_kl  D = KL(q, s)                        Hinton et al., Distilling the Knowledge (2015, arXiv:1503.02531), at temperature 1
    reverse_kl  D = KL(s, q)                        Gu et al., MiniLLM (2023, arXiv:2306.08543), equation 1

with KL(a, b) = sum over v of a log(a / b). All matrices are contiguous: hidden states (tokens, hidden_size), weights (vocab_size,
hidden_size), the teacher as wide as the student. Only the student's get gradients; labels say which tokens count. Weights are drawn
with the variance 1 / hidden_size. The loss is a scalar, which `bind` takes to fp32 where it comes in a shorter dtype.

Cost: two matrix products forward and two backward, each 2 * tokens * hidden_size * vocab_size; the divergence itself is left out.
Bytes are the least: each input once, each gradient once where it is asked for, however many passes; logits need not move.
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

SMALL_TOKENS = 64
SMALL_HIDDEN = 128
SLICE_ELEMENTS = 2**20
LONGER_DTYPES: Mapping[str, float] = {"fp32": 1e-4, "tf32": 1e-2}
"""The largest relative error of who has a tolerance. tf32 has three bits more than bf16."""

WEIGHT_OF_TEACHER = {"forward_kl": 0.0, "jsd": 0.5, "reverse_kl": 1.0}
"""The generalised divergence beta KL(q, m) + (1 - beta) KL(s, m) with m = beta q + (1 - beta) s, by which libraries call all three.
At 0 and 1, where it would vanish, they mean the two divergences."""


@dataclass(frozen=True, slots=True)
class DistillationSpec:
    """Hidden states (tokens, hidden_size) and weights (vocab_size, hidden_size) of both models, in `dtype`."""

    divergence: str
    """`jsd`, `forward_kl` or `reverse_kl`."""
    tokens: int
    hidden_size: int
    vocab_size: int
    ignored_tokens: int
    dtype: str
    training: bool = True
    """False where no gradient will be asked for."""
    counted_tokens: int | None = None
    """What sums are divided by where it is not the number of labels that count: in a part of a larger problem."""


class DistillationLoss(Workload):
    name = "distillation_loss"
    version = 1
    slots: ClassVar[Mapping[str, SlotKind]] = {"distillation_loss": SlotKind.FUNCTION}
    params = (
        Param("tokens", int, minimum=1, description="rows of hidden states, all sequences together"),
        Param(
            "divergence", str, default="jsd", choices=tuple(WEIGHT_OF_TEACHER), description="what is between student and teacher"
        ),
        Param("ignored", float, default=0.05, minimum=0.0, below=1.0, description="share of labels that are ignored (-100)"),
    )
    dims = ("hidden_size", "vocab_size")
    constants = frozenset({"teacher_hidden", "teacher_weight", "labels"})
    error_of = "grad_student_hidden"
    """What the student learns from. The loss itself is a mean, in which errors cancel."""

    def spec(self, case: Case) -> DistillationSpec:
        params: Mapping[str, Any] = case.params
        tokens = int(params["tokens"])
        return DistillationSpec(
            divergence=str(params["divergence"]),
            tokens=tokens,
            hidden_size=int(params["hidden_size"]),
            vocab_size=int(params["vocab_size"]),
            ignored_tokens=ignored_among(tokens, float(params["ignored"])),
            dtype=case.dtype,
            training=case.pass_.differentiates,
        )

    def cost(self, spec: DistillationSpec, pass_: Pass) -> Cost:
        """FLOPs and bytes by the essay above."""
        product = 2 * spec.tokens * spec.hidden_size * spec.vocab_size
        model = (spec.tokens + spec.vocab_size) * spec.hidden_size * dtype_bytes(spec.dtype)
        labels = 8 * spec.tokens
        return {
            Pass.FORWARD: Cost(flops=2 * product, bytes=2 * model + labels, tokens=spec.tokens),
            Pass.BACKWARD: Cost(flops=2 * product, bytes=3 * model + labels, tokens=spec.tokens),
            Pass.FORWARD_BACKWARD: Cost(flops=4 * product, bytes=3 * model + labels, tokens=spec.tokens),
        }[pass_]

    def tolerance(self, spec: DistillationSpec, declared: float) -> float:
        """Declared is what 16-bit dtypes lose at each step; longer ones are held to what their products lose."""
        return min(declared, LONGER_DTYPES.get(spec.dtype, declared))

    def small_spec(self, spec: DistillationSpec) -> DistillationSpec:
        """Few tokens, short hidden states, and the whole vocabulary: kernels go over it in blocks."""
        tokens = min(spec.tokens, SMALL_TOKENS)
        return dataclasses.replace(
            spec,
            tokens=tokens,
            hidden_size=min(spec.hidden_size, SMALL_HIDDEN),
            ignored_tokens=ignored_among(tokens, spec.ignored_tokens / spec.tokens),
        )

    def make_inputs(self, spec: DistillationSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        import torch

        def empty(rows: int) -> torch.Tensor:
            return torch.empty(rows, spec.hidden_size, dtype=torch_dtype(spec.dtype), device=device)

        inputs = {
            "student_hidden": empty(spec.tokens),
            "student_weight": empty(spec.vocab_size),
            "teacher_hidden": empty(spec.tokens),
            "teacher_weight": empty(spec.vocab_size),
            "labels": torch.empty(spec.tokens, dtype=torch.int64, device=device),
        }
        self.redraw(spec, inputs, generator)
        return inputs

    def redraw(self, spec: DistillationSpec, inputs: Mapping[str, torch.Tensor], generator: torch.Generator) -> None:
        import torch

        with torch.no_grad():
            for model in ("student", "teacher"):
                fill_normal(inputs[f"{model}_hidden"], generator)
                fill_normal(inputs[f"{model}_weight"], generator).mul_(1.0 / math.sqrt(spec.hidden_size))
        draw_labels(inputs["labels"], spec.vocab_size, spec.ignored_tokens, generator)

    def bind(self, spec: DistillationSpec, built: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]) -> Bound:
        loss = built["distillation_loss"]
        names = ("student_hidden", "student_weight", "teacher_hidden", "teacher_weight", "labels")
        return Bound(lambda inputs: {"loss": scalar(loss(*(inputs[name] for name in names)))})

    def reference(
        self, spec: DistillationSpec, inputs: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        import torch

        def log_probabilities(model: str) -> torch.Tensor:
            logits = inputs[f"{model}_hidden"] @ inputs[f"{model}_weight"].t()
            return logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))

        def kl(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return (a.exp() * (a - b)).sum(-1)

        student, teacher = log_probabilities("student"), log_probabilities("teacher")
        if spec.divergence == "jsd":
            middle = torch.logaddexp(student, teacher) - math.log(2.0)
            each = (kl(teacher, middle) + kl(student, middle)) / 2.0
        else:
            each = kl(teacher, student) if spec.divergence == "forward_kl" else kl(student, teacher)
        counted = inputs["labels"] != IGNORED
        return {"loss": (each * counted).sum() / (spec.counted_tokens or counted.sum())}

    def slice(self, spec: DistillationSpec) -> tuple[DistillationSpec, Pick] | None:
        """The gradient of some of the student's hidden states, evenly spread: it depends on both weights and on how many labels count,
        on no other token.

        Loss and gradient of the weight are sums over all tokens and have no part.
        """
        rows, count = spread(spec.tokens, SLICE_ELEMENTS // spec.vocab_size)
        counted = spec.tokens - spec.ignored_tokens

        def pick(name: str, tensor: torch.Tensor) -> torch.Tensor | None:
            if name in ("loss", "grad_student_weight"):
                return None
            return tensor if name.endswith("weight") else tensor[rows]

        return dataclasses.replace(spec, tokens=count, ignored_tokens=0, counted_tokens=counted), pick

    def isolate(self, spec: DistillationSpec, inputs: Mapping[str, torch.Tensor]) -> tuple[DistillationSpec, Pick] | None:
        """All labels but those of the slice are ignored: then the loss and the gradient of the weight are the slice's own."""
        rows, count = spread(spec.tokens, SLICE_ELEMENTS // spec.vocab_size)
        kept = inputs["labels"][rows].clone()
        counted = int((kept != IGNORED).sum())
        if not counted:
            return None
        inputs["labels"].fill_(IGNORED)[rows] = kept

        def pick(name: str, tensor: torch.Tensor) -> torch.Tensor | None:
            return tensor if name == "loss" or name.endswith("weight") else tensor[rows]

        return dataclasses.replace(spec, tokens=count, ignored_tokens=count - counted, counted_tokens=None), pick


WORKLOAD = DistillationLoss()
