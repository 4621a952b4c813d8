"""What the divergence between two models' words is, once their log-probabilities are there: inputs, semantics, reference, cost.

    s[t, v] the student's log-probabilities, q[t, v] the teacher's, m = log((exp s + exp q) / 2)
    kl      mean over tokens t of the sum over v of  exp q (q - s)                                torch's `kl_div`, reduction `batchmean`
    jsd     mean over tokens t of the sum over v of (exp q (q - m) + exp s (s - m)) / 2          Lin, 1991, IEEE Trans. Inf. Theory 37(1)

The slot is a function fn(student, teacher) -> scalar on (tokens, vocab_size), contiguous. `student` gets a gradient. `teacher` is a
constant: probabilities for kl, as `kl_div` takes them by itself, and log-probabilities for jsd. The products that made them, and the
softmaxes, are no part of it; `distillation_loss` is the whole.

Cost counts per number: kl 4 forward (logarithm, difference, product, sum) and 1 for the gradient; jsd 12 (three exponentials and
logarithms, the mean, two differences, products and halves, the sum) and 2. Bytes are the least: both inputs once forward; the gradient
once backward, and what it is made of, which for kl is the teacher alone.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from bench.declare import Bound, Param, Pick, SlotKind, Workload, dtype_bytes, fill_normal, torch_dtype
from bench.records import Case, Cost, Pass
from bench.workloads.cross_entropy._overwritten import scalar
from bench.workloads.rms_norm._spread import spread

if TYPE_CHECKING:
    import torch

DIVERGENCES = ("kl", "jsd")
SMALL_TOKENS = 33
SLICE_ELEMENTS = 2**22
NEVER = -80.0
"""The logarithm of a probability that is nothing beside 1 and still above 0 in fp32."""


@dataclass(frozen=True, slots=True)
class DivergenceSpec:
    """student and teacher (tokens, vocab_size) in `dtype`."""

    divergence: str
    """One of `DIVERGENCES`."""
    tokens: int
    vocab_size: int
    dtype: str
    training: bool = True
    """False where no gradient will be asked for."""
    of_tokens: int | None = None
    """Over how many tokens the mean is taken where it is not over its own: in a part of a larger problem."""


class DivergenceLoss(Workload):
    name = "divergence_loss"
    version = 1
    slots: ClassVar[Mapping[str, SlotKind]] = {"divergence_loss": SlotKind.FUNCTION}
    params = (
        Param("tokens", int, minimum=1, description="rows, all sequences together"),
        Param("between", str, default="kl", choices=DIVERGENCES, description="which divergence of student and teacher"),
    )
    dims = ("vocab_size",)
    constants = frozenset({"teacher"})

    def spec(self, case: Case) -> DivergenceSpec:
        params: Mapping[str, Any] = case.params
        return DivergenceSpec(
            divergence=str(params["between"]),
            tokens=int(params["tokens"]),
            vocab_size=int(params["vocab_size"]),
            dtype=case.dtype,
            training=case.pass_.differentiates,
        )

    def cost(self, spec: DivergenceSpec, pass_: Pass) -> Cost:
        """FLOPs and bytes by the essay above."""
        numbers = spec.tokens * spec.vocab_size
        size = numbers * dtype_bytes(spec.dtype)
        forward, backward, read = (4, 1, 1) if spec.divergence == "kl" else (12, 2, 2)
        flops, moved = {
            Pass.FORWARD: (forward, 2),
            Pass.BACKWARD: (backward, read + 1),
            Pass.FORWARD_BACKWARD: (forward + backward, 3),
        }[pass_]
        return Cost(flops=flops * numbers, bytes=moved * size, tokens=spec.tokens)

    def small_spec(self, spec: DivergenceSpec) -> DivergenceSpec:
        """Few tokens, and the whole vocabulary: kernels go over a row in blocks."""
        return dataclasses.replace(spec, tokens=min(spec.tokens, SMALL_TOKENS))

    def make_inputs(self, spec: DivergenceSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        import torch

        shape = (spec.tokens, spec.vocab_size)
        inputs = {name: torch.empty(shape, dtype=torch_dtype(spec.dtype), device=device) for name in ("student", "teacher")}
        self.redraw(spec, inputs, generator)
        return inputs

    def redraw(self, spec: DivergenceSpec, inputs: Mapping[str, torch.Tensor], generator: torch.Generator) -> None:
        """Logits are normal; a softmax of some rows at a time takes little room."""
        import torch

        with torch.no_grad():
            for name, tensor in inputs.items():
                fill_normal(tensor, generator)
                for rows in tensor.split(max(1, min(spec.tokens // 16, SLICE_ELEMENTS // spec.vocab_size))):
                    logs = rows.float().log_softmax(-1)
                    rows.copy_(logs.exp_() if name == "teacher" and spec.divergence == "kl" else logs)

    def bind(self, spec: DivergenceSpec, built: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]) -> Bound:
        loss = built["divergence_loss"]
        return Bound(lambda inputs: {"loss": scalar(loss(inputs["student"], inputs["teacher"]))})

    def reference(
        self, spec: DivergenceSpec, inputs: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        import torch

        longest = torch.promote_types(inputs["student"].dtype, torch.float32)
        student, teacher = inputs["student"].to(longest), inputs["teacher"].to(longest)
        if spec.divergence == "kl":
            total = (torch.xlogy(teacher, teacher) - teacher * student).sum()
        else:
            middle = torch.logaddexp(student, teacher) - math.log(2.0)
            total = (teacher.exp() * (teacher - middle) + student.exp() * (student - middle)).sum() / 2.0
        return {"loss": total / (spec.of_tokens or spec.tokens)}

    def slice(self, spec: DivergenceSpec) -> tuple[DivergenceSpec, Pick] | None:
        """The gradient of evenly spread tokens: it depends on no other token but for how many there are. The loss is a mean over all."""
        rows, count = spread(spec.tokens, SLICE_ELEMENTS // spec.vocab_size)

        def pick(name: str, tensor: torch.Tensor) -> torch.Tensor | None:
            return None if name == "loss" else tensor[rows]

        return dataclasses.replace(spec, tokens=count, of_tokens=spec.tokens), pick

    def isolate(self, spec: DivergenceSpec, inputs: Mapping[str, torch.Tensor]) -> tuple[DivergenceSpec, Pick] | None:
        """All tokens but those of the slice add nothing to the loss: for kl the teacher's are 0, for jsd both are sure of one word."""
        import torch

        rows, count = spread(spec.tokens, SLICE_ELEMENTS // spec.vocab_size)
        with torch.no_grad():
            for name in ("teacher",) if spec.divergence == "kl" else ("student", "teacher"):
                kept = inputs[name][rows].clone()
                inputs[name].fill_(0.0 if spec.divergence == "kl" else NEVER)
                if spec.divergence == "jsd":
                    inputs[name][:, 0] = 0.0
                inputs[name][rows] = kept

        def pick(name: str, tensor: torch.Tensor) -> torch.Tensor | None:
            return tensor if name == "loss" else tensor[rows]

        return dataclasses.replace(spec, tokens=count, of_tokens=spec.tokens), pick


WORKLOAD = DivergenceLoss()
