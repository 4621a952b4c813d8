"""What a training step is: a decoder of transformers with random weights, one step of training, and everything that can be switched.

The question of whoever trains: which combination is worth switching on for this model, context and GPU, what does it buy, and does the
model still learn the same thing? The slots are filled by the very files that are measured alone:

    attention, rms_norm, rope, swiglu, linear_cross_entropy, linear, optimizer     one part of the model or of the step each
    compile, checkpointing, adaptation, qat                                        changes of the model
    precision                                                                      dtypes and loss scaling, see `precision/__init__.py`
    sharding                                                                       what ranks share, see `sharding/__init__.py`
    offloading                                                                     what leaves the device, see `offloading/__init__.py`

A step: gradients let go, forward, loss and backward of each micro-batch, clipping, update. It is timed whole, on the same batch; its
phases can be timed apart. The weights change from call to call, as they do in training. Resident between two steps are weights, states
and a master copy, which `peak_bytes` leaves out and `peak_total_bytes` holds; gradients and activations come and go within the step.

What a slot says nothing of is as in a plain run of transformers, whose models come in bf16 and train so: eager parts, all weights,
AdamW as a list of tensors (`adamw_foreach`), nothing compiled or computed again. `layers` stands for the fused parts together.

The tokens come from a seeded Markov source (`_data.py`), so there is something to learn and a known end to it. Checks are of learning:
`_learning.py`, `_handed.py`. At the measured size the loss must be finite and not diverge (`_course.py`). Work is told in `_flops.py`.
What was at work is told by kernel patterns,
where they can be told apart within a whole step, and by what the step did (`_witness.py`).

How a model is made and filled: `_model.py`, `_fill.py`, `_assemble.py`; families and what is refused of them: `_architectures.py`.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from bench.declare import Bound, Implementation, Param, Pick, SlotKind, Workload
from bench.records import Case, Check, Cost, Pass, Proof, Scalar
from bench.workloads.precision import NUMERICS, Numerics
from bench.workloads.train_step._architectures import ARCHITECTURES, refuse_impossible, windows
from bench.workloads.train_step._flops import model_flops
from bench.workloads.train_step._spec import PACKINGS, RANDOM, DecoderShape, TrainStepSpec
from bench.workloads.train_step._stored import known_by
from bench.workloads.train_step._zero import ZERO_PARAMS, zero_options

if TYPE_CHECKING:
    import torch

    from bench.workloads.train_step._step import TrainingStep

OF_THE_WEIGHTS = ("rms_norm",)
"""Slots that get the dtype of the weights; the optimizer gets that of what it updates, the others that of computing."""

DIMS = tuple(field.name for field in dataclasses.fields(DecoderShape))


def _shape(params: Mapping[str, Any]) -> DecoderShape:
    return DecoderShape(**{name: params[name] for name in DIMS})


class TrainStep(Workload):
    name = "train_step"
    version = 2
    slots: ClassVar[Mapping[str, SlotKind]] = {
        "attention": SlotKind.FUNCTION,
        "rms_norm": SlotKind.MODULE,
        "rope": SlotKind.FUNCTION,
        "swiglu": SlotKind.MODULE,
        "linear_cross_entropy": SlotKind.FUNCTION,
        "linear": SlotKind.MODULE,
        "optimizer": SlotKind.OPTIMIZER,
        "compile": SlotKind.MODEL,
        "checkpointing": SlotKind.MODEL,
        "precision": SlotKind.MODEL,
        "adaptation": SlotKind.MODEL,
        "qat": SlotKind.MODEL,
        "sharding": SlotKind.MODEL,
        "offloading": SlotKind.MODEL,
    }
    params: ClassVar[tuple[Param, ...]] = (
        Param("seq_len", int, minimum=2, description="tokens per sequence"),
        Param("batch", int, default=1, minimum=1, description="sequences of a micro-batch"),
        Param(
            "accumulation", int, default=1, minimum=1, description="micro-batches whose gradients are added up before the update"
        ),
        Param("clip_norm", float, default=1.0, minimum=0.0, description="norm to which gradients are cut; 0: they are not"),
        Param(
            "packing", str, default="full", choices=PACKINGS, description="one endless text, packed documents, or one padded text"
        ),
        Param(
            "documents",
            int,
            default=8,
            minimum=1,
            description="documents of unequal length in each sequence under packing: packed",
            only_where=("packing", "packed"),
        ),
        Param("dropout", float, default=0.0, minimum=0.0, below=1.0, description="probability that an attention weight is dropped"),
        Param(
            "loss_weight",
            float,
            default=1.0,
            minimum=0.0,
            description="factor of the loss: below 1 gradients get as small as in a much larger batch, or under a small auxiliary loss",
        ),
        Param("lr", float, default=1e-4, minimum=0.0, description="learning rate"),
        Param("weights", str, default=RANDOM, untold=RANDOM, description="random, or name@hash of the folder given by --weights"),
        Param("data_seed", int, default=0, minimum=0, description="of the source that the tokens come from"),
        *ZERO_PARAMS,
    )
    dims = DIMS
    passes = (Pass.STEP,)
    constants = frozenset({"input_ids", "labels", "position_ids"})
    defaults: ClassVar[Mapping[str, str]] = {
        "attention": "eager",
        "rms_norm": "eager",
        "rope": "eager",
        "swiglu": "eager",
        "linear_cross_entropy": "eager",
        "linear": "plain",
        "optimizer": "adamw_foreach",
        "compile": "none",
        "checkpointing": "none",
        "precision": "bf16_pure",
        "adaptation": "full",
        "qat": "none",
        "sharding": "none",
        "offloading": "none",
    }
    shorthands: ClassVar[Mapping[str, tuple[str, ...]]] = {"layers": ("rms_norm", "rope", "swiglu", "linear_cross_entropy")}
    dtype_slot = "precision"
    composed = True

    def __init__(self) -> None:
        self._gaps: dict[TrainStepSpec, float] = {}
        """Found in the checks of this process, told among its findings."""
        self._curves_taken: dict[TrainStepSpec, int] = {}
        """Curves of plain PyTorch that an earlier trial had computed."""
        self._unanalysed: dict[str, str] = {}
        """Heard by all steps of this process, with the cause: what was traced for one serves those that are alike."""
        self._stored: Callable[[str], torch.Tensor] | None = None
        """Reads real weights by name; None where there is no folder of them."""

    def spec(self, case: Case) -> TrainStepSpec:
        params: Mapping[str, Any] = case.params
        shape = _shape(params)
        refuse_impossible(shape)
        if case.timer == "cuda_graph":
            raise ValueError(
                "timer cuda_graph is not for a training step: optimizers and loss scaling count on the host; use events or wall"
            )
        spec = TrainStepSpec(
            shape=shape,
            batch=int(params["batch"]),
            seq_len=int(params["seq_len"]),
            accumulation=int(params["accumulation"]),
            clip_norm=float(params["clip_norm"]),
            packing=str(params["packing"]),
            documents=int(params["documents"]) if params["packing"] == "packed" else None,
            dropout=float(params["dropout"]),
            loss_weight=float(params["loss_weight"]),
            lr=float(params["lr"]),
            data_seed=int(params["data_seed"]),
            dtype=case.dtype,
            fills=tuple(sorted(case.subject.items())),
            zero=zero_options(params),
            weights=str(params.get("weights", RANDOM)),
        )
        if not spec.labels_per_micro_batch:
            raise ValueError("documents of one token each leave nothing to be learned: take fewer of them, or a longer seq_len")
        return spec

    def stored_tensors(self, case: Case) -> Mapping[str, tuple[int, ...]]:
        """Names and shapes by which a folder of weights is known as this model's; none where they are random. All else is looked at
        when the model is filled."""
        params: Mapping[str, Any] = case.params
        return known_by(_shape(params)) if params.get("weights", RANDOM) != RANDOM else {}

    def with_weights(self, stored: Callable[[str], torch.Tensor]) -> TrainStep:
        """The same workload, which takes real weights from `stored(name)`, a tensor on the CPU."""
        bound = copy.copy(self)
        bound._stored = stored
        bound._gaps, bound._curves_taken, bound._unanalysed = {}, {}, {}
        return bound

    def seen_by(self, case: Case, slot: str) -> Case:
        """The case as the implementation in a slot sees it: parts of the model run forward and backward, in the dtype they really get."""
        if self.slots[slot] is SlotKind.MODEL:
            return case
        numerics = NUMERICS.get(case.subject["precision"], Numerics(case.dtype, case.dtype))
        if self.slots[slot] is SlotKind.OPTIMIZER:
            return dataclasses.replace(case, dtype=numerics.updated)
        dtype = numerics.weights if slot in OF_THE_WEIGHTS else numerics.compute
        return dataclasses.replace(case, dtype=dtype, pass_=Pass.FORWARD_BACKWARD)

    def imports(self, case: Case) -> tuple[str, ...]:
        """The family's modelling module of transformers, which takes seconds to import; nothing for a family that is refused."""
        family = ARCHITECTURES.get(str(case.params["architecture"]))
        return () if family is None else (f"transformers.models.{family.module}.modeling_{family.module}",)

    def cost(self, spec: TrainStepSpec, pass_: Pass) -> Cost:
        """Model FLOPs and real tokens, see `_flops.py`; no least bytes, which would be those of an optimizer's states mostly."""
        frozen = spec.filled_with("adaptation") != "full"
        return Cost(flops=model_flops(spec, windows(spec.shape), frozen=frozen), tokens=spec.real_tokens)

    def small_spec(self, spec: TrainStepSpec) -> TrainStepSpec:
        from bench.workloads.train_step._learning import small_spec

        return small_spec(spec)

    def make_inputs(self, spec: TrainStepSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        from bench.workloads.train_step._data import make_batch

        return {name: tensor.to(device) for name, tensor in make_batch(spec, generator).items()}

    def make_parameters(self, spec: TrainStepSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """The seed of the weights, on the device where they are to be: a second set of weights would not fit beside the first."""
        import torch

        seed = torch.randint(2**31, (), generator=generator, device=generator.device)
        return {"seed": seed.to(device)}

    def bind(self, spec: TrainStepSpec, built: Mapping[str, Implementation], parameters: Mapping[str, torch.Tensor]) -> Bound:
        """`built` are the implementations themselves: a slot has several places in a model, and a spec for each."""
        from bench.workloads.train_step._assemble import assemble
        from bench.workloads.train_step._memory import holdings

        seed = parameters["seed"]
        step = assemble(spec, built, int(seed), seed.device, self._stored)
        step.unanalysed = self._unanalysed
        return Bound(
            step,
            prepare=step.prepare,
            phased=step.phased,
            holdings=lambda: holdings(step),
            close=step.driver.close,
            release=step.driver.release,
            settle=step.first_update.settle,
            steps=lambda: step.calls,
            course=lambda outputs: self._course(step, float(outputs["loss"])),
        )

    def _course(self, step: TrainingStep, loss: float) -> list[Check]:
        from bench.workloads.train_step._course import diverged

        return diverged(step.first_update.loss, loss, step.spec.shape.vocab_size, step.calls)

    def reference(
        self, spec: TrainStepSpec, inputs: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """Nothing: one step's loss says little. `property_checks` compare fifty."""
        return {}

    def slice(self, spec: TrainStepSpec) -> tuple[TrainStepSpec, Pick] | None:
        """None: every number depends on every weight."""
        return None

    def property_checks(
        self, spec: TrainStepSpec, bind: Callable[[Any], Bound], device: str, generator: torch.Generator
    ) -> list[Check]:
        from bench.workloads.train_step._curves import curves_of_this_run
        from bench.workloads.train_step._learning import compare_learning
        from bench.workloads.train_step._unanalysed import in_words

        step: Any = bind(self.small_spec(spec)).forward
        curves = curves_of_this_run()
        checks, gap = compare_learning(step, generator, curves)
        if gap is not None:
            self._gaps[spec] = gap
        self._curves_taken[spec] = curves.taken
        if (why := in_words(self._unanalysed, dict(spec.fills))) is None:
            return checks
        return [check if check.passed else dataclasses.replace(check, detail=f"{check.detail}; {why}") for check in checks]

    def findings(self, spec: TrainStepSpec, bound: Bound) -> Mapping[str, float]:
        """Memory of the step and its gradients at the first update; the loss's gap to fp32 where this process has checked it."""
        from bench.workloads.train_step._memory import memory_findings
        from bench.workloads.train_step._stability import gradient_findings

        step: Any = bound.forward
        gap = {"loss_gap": self._gaps[spec]} if spec in self._gaps else {}
        return {**memory_findings(step), **gradient_findings(step), **gap}

    def facts(self, spec: TrainStepSpec, bound: Bound) -> Mapping[str, Scalar]:
        """The dtype of everything that is kept or computed in, as it was found.

        `plain_curves_taken_over`: how many of the curves that the check compares with were computed by an earlier trial of the run.
        `kernels_not_analysed`: of which torch.compile could not tell what they write, and what to do about it.
        """
        from bench.workloads.train_step._facts import numerics_facts
        from bench.workloads.train_step._unanalysed import FACT, in_words

        step: Any = bound.forward
        taken = self._curves_taken.get(spec, 0)
        why = in_words(self._unanalysed, dict(spec.fills))
        told = {"plain_curves_taken_over": taken or None, FACT: why}
        return {**numerics_facts(step), **{name: fact for name, fact in told.items() if fact is not None}}

    def watched(self, spec: TrainStepSpec) -> frozenset[str]:
        """Slots whose kernels can be told by name within a whole step: none of the model's where it is compiled.

        Where a family's own part is of another kind than the slot's, it runs none of the slot's kernels. ZeRO's stage 3 puts a product of
        its own in the place of torch's linear, which forgets the weight between forward and backward.
        """
        if spec.filled_with("compile") != "none":
            return frozenset({"optimizer", "linear_cross_entropy"})
        unseen = {"linear", "linear_cross_entropy"} if spec.filled_with("sharding") == "zero3" else set()
        if not ARCHITECTURES[spec.shape.architecture].silu:
            unseen.add("swiglu")
        return frozenset(slot for slot, kind in self.slots.items() if kind is not SlotKind.MODEL and slot not in unseen)

    def proofs(self, spec: TrainStepSpec, bound: Bound) -> Mapping[str, Proof]:
        """What the state of the step says of its slots."""
        from bench.workloads.train_step._witness import proofs

        step: Any = bound.forward
        return proofs(step)


WORKLOAD = TrainStep()
