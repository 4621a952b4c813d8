"""One call of a case's pass: what happens before the clock starts, and what the clock sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from bench.declare import Bound
from bench.records import Pass

PASS_MARK = "bench: the pass begins"
"""Under this name a profiler sees the timed part of a call."""

Tensors = Mapping[str, torch.Tensor]


def demand_tensors(outputs: Mapping[str, Any]) -> Tensors:
    """The same outputs, each one tensor. Raises TypeError for what is none: many kernels return their row sums as well, and say so here."""
    for name, output in outputs.items():
        if not isinstance(output, torch.Tensor):
            kind = type(output).__name__
            what = f"a {kind} of {len(output)}" if isinstance(output, tuple | list) else f"something else: {kind}"
            raise TypeError(f"`{name}` must be one tensor of torch; what was built returned {what}")
    return outputs


class Step:
    """The subject tied to its inputs. `prepare(calls)` is never timed; each of the next `calls` calls is.

    Every call that differentiates begins without gradients, so that none pays for adding to those of the call before. `prepare` clears
    them untimed; between the calls of one sample (more than one only where a call takes microseconds) they are cleared inside the
    region, some ten nanoseconds a tensor.
    """

    def __init__(self, bound: Bound, inputs: Tensors, cotangents: Tensors, pass_: Pass) -> None:
        self.bound = bound
        self.inputs = inputs
        self.pass_ = pass_
        self.leaves = [tensor for tensor in (*inputs.values(), *bound.parameters.values()) if tensor.requires_grad]
        self._cotangents = dict(cotangents)
        self._pending: list[Tensors] = []

    @property
    def cotangents(self) -> Tensors:
        return self._cotangents

    def clear_gradients(self) -> None:
        for leaf in self.leaves:
            leaf.grad = None

    def clear(self) -> None:
        """Lets go of gradients, and of forwards that wait for their backward."""
        self._pending.clear()
        self.clear_gradients()

    def prepare(self, calls: int = 1) -> None:
        """Clears gradients, lets the subject make ready what a call uses up, and runs the forwards that a backward alone needs."""
        self.clear()
        if self.bound.prepare is not None:
            self.bound.prepare(calls)
        if self.pass_ is Pass.BACKWARD:
            self._pending.extend(self.bound.forward(self.inputs) for _ in range(calls))

    def observed(self, returned: Any) -> Tensors:
        """Named outputs of what a call returned; not timed. Raises TypeError where one is no tensor."""
        observe = self.bound.observe
        return demand_tensors(returned if observe is None else observe(returned))

    def __call__(self) -> Any:
        """The timed part; returns the outputs so that they live until the clock has stopped."""
        if not self.pass_.differentiates:
            return self.bound.forward(self.inputs)
        self.clear_gradients()
        outputs = self._pending.pop() if self.pass_ is Pass.BACKWARD else self.bound.forward(self.inputs)
        self.backward(outputs, self._cotangents)
        return outputs

    def backward(self, outputs: Tensors, cotangents: Tensors) -> None:
        """Gradients of the outputs that have any, given the outer ones."""
        differentiable = [name for name, output in outputs.items() if output.requires_grad]
        if not differentiable:
            return  # a subject that cut its graph: its missing gradients are found by the check
        torch.autograd.backward([outputs[name] for name in differentiable], [cotangents[name] for name in differentiable])
