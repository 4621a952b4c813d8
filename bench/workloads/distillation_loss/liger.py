"""Liger's fused linear layer and Jensen-Shannon divergence: chunks of tokens, a Triton kernel for the divergence and its derivative.

Products and softmaxes are PyTorch's, in fp32 where the device can. Gradients are made in the forward, also where none is asked for
but the weight's. Liger asks the device how many labels count, so no CUDA graph can hold it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import Unavailable, implementation
from bench.workloads.cross_entropy._labels import IGNORED
from bench.workloads.distillation_loss import WEIGHT_OF_TEACHER, DistillationSpec

if TYPE_CHECKING:
    import torch


@implementation(
    requires=["liger-kernel>=0.8"],
    devices=["cuda", "cpu-interpreter"],
    dtypes=["fp32", "tf32", "bf16", "fp16"],
    passes=["forward", "forward_backward"],
    proof={
        "cpu": {"ops": ["^LigerFusedLinearJSDFunction$"], "not": ["^aten::kl_div$", "Torch-Compiled Region"]},
        "cuda": {"kernels": ["_jsd_kernel"], "not": ["^aten::kl_div$", "Torch-Compiled Region"]},
    },
)
def liger(spec: DistillationSpec) -> Any:
    """`liger_kernel.transformers.fused_linear_jsd.LigerFusedLinearJSD`."""
    import liger_kernel.transformers.fused_linear_jsd as fused_linear_jsd

    try:
        module = fused_linear_jsd.LigerFusedLinearJSD
    except AttributeError as error:
        raise Unavailable(f"this liger-kernel has its loss elsewhere: {error}") from error
    loss: torch.nn.Module = module(jsd_beta=WEIGHT_OF_TEACHER[spec.divergence], ignore_index=IGNORED)
    return loss
