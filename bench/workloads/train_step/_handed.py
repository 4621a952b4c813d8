"""Are the gradients right that the first update is made of? Each weight's, beside those of plain PyTorch, at the small problem.

A curve forgives much of this: AdamW learns the same from a gradient of any size, and where bf16 loses updates a layer that sees what it
must not is lost in that. A gradient of the weights as they begin has one backward's rounding in it and nothing else. It is looked at twice:
as the backward leaves it, with the scale taken off, and as the optimizer gets it, clipped. So a sum in the place of a mean, a scale that
stays on, and clipping that is left out or comes too early all show, in whatever dtype. A weight's gradient may be off by

    2 * (noise + dtype) + 1e-3 of itself + 1e-5 of all gradients together       (root sums of squares)

noise and dtype as in `_learning.py`. The last term is for gradients that are nothing but rounding, as that of a bias of keys. Looked at
where one process holds whole gradients, its optimizer says when it begins, and nothing else declares a tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.records import Check

if TYPE_CHECKING:
    import torch

    from bench.workloads.train_step._step import TrainingStep

PLAIN_FACTOR = 2.0
FLOOR_OF_ITSELF = 1e-3
FLOOR_OF_ALL = 1e-5

Gradients = Mapping[str, "torch.Tensor"]


@dataclass(frozen=True, slots=True)
class Handed:
    """Gradients of one step by the names of the weights, in fp64."""

    index: int
    """Of the batch, from 0: steps before it were skipped."""
    scale: float
    left: Gradients
    """By the backward, with the scale taken off."""
    clipped: Gradients
    """As the optimizer got them."""


class FirstHanded:
    """Listens to a step until its first update is made."""

    def __init__(self, step: TrainingStep) -> None:
        self.found: Handed | None = None
        self._step = step
        self._calls = -1
        self._scale = 1.0
        self._left: Gradients = {}
        self._names = {id(weight): name for name, weight in step.model.named_parameters()}
        exact = all(entry.tolerance is None for slot, entry in step.implementations.items() if slot != "optimizer")
        self._handle: Any = None
        listen = getattr(step.update.optimizer, "register_step_pre_hook", None)
        if exact and step.driver.whole and step.driver.ranks == 1 and listen is not None:
            self._handle = listen(self._hand)

    def begin(self, phase: str) -> None:
        """To be told of each phase of the step."""
        if self._handle is None or phase != "optimizer":
            return
        self._calls += 1
        self._scale = self._step.update.scale
        readable = self._step.driver.gradients() or []
        self._left = {self._names[id(weight)]: gradient.double() / self._scale for weight, gradient in readable}

    def _hand(self, *_: Any) -> None:
        update = self._step.update
        updated = zip(update.learned, update.masters or update.learned, strict=True)
        clipped = {self._names[id(weight)]: kept.grad.double() for weight, kept in updated if kept.grad is not None}
        self.found = Handed(self._calls, self._scale, self._left, clipped)
        self._handle.remove()
        self._handle = None


def handed_checks(handed: Handed, clip_norm: float, plain: Callable[[int | None], Gradients], exact: Gradients) -> list[Check]:
    """Of both looks, each told by the weight that is farthest off; none where plain PyTorch's gradients are not finite either.

    `plain(shaken)` are those of plain PyTorch in the step's own dtypes, with the scale taken off; `exact` in fp32.
    """
    alike, shaken = plain(None), [plain(seed) for seed in (1, 2)]
    if not all(_total(gradients) < float("inf") for gradients in (alike, exact, *shaken)):
        return []
    found = [_check("gradients", handed.left, alike, shaken, exact)]
    if clip_norm:
        alike, exact, *shaken = (_clipped(gradients, clip_norm) for gradients in (alike, exact, *shaken))
    return [*found, _check("gradients of the update", handed.clipped, alike, shaken, exact)]


def _check(name: str, got: Gradients, alike: Gradients, shaken: list[Gradients], exact: Gradients) -> Check:
    told = [weight for weight in alike if weight in got and got[weight].shape == alike[weight].shape]
    total = _total(exact)
    rows = []
    for weight in told:
        size = float(exact[weight].norm()) or total
        noise = max(float((other[weight] - alike[weight]).norm()) for other in shaken)
        plain_error = noise + float((alike[weight] - exact[weight]).norm())
        limit = PLAIN_FACTOR * plain_error + FLOOR_OF_ITSELF * size + FLOOR_OF_ALL * total
        error = float((got[weight] - alike[weight]).norm())
        rows.append((error / limit if limit else 0.0, weight, error / size, plain_error / size, limit / size))
    if not rows:
        return Check(name, "small", None, None, None, False, "no weight of the model has a gradient")
    lost = [row for row in rows if not row[0] < float("inf")]
    if lost:
        return Check(name, "small", None, None, None, False, f"that of {lost[0][1]} is not finite, where plain PyTorch's is")
    _, weight, error, plain_error, limit = max(rows)
    detail = f"of {weight}, as a share of itself; {len(told)} of {len(alike)} weights were compared"
    return Check(name, "small", error, plain_error, limit, error <= limit, detail)


def _total(gradients: Gradients) -> float:
    return float(sum(float(gradient.square().sum()) for gradient in gradients.values()) ** 0.5)


def _clipped(gradients: Gradients, clip_norm: float) -> Gradients:
    factor = min(1.0, clip_norm / (_total(gradients) + 1e-6))
    return {weight: gradient * factor for weight, gradient in gradients.items()}
