"""LoRA: every weight is frozen, and beside each linear layer of the blocks learns a product of two thin matrices.

    out = W x + (alpha / rank) * B A x        A (rank, in) drawn as torch draws linear layers, B (out, rank) zero at first

(Hu et al., 2021, arXiv:2106.09685, section 4.1.) Rank 16, alpha 32, no dropout, all seven linear layers of a block. The adapters are fp32
whatever the model's dtype, and x is copied to fp32 for them, as the package peft does by default; under autocast their products are of
16 bits like all others.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.train_step._change import Change, Evidence

if TYPE_CHECKING:
    import torch

RANK = 16
ALPHA = 32.0
ADAPTERS = ("adapter_a", "adapter_b")


@implementation(dtypes=["fp32", "tf32", "bf16", "fp16"], passes=["step"])
def lora(spec: Any) -> Change:
    import torch
    from torch.nn import functional

    class Adapted(torch.nn.Module):
        def __init__(self, linear: torch.nn.Linear) -> None:
            super().__init__()
            self.linear = linear
            device = linear.weight.device
            self.adapter_a = torch.nn.Parameter(torch.empty(RANK, linear.in_features, dtype=torch.float32, device=device))
            self.adapter_b = torch.nn.Parameter(torch.zeros(linear.out_features, RANK, dtype=torch.float32, device=device))
            torch.nn.init.kaiming_uniform_(self.adapter_a, a=math.sqrt(5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out = self.linear(x)
            thin = functional.linear(x.to(self.adapter_a.dtype), self.adapter_a)
            learned = functional.linear(thin, self.adapter_b) * (ALPHA / RANK)
            adapted: torch.Tensor = out + learned.to(out.dtype)
            return adapted

    def adapt(model: Any) -> Any:
        model.requires_grad_(False)
        for parent in list(model.model.layers.modules()):
            for child, module in list(parent.named_children()):
                if type(module) is torch.nn.Linear:
                    setattr(parent, child, Adapted(module))
        return model

    return Change(adapt, _other_than_adapters)


def _other_than_adapters(evidence: Evidence) -> str | None:
    others = [name for name in evidence.learned if not name.endswith(ADAPTERS)]
    if others:
        return f"a gradient for {', '.join(others[:3])}, which should be frozen"
    return None if evidence.learned else "no adapter got a gradient"
