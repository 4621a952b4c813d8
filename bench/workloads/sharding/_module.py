"""The step's loss as one module: libraries that shard put their hooks around modules, so all weights must be used within one's forward.

loss of a batch
    decoder    as filled
    head         the last layer with the loss: what uses its weight is this module's forward, and not the layer's own
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bench.workloads.train_step._driver import Parts, loss_of

if TYPE_CHECKING:
    import torch


def loss_module(parts: Parts) -> Any:
    """forward(input_ids, labels, position_ids) -> mean loss; `begin` is an attribute that is told when the loss begins."""
    import torch

    class Head(torch.nn.Module):
        """Its weights are the last layer's; `computed_in` is the dtype that they had in the last forward."""

        computed_in: torch.dtype | None = None

        def __init__(self) -> None:
            super().__init__()
            self.lm_head = parts.model.lm_head

        def forward(self, hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            self.computed_in = self.lm_head.weight.dtype
            return parts.loss(hidden, labels)

    class LossOfBatch(torch.nn.Module):
        begin: Callable[[str], None]

        def __init__(self) -> None:
            super().__init__()
            self.decoder = parts.model.model
            self.head = Head()

        def forward(self, input_ids: torch.Tensor, labels: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
            batch = {"input_ids": input_ids, "labels": labels, "position_ids": position_ids}
            return loss_of(parts, self.decoder, self.head, batch, self.begin)

    return LossOfBatch()
