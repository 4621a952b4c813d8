"""Trains a step to its end, converts the model, and counts how many answers are right."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.declare import Implementation, Unsupported, torch_dtype
from bench.records import Check, Proof
from bench.workloads.linear._held import held_bytes
from bench.workloads.qat._torchao import convert, linears, quantized_weights
from bench.workloads.quantized_accuracy._source import Source
from bench.workloads.train_step._spec import TrainStepSpec
from bench.workloads.train_step._step import TrainingStep

if TYPE_CHECKING:
    import torch

WARM_UP_STEPS = 20
STEADY_SHARE = 0.6
"""Of the steps that are made at the full learning rate; over the others it falls to a twentieth along half a cosine."""
LAST_SHARE = 0.05
ASKED_SEQUENCES = 256
WEIGHT_LIMITS: Mapping[str, float] = {"int8_dynamic": 0.02, "int4": 0.13}
"""Relative root mean square by which a format may change a layer's weights: of normal ones int8 by rows loses 1 % and int4 10 %."""
SAME_OUTPUT, SAME_OUTPUT_ULPS = 1e-3, 8.0
"""Relative root mean square by which a converted model may differ from the one that was trained as if it were converted; the larger of the
first and of so many spacings of the dtype that is computed in."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What came of one training."""

    accuracy: float
    """Share of right answers on walks that were not trained on."""
    weight_bytes: int
    """Of the whole converted model."""
    quantized: int
    """Linear layers of the blocks that are in a quantized format."""
    linears: int
    """All of them."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """What happens to a model on the way and in the end; all in place."""

    kind: str | None
    """The format that it is converted to; None where it stays as it is."""
    prepare: Callable[[Any], Any] | None
    """Makes it ready to be trained for the format; None where it is not."""
    convert: Callable[[Any], Any]


def scheme_of(spec: TrainStepSpec, implementations: Mapping[str, Implementation]) -> Scheme:
    """As the slots qat and ptq say. Raises Unsupported where both do."""
    qat, ptq = (implementations[slot] for slot in ("qat", "ptq"))
    if qat.name == "none":
        return Scheme(None if ptq.name == "none" else ptq.name, None, ptq.builder(spec))
    if ptq.name != "none":
        raise Unsupported("a model is trained for its format (qat) or quantized after training (ptq), not both")
    return Scheme(qat.name, qat.builder(spec), functools.partial(convert, kind=qat.name))


def learn(step: TrainingStep, scheme: Scheme, source: Source, steps: int, device: torch.device) -> Learned:
    """Trains a fresh, plain step on walks of `source`, from the middle on for its format, and converts its model."""
    for index in range(steps):
        if index == steps // 2 and scheme.prepare is not None:
            scheme.prepare(step.model)
        _set_rate(step, step.spec.lr * rate(index, steps))
        batch = source.batch(step.spec.batch, step.spec.seq_len)
        step({name: tensor.to(device) for name, tensor in batch.items()})
    step.update.clear_gradients()
    model = scheme.convert(step.model)
    return Learned(accuracy(step, source, device), held_bytes(model), len(quantized_weights(model)), len(linears(model)))


def proof_of(learned: Learned, kind: str | None) -> Proof:
    """That the model which was asked is in the format that it should be in."""
    wanted = learned.linears if kind is not None else 0
    detail = f"{learned.quantized} of {learned.linears} linear layers of the model that was asked are quantized"
    return Proof("proved" if learned.quantized == wanted else "disproved", (), detail)


def rate(index: int, steps: int) -> float:
    """The share of the learning rate at a step: rising, steady, falling."""
    steady = STEADY_SHARE * steps
    falling = 0.0 if index < steady else (index - steady) / (steps - steady)
    return min(1.0, (index + 1) / WARM_UP_STEPS) * (LAST_SHARE + (1.0 - LAST_SHARE) * 0.5 * (1.0 + math.cos(math.pi * falling)))


def _set_rate(step: TrainingStep, lr: float) -> None:
    for group in step.update.optimizer.param_groups:
        group["lr"] = lr


def accuracy(step: TrainingStep, source: Source, device: torch.device) -> float:
    """Of the next walks of `source`; the first answer of each is left out, which nobody can know."""
    batch = source.batch(ASKED_SEQUENCES, step.spec.seq_len)
    said = _logits(step, batch["input_ids"].to(device)).argmax(-1).cpu()
    return float((said == batch["labels"])[:, 1:].double().mean())


def _logits(step: TrainingStep, input_ids: torch.Tensor) -> torch.Tensor:
    import torch

    numerics = step.numerics
    cast = torch.autocast(input_ids.device.type, torch_dtype(numerics.compute)) if numerics.autocast else contextlib.nullcontext()
    with step.running(), torch.no_grad(), cast:
        logits: torch.Tensor = step.model(input_ids=input_ids, use_cache=False).logits
    return logits


def conversion_checks(step: TrainingStep, scheme: Scheme, source: Source, device: torch.device) -> list[Check]:
    """That the converted weights are the trained ones in the format, and that what was trained for it computes as before.

    `step` is the subject's own, prepared where its slot qat says so; its model is converted in place.
    """
    import torch

    if scheme.kind is None:
        return []
    input_ids = source.batch(8, step.spec.seq_len)["input_ids"].to(device)
    before = {name: module.weight.detach().clone() for name, module in linears(step.model).items()}
    said = _logits(step, input_ids)
    converted = quantized_weights(scheme.convert(step.model))
    errors = [_relative(weight.dequantize(), before[name]) for name, weight in converted.items()]
    worst = max(errors, default=math.inf)
    limit = WEIGHT_LIMITS[scheme.kind]
    detail = f"{len(converted)} of {len(before)} linear layers of the blocks are quantized"
    whole = len(converted) == len(before)
    checks = [Check("converted_weights", "small", worst if errors else None, None, limit, whole and worst <= limit, detail)]
    if scheme.prepare is not None:
        error = _relative(_logits(step, input_ids), said)
        limit = max(SAME_OUTPUT, SAME_OUTPUT_ULPS * torch.finfo(torch_dtype(step.numerics.compute)).eps)
        checks.append(Check("converted_output", "small", error, None, limit, error <= limit))
    return checks


def _relative(tensor: torch.Tensor, exact: torch.Tensor) -> float:
    return float((tensor.double() - exact.double()).norm() / exact.double().norm())
