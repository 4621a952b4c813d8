"""What the gradients of a step say about its precision: vanished and subnormal ones, their norm, the loss's scale, steps that were skipped.

They are those of the *first update that was made*: of the weights as they begin, on the trial's own batch. So every arm of a point is asked
the same, however many steps its timing took, and whether or not dynamic scaling skipped steps before. Reading them waits for the device,
so it is done in the first calls only, of which none is a sample. Both calls whose difference is the time to compile look, so that looking
is not in it. Where none of the first `UNTIMED_CALLS` made an update nothing is told.

Gradients are looked at before the scale is taken off, as they were computed: in fp16 the smallest normal number is 6.1e-5 and the smallest
of all 6.0e-8. Under autocast they arrive in fp32, but a product that came out as zero in fp16 stays zero, and one that was subnormal there
is recognised by its size. Only weights of matrices within the blocks count, since an embedding's gradient is zero for each token that did
not occur, in any precision; of adapters only the second matrix, since the first one's gradient is zero while the second still is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.declare import torch_dtype

if TYPE_CHECKING:
    import torch

    from bench.workloads.train_step._step import TrainingStep

COMPILING_CALLS = 2
"""The first call, and the warm one that is taken off it."""
UNTIMED_CALLS = 3
"""Calls before the first sample, in every trial: those two, and one to warm up at least."""
CHUNK = 2**23
"""Elements that are looked at together: what comparing them takes must be little beside what a backward has just let go of."""


@dataclass(frozen=True, slots=True)
class Gradients:
    """This rank's gradients before an update, or its parts of them."""

    numbers: int
    """Of the blocks' matrices, as the next three."""
    zeros: int
    subnormal: int
    nonfinite: int
    squares: float
    """Sum over all gradients, as computed; may be infinite or not a number."""


@dataclass(frozen=True, slots=True)
class Made:
    """The first update that was made."""

    call: int
    """The step's how-manieth, from 1."""
    scale: float
    gradients: Gradients | None
    """None where no weight has its own when the backward is over."""
    told_norm: float | None
    """Where who made the update tells it itself."""


class FirstUpdate:
    """Makes the updates of a step's first calls, and keeps what was seen at the first one that dynamic scaling did not skip."""

    def __init__(self) -> None:
        self.made: Made | None = None
        self.loss: float | None = None
        """Of the first call, of the weights as they begin."""
        self._calls = 0

    @property
    def looks(self) -> bool:
        """Whether the next update is to be made here."""
        return self._calls < (COMPILING_CALLS if self.made else UNTIMED_CALLS)

    def settle(self) -> None:
        """Looks no more."""
        self._calls = UNTIMED_CALLS

    def update(self, step: TrainingStep, loss: torch.Tensor) -> None:
        """The update of a step whose backward is over, with its loss."""
        self._calls += 1
        if self.loss is None:
            self.loss = float(loss)
        scale, skipped = step.update.scale, step.update.skipped_steps
        gradients = look(step)
        step.update.step()
        if self.made is None and step.update.skipped_steps == skipped:
            self.made = Made(self._calls, scale, gradients, step.driver.told_norm())


def look(step: TrainingStep) -> Gradients | None:
    """Counts and sums of the gradients as they are now."""
    import torch

    readable = step.driver.gradients()
    if readable is None:
        return None
    counted = _counted(step)
    smallest = torch.finfo(torch_dtype(step.numerics.compute)).tiny
    numbers = 0
    device = step.driver.parts.device
    counts = torch.zeros(3, dtype=torch.int64, device=device)
    squares = torch.zeros((), dtype=torch.float64, device=device)
    for weight, gradient in readable:
        for chunk in _chunks(gradient):
            squares += torch.linalg.vector_norm(chunk, dtype=torch.float32).to(device, torch.float64).square()
            if id(weight) in counted:
                numbers += chunk.numel()
                sizes = chunk.abs()
                found = (sizes == 0).sum(), (sizes < smallest).sum(), (sizes < math.inf).sum()
                counts += torch.stack(found).to(device)
    zeros, below, finite = counts.tolist()
    return Gradients(numbers, zeros, below - zeros, numbers - finite, float(squares))


def _chunks(gradient: torch.Tensor) -> Iterator[torch.Tensor]:
    """Rows of it, as views."""
    rows = max(1, CHUNK * gradient.shape[0] // max(gradient.numel(), 1)) if gradient.dim() else 1
    return iter(gradient.split(rows) if gradient.dim() else (gradient,))


def _counted(step: TrainingStep) -> set[int]:
    """The ids of the blocks' matrices whose gradients count."""
    from bench.workloads.adaptation.lora import ADAPTERS

    named = step.model.model.layers.named_parameters()
    return {id(weight) for name, weight in named if weight.requires_grad and weight.dim() == 2 and not name.endswith(ADAPTERS[0])}


def gradient_findings(step: TrainingStep) -> dict[str, float]:
    """Of the first update that was made; nothing where there was none yet. Called by all ranks.

    gradient_zero_share, gradient_subnormal_share and gradient_nonfinite_share of the numbers; gradient_norm, of all weights and all ranks
    and unscaled, where it is finite; loss_scale; skipped_steps, before it. Where an engine has the gradients only it tells the norm,
    and nobody the shares.
    """
    made, driver = step.first_update.made, step.driver
    seen = made.gradients if made else None
    sums = [1.0, seen.numbers, seen.zeros, seen.subnormal, seen.nonfinite, seen.squares] if seen else [0.0] * 6
    if driver.shares_gradients:
        sums = [driver.mean(value) * driver.ranks for value in sums]
    seeing, numbers, zeros, subnormal, nonfinite, squares = sums
    if made is None or (driver.shares_gradients and round(seeing) < driver.ranks):
        return {}
    found = {"loss_scale": made.scale, "skipped_steps": made.call - 1.0}
    if numbers:
        found |= {
            "gradient_zero_share": zeros / numbers,
            "gradient_subnormal_share": subnormal / numbers,
            "gradient_nonfinite_share": nonfinite / numbers,
        }
    norm = math.sqrt(squares) / made.scale if seen else made.told_norm
    if norm is not None and norm < math.inf:
        found["gradient_norm"] = norm
    return found
