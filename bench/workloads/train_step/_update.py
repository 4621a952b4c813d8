"""From gradients to new weights: loss scaling, clipping, an fp32 copy of the weights where there is one, and the optimizer's step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bench.declare import torch_dtype
from bench.workloads.precision import Numerics

if TYPE_CHECKING:
    import torch


class Update:
    """Owns the optimizer of the weights that learn."""

    def __init__(
        self,
        numerics: Numerics,
        learned: list[torch.nn.Parameter],
        make_optimizer: Callable[[list[Any]], torch.optim.Optimizer],
        clip_norm: float,
    ) -> None:
        import torch

        self.numerics = numerics
        self.learned = learned
        self.masters: list[torch.Tensor] = []
        if numerics.master is not None:
            master_dtype = torch_dtype(numerics.master)
            self.masters = [torch.nn.Parameter(weight.detach().to(master_dtype)) for weight in learned]
        self.optimizer = make_optimizer(list(self.masters or learned))
        self._clip_norm = clip_norm
        self._static_scale = numerics.scale if numerics.scaling == "static" else None
        self.scaler = (
            torch.amp.GradScaler(learned[0].device.type, init_scale=numerics.scale) if numerics.scaling == "dynamic" else None
        )
        self._asked = self._made = 0
        self.optimizer.register_step_post_hook(self._count)

    def _count(self, *_: Any) -> None:
        self._made += 1

    @property
    def scales_dynamically(self) -> bool:
        return self.scaler is not None and self.scaler.is_enabled()

    def outside_the_optimizer(self) -> tuple[int, int]:
        """How many of the tensors that are to be updated the optimizer does not have, and how many there are."""
        updated = self.masters or self.learned
        held = {id(weight) for group in self.optimizer.param_groups for weight in group["params"]}
        return sum(id(weight) not in held for weight in updated), len(updated)

    @property
    def skipped_steps(self) -> int:
        """Steps that dynamic scaling left out after an overflow.

        Some optimizers leave out themselves what they are called for. They tell by their own count, and reading that waits for the device.
        """
        own = next((state["step"] for state in self.optimizer.state.values() if "step" in state), self._made)
        return self._asked - min(self._made, int(own))

    @property
    def scale(self) -> float:
        """By which losses are multiplied now; reading a dynamic one waits for the device."""
        if self.scaler is not None:
            return float(self.scaler.get_scale())
        return self._static_scale or 1.0

    def clear_gradients(self) -> None:
        for weight in (*self.learned, *self.masters):
            weight.grad = None

    def scaled(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss that is to be differentiated."""
        if self.scaler is not None:
            scaled: torch.Tensor = self.scaler.scale(loss)
            return scaled
        return loss if self._static_scale is None else loss * self._static_scale

    def step(self) -> None:
        """Takes the scale off, clips, updates. Under dynamic scaling an overflow leaves the weights as they are."""
        import torch

        self._asked += 1
        if self.masters:
            for weight, master in zip(self.learned, self.masters, strict=True):
                master.grad = None if weight.grad is None else weight.grad.to(master.dtype)
                weight.grad = None
        updated = self.masters or self.learned
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        elif self._static_scale is not None:
            torch._foreach_mul_([weight.grad for weight in updated if weight.grad is not None], 1.0 / self._static_scale)
        if self._clip_norm:
            torch.nn.utils.clip_grad_norm_(updated, self._clip_norm)
        if self.scaler is not None:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        if self.masters:
            with torch.no_grad():
                torch._foreach_copy_([*self.learned], self.masters)
