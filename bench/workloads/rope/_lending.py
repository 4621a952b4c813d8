"""Lends tensors to kernels that overwrite them, so that a call can be repeated and the copy is never timed.

In a model a rotation gets what a projection has just made, and a normalisation gets a gradient that nobody else will read. Kernels
that write their results over them use that up. Here the same tensors serve for all calls, so such a kernel gets copies. They are
made in `Bound.prepare`, before the clock starts; autograd sees them as the tensors that they stand for. A call for which nothing was
prepared (in checks) gets a copy made then and there.

What a builder returns says so by an attribute: `overwrites_inputs`, `overwrites_gradient`. Others get the tensors themselves. A CUDA
graph cannot be lent to: it replays on the tensors that it was captured with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bench.declare import Unsupported

if TYPE_CHECKING:
    import torch


class Lender:
    """Copies of one group of tensors that always come together, ready for calls to come."""

    def __init__(self) -> None:
        self._originals: tuple[torch.Tensor, ...] = ()
        self._versions: tuple[int, ...] = ()
        self._ready: list[tuple[torch.Tensor, ...]] = []

    def prepare(self, calls: int) -> None:
        """Makes copies for so many calls, of the tensors that were taken last. Before the first `take` there is nothing to copy."""
        self._ready.clear()
        self._versions = tuple(tensor._version for tensor in self._originals)
        if self._originals:
            self._ready.extend(_copies(self._originals) for _ in range(calls))

    def take(self, *originals: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Copies that the caller may overwrite. Raises Unsupported while a CUDA graph is captured."""
        import torch

        same = [tensor.data_ptr() for tensor in originals] == [tensor.data_ptr() for tensor in self._originals]
        current = same and tuple(tensor._version for tensor in originals) == self._versions
        # Held on to, so that no other tensor can come to lie at its address.
        self._originals = tuple(tensor.detach() for tensor in originals)
        if current and self._ready:
            return self._ready.pop()
        self._ready.clear()
        if originals[0].is_cuda and torch.cuda.is_current_stream_capturing():
            raise Unsupported("it overwrites what it is given, and a replayed graph would go on from that; use timer events")
        return _copies(self._originals)


def _copies(tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """In the memory layout of the originals: a clone keeps it where the tensor is dense."""
    import torch

    with torch.no_grad():
        return tuple(tensor.clone() for tensor in tensors)


def lending(call: Callable[..., Any], built: Any) -> tuple[Callable[..., Any], Callable[[int], None] | None]:
    """`call` with copies in place of what `built` says it overwrites, and what to call untimed before so many calls of it.

    `call` takes tensors and returns one or a tuple of them. Where nothing is overwritten it is returned as it is, with None.
    """
    inputs, gradient = (bool(getattr(built, f"overwrites_{what}", False)) for what in ("inputs", "gradient"))
    if not (inputs or gradient):
        return call, None
    import torch

    of_inputs, of_gradient = Lender(), Lender()

    class Lent(torch.autograd.Function):
        """A copy that stands for its original: what is the gradient of one is that of the other."""

        @staticmethod
        def forward(ctx: Any, original: torch.Tensor, copy: torch.Tensor) -> torch.Tensor:
            return copy.view_as(copy)

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> Any:
            return gradient, None

    class Returned(torch.autograd.Function):
        """What was returned, as it is; its gradient is handed on as a copy."""

        @staticmethod
        def forward(ctx: Any, *returned: torch.Tensor) -> Any:
            return tuple(tensor.view_as(tensor) for tensor in returned)

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
            return of_gradient.take(*gradients)

    def lent_call(*tensors: torch.Tensor) -> Any:
        if inputs:
            tensors = tuple(Lent.apply(*pair) for pair in zip(tensors, of_inputs.take(*tensors), strict=True))
        returned = call(*tensors)
        if not (gradient and torch.is_grad_enabled()):
            return returned
        return Returned.apply(*returned) if isinstance(returned, tuple) else Returned.apply(returned)[0]

    def prepare(calls: int) -> None:
        of_inputs.prepare(calls)
        of_gradient.prepare(calls)

    return lent_call, prepare
