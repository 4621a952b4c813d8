"""`torch.nn.functional.cross_entropy` on the logits as they are: no fp32 copy, sums in fp32 inside, the loss in the logits' dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.cross_entropy import CrossEntropySpec
from bench.workloads.cross_entropy._labels import IGNORED

if TYPE_CHECKING:
    import torch


@implementation(
    dtypes=["fp32", "bf16", "fp16", "fp64"],
    # In fp32 it is the very computation of eager, and no name can tell them apart.
    proof={
        "ops": ["^aten::_log_softmax$", "^aten::nll_loss_forward$"],
        "not": ["Torch-Compiled Region", "LigerCrossEntropy", "liger_cross_entropy_kernel"],
    },
)
def torch_native(spec: CrossEntropySpec) -> Any:
    """PyTorch's own loss without the fp32 copy of the logits."""
    from torch.nn import functional

    def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(logits, labels, ignore_index=IGNORED)

    return loss
