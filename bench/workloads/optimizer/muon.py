"""Muon of torch for matrices, with its fused AdamW for the norms, which Muon does not take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.records import Pass
from bench.workloads.optimizer._recipe import OptimizerSpec, Recipe

if TYPE_CHECKING:
    import torch

TOLERANCE = 0.008
"""torch iterates in bf16 whatever the parameters are: measured 0.002 to 0.003 after the check's steps with fp32 parameters."""


@implementation(
    requires=["torch>=2.9"], dtypes=["fp32", "bf16"], passes=[Pass.STEP], proof={"ops": ["^aten::addmm$", "^aten::_fused_adamw_$"]}
)
def muon(spec: OptimizerSpec) -> Recipe:
    """`torch.optim.Muon`: one momentum a matrix, made orthogonal by five rounds of products in bf16; AdamW for the rest."""
    import torch

    class MuonAndAdamW(torch.optim.Optimizer):
        """Both as one: their states and groups are its own."""

        def __init__(self, parameters: list[torch.Tensor]) -> None:
            super().__init__(parameters, {})
            matrices = [tensor for tensor in parameters if tensor.dim() == 2]
            others = [tensor for tensor in parameters if tensor.dim() != 2]
            self._parts: list[torch.optim.Optimizer] = []
            if matrices:
                self._parts.append(
                    torch.optim.Muon(
                        matrices,
                        lr=spec.lr,
                        weight_decay=spec.weight_decay,
                        momentum=spec.muon_momentum,
                        adjust_lr_fn="match_rms_adamw",
                    )
                )
            if others:
                self._parts.append(
                    torch.optim.AdamW(
                        others,
                        lr=spec.lr,
                        betas=spec.betas,
                        eps=spec.eps,
                        weight_decay=spec.weight_decay,
                        fused=True,
                        capturable=spec.capturable,
                    )
                )
            self.param_groups = [group for part in self._parts for group in part.param_groups]
            for part in self._parts:
                part.state = self.state

        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            """One step of each; a closure is not called."""
            for part in self._parts:
                part.step()

    return Recipe("muon", MuonAndAdamW, tolerance=TOLERANCE)
