"""What quantization forgets, and whether training for it helps: a decoder learns a table by heart, is quantized, and is asked.

Quantized after training (slot ptq), or trained from the middle on as if it were quantized already and then converted (slot qat); both by
torchao, and what is asked is the converted model. Everything else is a training step (`train_step`): time and memory are those of a step
on the way, under qat of one for the format, by the same rules.

The task is easy to learn and hard to keep: a table of vocab_size^2 random facts (`_source.py`), and a model with hardly more room than they
need. A trial's seed draws weights, table and walks, so trials are the seeds; all subjects of a point see the same. After the timing a fresh
model is trained for `learning_steps` steps and asked on new walks: `accuracy`. `weight_bytes` are those of the converted model, in which
torchao keeps an int4 weight in a byte.

Checks: the step learns what plain PyTorch learns (as in `train_step`), a conversion changes weights by no more than the format costs, and a
model that was trained for a format computes the same once converted. Proof: how many layers of the model that was asked are quantized.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from bench.declare import Bound, Implementation, Param, SlotKind
from bench.records import Case, Check, Proof
from bench.workloads.train_step import TrainStep
from bench.workloads.train_step._spec import TrainStepSpec

if TYPE_CHECKING:
    import torch

    from bench.workloads.quantized_accuracy._learned import Learned


@dataclass(frozen=True, slots=True)
class AccuracySpec(TrainStepSpec):
    """A step, and how many of them make a training."""

    learning_steps: int = 1


class QuantizedAccuracy(TrainStep):
    name = "quantized_accuracy"
    version = 1
    slots: ClassVar[Mapping[str, SlotKind]] = {**TrainStep.slots, "ptq": SlotKind.MODEL}
    params = (
        Param("seq_len", int, default=32, minimum=2, description="tokens per sequence"),
        Param("batch", int, default=96, minimum=1, description="sequences of a step"),
        Param("clip_norm", float, default=1.0, minimum=0.0, description="norm to which gradients are cut; 0: they are not"),
        Param("lr", float, default=2e-2, minimum=0.0, description="learning rate"),
        Param("learning_steps", int, default=400, minimum=1, description="steps after which the model is converted and asked"),
    )
    defaults: ClassVar[Mapping[str, str]] = {**TrainStep.defaults, "precision": "fp32", "ptq": "none"}

    def __init__(self) -> None:
        super().__init__()
        self._learned: dict[TrainStepSpec, Learned] = {}
        """What this process has trained, for the proof."""

    def spec(self, case: Case) -> AccuracySpec:
        others = {param.name: param.default for param in TrainStep.params if param.only_where is None}
        plain = super().spec(dataclasses.replace(case, params={**others, **case.params}))
        fields = {field.name: getattr(plain, field.name) for field in dataclasses.fields(plain)}
        steps: Any = case.params["learning_steps"]
        return AccuracySpec(**fields, learning_steps=int(steps))

    def make_inputs(self, spec: TrainStepSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        import torch

        from bench.workloads.quantized_accuracy._source import make_source

        seed = torch.randint(2**31, (), generator=generator, device=generator.device)
        source = make_source(spec.shape.vocab_size, int(seed))
        return {name: tensor.to(device) for name, tensor in source.batch(spec.batch, spec.seq_len).items()}

    def bind(self, spec: TrainStepSpec, built: Mapping[str, Implementation], parameters: Mapping[str, torch.Tensor]) -> Bound:
        from bench.workloads.quantized_accuracy._learned import scheme_of

        scheme_of(spec, built)
        return super().bind(spec, built, parameters)

    def property_checks(
        self, spec: TrainStepSpec, bind: Callable[[Any], Bound], device: str, generator: torch.Generator
    ) -> list[Check]:
        import torch

        from bench.workloads.quantized_accuracy._learned import conversion_checks, scheme_of
        from bench.workloads.quantized_accuracy._source import make_source

        small = self.small_spec(spec)
        checks = super().property_checks(spec, bind, device, generator)
        source = make_source(small.shape.vocab_size, 1)
        step: Any = bind(small).forward
        scheme = scheme_of(small, step.implementations)
        return [*checks, *conversion_checks(step, scheme, source, torch.device(device))]

    def findings(self, spec: TrainStepSpec, bound: Bound) -> Mapping[str, float]:
        """`accuracy` and `weight_bytes` of the converted model; states and saved activations of the step."""
        from bench.workloads.qat.none import none as untouched
        from bench.workloads.quantized_accuracy._learned import learn, scheme_of
        from bench.workloads.quantized_accuracy._source import make_source
        from bench.workloads.train_step._assemble import assemble
        from bench.workloads.train_step._memory import memory_findings

        step: Any = bound.forward
        assert isinstance(spec, AccuracySpec)
        device = step.model.lm_head.weight.device
        source = make_source(spec.shape.vocab_size, step.seed)
        plain = assemble(spec, {**step.implementations, "qat": untouched}, step.seed, device)
        scheme = scheme_of(spec, step.implementations)
        learned = self._learned[spec] = learn(plain, scheme, source, spec.learning_steps, device)
        gap = {"loss_gap": self._gaps[spec]} if spec in self._gaps else {}
        return {**memory_findings(step), **gap, "weight_bytes": float(learned.weight_bytes), "accuracy": learned.accuracy}

    def proofs(self, spec: TrainStepSpec, bound: Bound) -> Mapping[str, Proof]:
        from bench.workloads.quantized_accuracy._learned import proof_of, scheme_of

        step: Any = bound.forward
        found = dict(super().proofs(spec, bound))
        if spec in self._learned:
            found["ptq"] = proof_of(self._learned[spec], scheme_of(spec, step.implementations).kind)
        return found


WORKLOAD = QuantizedAccuracy()
