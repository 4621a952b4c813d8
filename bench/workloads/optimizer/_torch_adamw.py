"""AdamW of torch, in one of the ways that it has of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.workloads.optimizer._recipe import OptimizerSpec, Recipe

if TYPE_CHECKING:
    import torch


def torch_adamw(spec: OptimizerSpec, *, foreach: bool, fused: bool) -> Recipe:
    """Both flags are said, so that torch chooses none by itself."""
    import torch

    def make(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(
            parameters,
            lr=spec.lr,
            betas=spec.betas,
            eps=spec.eps,
            weight_decay=spec.weight_decay,
            foreach=foreach,
            fused=fused,
            capturable=spec.capturable,
        )

    return Recipe("adamw", make)
