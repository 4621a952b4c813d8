"""torchao's CPUOffloadOptimizer around whichever optimizer, with what a step asks of one.

It keeps a host copy of each weight, with an optimizer of its own. Hooks copy each gradient to the host while the backward runs, so what
comes after the backward, such as clipping, is not seen by the update; `step` updates the copies in the order in which their gradients
came, and copies them back. Tensors of fewer than 4096 elements stay on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bench.declare import Unsupported
from bench.workloads.precision import Numerics

if TYPE_CHECKING:
    import torch

Recipe = Callable[[list[Any]], "torch.optim.Optimizer"]


def refuse_what_comes_too_late(numerics: Numerics, clip_norm: float) -> None:
    """Raises Unsupported, in words, for what would change gradients after they have been copied."""
    what = None
    if numerics.master is not None:
        what = f"an {numerics.master} copy of the weights, as in precision {numerics.weights}_master, gets its gradients"
    elif numerics.scaling != "none":
        what = "the loss's scale is taken off the gradients"
    elif clip_norm:
        what = "gradients are clipped (clip_norm: 0 leaves them)"
    if what is not None:
        raise Unsupported(f"torchao's CPUOffloadOptimizer copies gradients to the host while the backward runs, before {what}")


class HostOptimizer:
    """The optimizer of the weights that learn. Weights are the device's everywhere here; what is kept for them lies on the host."""

    def __init__(self, weights: list[Any], recipe: Recipe) -> None:
        import torch
        from torchao.optim import CPUOffloadOptimizer

        def made(groups: list[dict[str, Any]], **_: Any) -> torch.optim.Optimizer:
            """Of groups as torch takes them, in which a lone tensor need not stand in a list."""
            held = [group["params"] for group in groups]
            return recipe([weight for found in held for weight in ([found] if isinstance(found, torch.Tensor) else found)])

        # Gradients stay on the device too: with accumulation they must, and a step's facts are read from them.
        self._inner = CPUOffloadOptimizer(weights, optimizer_class=made, offload_gradients=False)
        self._weights = weights
        self._hooks: list[Callable[..., Any]] = []

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [{"params": self._weights}]

    @property
    def state(self) -> Mapping[Any, Mapping[str, Any]]:
        """Of each weight that has one, wherever it lies."""
        copies = self._inner.param_d2h_map
        found = {weight: optimizer.state.get(copies[weight]) for weight, optimizer in self._inner.optim_dict.items()}
        if self._inner.d_opt is not None:
            found |= dict(self._inner.d_opt.state)
        return {weight: state for weight, state in found.items() if state}

    def register_step_post_hook(self, hook: Callable[..., Any]) -> None:
        """Called with this optimizer, arguments and keywords, as torch's are."""
        self._hooks.append(hook)

    def step(self) -> None:
        self._inner.step()
        for hook in self._hooks:
            hook(self, (), {})
