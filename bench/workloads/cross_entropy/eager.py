"""Cross-entropy as transformers writes it for causal models: logits to fp32 first, then PyTorch's own loss on the copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.cross_entropy import CrossEntropySpec
from bench.workloads.cross_entropy._labels import IGNORED

if TYPE_CHECKING:
    import torch


@implementation(
    dtypes=["fp32", "bf16", "fp16", "fp64"],
    proof={
        "ops": ["^aten::_log_softmax$", "^aten::nll_loss_forward$"],
        "not": ["Torch-Compiled Region", "LigerCrossEntropy", "liger_cross_entropy_kernel"],
    },
)
def eager(spec: CrossEntropySpec) -> Any:
    """fp32 copy of the logits, then log-softmax and its negative at the labels, as transformers' ForCausalLMLoss."""
    import torch
    from torch.nn import functional

    def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        upcast = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return functional.cross_entropy(upcast, labels, ignore_index=IGNORED)

    return loss
