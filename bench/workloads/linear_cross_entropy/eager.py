"""The last layer as transformers writes it: all logits in the model's dtype, their fp32 copy, PyTorch's cross-entropy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.cross_entropy._labels import IGNORED
from bench.workloads.linear_cross_entropy import LinearCrossEntropySpec

if TYPE_CHECKING:
    import torch


@implementation(
    dtypes=["fp32", "tf32", "bf16", "fp16", "fp64"],
    proof={
        "ops": ["^aten::linear$", "^aten::_log_softmax$", "^aten::nll_loss_forward$"],
        "not": ["Torch-Compiled Region", "Liger", "liger_cross_entropy_kernel", "linear_cross_entropy", "InChunks"],
    },
)
def eager(spec: LinearCrossEntropySpec) -> Any:
    """Linear layer, fp32 copy of the logits, cross-entropy, as a causal model of transformers."""
    import torch
    from torch.nn import functional

    def loss(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits = functional.linear(hidden, weight)
        upcast = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return functional.cross_entropy(upcast, labels, ignore_index=IGNORED)

    return loss
