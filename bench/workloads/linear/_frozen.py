"""Says in words that a quantized weight cannot learn, where a case asks for its gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.declare import Unsupported

if TYPE_CHECKING:
    from bench.workloads.linear import LinearSpec


def demand_frozen(spec: LinearSpec, kept_as: str) -> None:
    """Raises Unsupported where the weight should get a gradient; `kept_as` says in which form it is frozen."""
    if spec.weight_grad:
        raise Unsupported(f"the weight is kept as {kept_as} and gets no gradient; weight_grad: false measures it frozen")
