"""Losses that write the gradient over their logits: how they say so, and how they get new logits before each call, untimed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.declare import Bound

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Overwrites:
    """A loss fn(logits, labels) that uses its logits up. In a model it is called like any other."""

    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

    def __call__(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.loss(logits, labels)


def scalar(loss: torch.Tensor) -> torch.Tensor:
    """The loss in fp32 at least: one number, whose rounding to a shorter dtype has already happened."""
    import torch

    return loss.to(torch.promote_types(loss.dtype, torch.float32))


def fresh_copies(loss: Overwrites) -> Bound:
    """`loss` on copies of the logits. The gradient goes to the logits themselves, without being copied."""
    import torch

    class Copied(torch.autograd.Function):
        """The copy as if it had just been made of the logits."""

        @staticmethod
        def forward(ctx: Any, logits: torch.Tensor, copy: torch.Tensor) -> torch.Tensor:
            return copy

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
            return gradients[0], None

    copies = _Copies()

    def forward(inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        logits = inputs["logits"]
        return {"loss": scalar(loss(Copied.apply(logits, copies.taken(logits)), inputs["labels"]))}

    return Bound(forward, prepare=lambda calls: copies.renew())


class _Copies:
    """One buffer, filled from the logits last seen. `renew` fills it ahead of a call; who finds it used up has it filled then."""

    def __init__(self) -> None:
        self._logits: torch.Tensor | None = None
        self._buffer: torch.Tensor | None = None
        self._fresh = False

    def renew(self) -> None:
        if self._logits is not None and self._buffer is not None:
            self._buffer.copy_(self._logits.detach())
            self._fresh = True

    def taken(self, logits: torch.Tensor) -> torch.Tensor:
        import torch

        if self._buffer is None or self._logits is not logits:
            self._logits, self._buffer, self._fresh = logits, torch.empty_like(logits.detach()), False
        if not self._fresh:
            self.renew()
        self._fresh = False
        return self._buffer
