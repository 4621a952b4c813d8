"""Is an optimizer what it says, and how far does it walk from fp32 AdamW? Told by some tens of steps at a small shape.

A single step proves little: AdamW's first update is the gradient's sign, whatever the betas. So `STEPS` steps are made, with
gradients that have a constant part and a random one, rows of unequal size, and that grow from step to step; decay and learning rate
are high enough to be seen beside rounding. What is compared is the change of each parameter, not its value, beside which a wrong
change would be small:

    e(subject) <= max(2 * e(plain PyTorch in the case's dtype) + eps(fp32) / (2 (1 - beta2)) + eps(dtype), tolerance of the recipe)

with e the root mean square of the difference to the algorithm in float64, relative to that change. The second term is for kernels
that subtract beta2 from 1 in fp32, as all compiled ones do (6e-5 are granted, 7e-6 seen), the third for those that round
hyper-parameters to the parameters' dtype. In fp32 a wrong beta stands out a hundred times. Beside 8-bit states (0.025; right ones reach
0.014) and beside bf16 (0.03) an AdamW with betas 0.8 or 0.99 stands out (0.2 and 0.03), and a forgotten decay (0.2): it is 1/128 a
step here, and would drown in both at a tenth of that. What is left of a parameter, 1 - 1/128, is a number of bf16: torch's foreach on a
CPU rounds it to the parameters' dtype (0.99 to 0.988), which is no mistake in the algorithm.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from bench.declare import fill_normal, torch_dtype
from bench.records import Check
from bench.workloads.optimizer._algorithms import REFERENCES
from bench.workloads.optimizer._recipe import OptimizerSpec
from bench.workloads.optimizer._update import Update

if TYPE_CHECKING:
    import torch

    from bench.declare import Workload

STEPS = 40
GROWTH = 1.1
CONSTANT_PART = 0.5
ROW_SPREAD = 0.5
"""Standard deviation of the logarithm of a row's size."""
PLAIN_FACTOR = 2.0
CHECKED_DECAY = 0.781_25
CHECKED_LR = {"adamw": 1e-2, "lion": 1e-2, "muon": 1e-2, "sgd": 1e-2, "adafactor": 0.1}
"""By algorithm: Adafactor's steps are relative to the parameters, and the others' to nothing."""
CHECKED_STD = 0.02
"""Of all parameters: beside ones, as norms have, a step would drown in bf16's rounding."""
ERROR_SEED = 20_260_102

Tensors = Mapping[str, "torch.Tensor"]


def checks_of(spec: OptimizerSpec, make: Callable[[OptimizerSpec], Update], generator: torch.Generator) -> list[Check]:
    """One check a tensor of `spec`; `make` builds the subject anew. `generator` draws on the host."""
    import torch

    name = make(spec).recipe.algorithm
    spec = dataclasses.replace(spec, lr=CHECKED_LR[name], weight_decay=CHECKED_DECAY)
    update = make(spec)
    for parameter in update.parameters.values():
        fill_normal(parameter, generator).detach().mul_(CHECKED_STD)
    given = [_on_device_of(update, drawn) for drawn in gradients(spec, generator)]
    before = _copies(update.parameters)
    _walk(update, given)
    rounding = torch.finfo(torch.float32).eps / (2.0 * (1.0 - spec.betas[1])) + torch.finfo(torch_dtype(spec.dtype)).eps
    checks = []
    for tensor, parameter in update.parameters.items():
        own = [drawn[f"{tensor}.gradient"] for drawn in given]
        exact = _change(spec, name, before[tensor], own, "float64")
        error = _relative(parameter.detach().double() - before[tensor].double(), exact)
        plain = _relative(_change(spec, name, before[tensor], own, None), exact)
        granted = PLAIN_FACTOR * plain if math.isfinite(plain) else 0.0
        limit = max(granted + rounding, update.recipe.tolerance or 0.0)
        checks.append(_check(f"{tensor} by {name}", error, plain, limit, declared=update.recipe.tolerance is not None))
    return checks


def update_error(workload: Workload, spec: OptimizerSpec, update: Update) -> float:
    """How far `STEPS` steps of a like optimizer come from fp32 AdamW's, with the hyper-parameters of `spec`, all tensors together.

    The same parameters and gradients for all. The change is that of AdamW in fp32, from the numbers as the case's dtype holds them.
    """
    import torch

    device = str(next(iter(update.parameters.values())).device)
    generator = torch.Generator().manual_seed(ERROR_SEED)
    parameters = workload.make_parameters(spec, device, generator)
    like = Update.of(spec, update.recipe, parameters)
    given = [_on_device_of(like, drawn) for drawn in gradients(spec, generator)]
    before = _copies(parameters)
    _walk(like, given)
    off = size = 0.0
    for tensor, parameter in parameters.items():
        change = _change(spec, "adamw", before[tensor], [drawn[f"{tensor}.gradient"] for drawn in given], "float32")
        off += float((parameter.detach().double() - before[tensor].double() - change).square().sum())
        size += float(change.square().sum())
    return (off / size) ** 0.5


def gradients(spec: OptimizerSpec, generator: torch.Generator) -> list[dict[str, torch.Tensor]]:
    """Those of `STEPS` steps, in the spec's dtype, on the generator's device."""
    import torch

    def normal(shape: Sequence[int]) -> torch.Tensor:
        return fill_normal(torch.empty(tuple(shape), device=generator.device), generator)

    steps: list[dict[str, torch.Tensor]] = [{} for _ in range(STEPS)]
    for name, shape in spec.shapes:
        size = (ROW_SPREAD * normal((shape[0], *(1 for _ in shape[1:])))).exp()
        constant = CONSTANT_PART * normal(shape)
        for step, drawn in enumerate(steps):
            drawn[f"{name}.gradient"] = (size * (constant + normal(shape)) * GROWTH**step).to(torch_dtype(spec.dtype))
    return steps


def _on_device_of(update: Update, drawn: Tensors) -> dict[str, torch.Tensor]:
    return {f"{name}.gradient": drawn[f"{name}.gradient"].to(parameter.device) for name, parameter in update.parameters.items()}


def _copies(tensors: Tensors) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def _walk(update: Update, given: Sequence[Tensors]) -> None:
    for drawn in given:
        update.forward(drawn)


def _change(
    spec: OptimizerSpec, algorithm: str, before: torch.Tensor, given: Sequence[torch.Tensor], dtype: str | None
) -> torch.Tensor:
    """What the algorithm adds to a parameter in all steps, computed in `dtype` (None: the parameter's own), in float64."""
    import torch

    compute = getattr(torch, dtype) if dtype else before.dtype
    states: dict[str, torch.Tensor] = {}
    parameter = before.to(compute)
    with torch.no_grad():
        for step, gradient in enumerate(given, 1):
            parameter = REFERENCES[algorithm](spec, step, parameter, gradient.to(compute), states)
    return parameter.double() - before.double()


def _relative(change: torch.Tensor, exact: torch.Tensor) -> float:
    """Root mean square of the difference over that of `exact`; not finite where `change` is not."""
    return float((change - exact).norm() / exact.norm())


def _check(name: str, error: float, plain: float, limit: float, *, declared: bool) -> Check:
    of_plain = plain if math.isfinite(plain) else None
    also = "" if of_plain is not None else "; plain PyTorch in the same dtype does not stay finite"
    if not math.isfinite(error):
        return Check(name, "small", None, of_plain, limit, False, f"not finite{also}")
    against = ", against the tolerance that the implementation declares" if declared else ""
    words = f"relative root mean square of the change, after many steps{against}{also}"
    return Check(name, "small", error, of_plain, limit, error <= limit, words)
