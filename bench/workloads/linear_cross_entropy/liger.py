"""Liger's fused linear layer and cross-entropy: chunks of tokens, each with a matrix product, one Triton kernel, two more products.

The gradients are made in the forward and wait for the backward, which scales them unless the outer gradient is 1. The weight's
gradient is summed over the chunks in the weight's own dtype, as Liger does by default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import Unavailable, implementation
from bench.workloads.cross_entropy._labels import IGNORED
from bench.workloads.linear_cross_entropy import LinearCrossEntropySpec

if TYPE_CHECKING:
    import torch


@implementation(
    requires=["liger-kernel>=0.8"],
    devices=["cuda", "cpu-interpreter"],
    dtypes=["fp32", "tf32", "bf16", "fp16"],
    passes=["forward", "forward_backward"],
    proof={
        "cpu": {"ops": ["^LigerFusedLinearCrossEntropyFunction$"], "not": ["^aten::_?log_softmax$", "^aten::nll_loss"]},
        "cuda": {"kernels": ["liger_cross_entropy_kernel"], "not": ["^aten::_?log_softmax$", "^aten::nll_loss", "InChunks"]},
    },
)
def liger(spec: LinearCrossEntropySpec) -> Any:
    """`liger_kernel.transformers.functional.liger_fused_linear_cross_entropy`, which Liger puts into transformers' models."""
    import liger_kernel.transformers.functional as functional

    try:
        fused = functional.liger_fused_linear_cross_entropy
    except AttributeError as error:
        raise Unavailable(f"this liger-kernel has its loss elsewhere: {error}") from error

    def loss(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        of_liger: torch.Tensor = fused(hidden, weight, labels, ignore_index=IGNORED)
        return of_liger

    return loss
