"""Liger's fused linear layer and Jensen-Shannon divergence: chunks of tokens, a Triton kernel for the divergence and its derivative.

Products and softmaxes are PyTorch's, in fp32 where the device can. Gradients are made in the forward, also where none is asked for
but the weight's. Liger asks the device how many labels count, so no CUDA graph can hold it. Its module would take another kernel than
Triton's where a compiler of such kernels happens to be installed (CuTe's comes with flash-attn-4), so its function is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import Unavailable, implementation
from bench.workloads.cross_entropy._labels import IGNORED
from bench.workloads.distillation_loss import WEIGHT_OF_TEACHER, DistillationSpec

if TYPE_CHECKING:
    import torch


@implementation(
    requires=["liger-kernel>=0.8.5"],
    devices=["cuda", "cpu-interpreter"],
    dtypes=["fp32", "tf32", "bf16", "fp16"],
    passes=["forward", "forward_backward"],
    proof={
        "cpu": {"ops": ["^LigerFusedLinearJSDFunction$"], "not": ["^aten::kl_div$", "Torch-Compiled Region"]},
        "cuda": {"kernels": ["_jsd_kernel"], "not": ["^aten::kl_div$", "Torch-Compiled Region"]},
    },
)
def liger(spec: DistillationSpec) -> Any:
    """`liger_kernel.ops.fused_linear_jsd.LigerFusedLinearJSDFunction` with `nvidia-triton`, its name of Triton's kernels anywhere."""
    try:
        from liger_kernel.ops.fused_linear_jsd import LigerFusedLinearJSDFunction
    except ImportError as error:
        if error.name is not None and not error.name.startswith("liger_kernel"):
            raise
        raise Unavailable(f"this liger-kernel has its loss elsewhere: {error}") from error

    def loss(
        hidden: torch.Tensor, weight: torch.Tensor, teacher_hidden: torch.Tensor, teacher_weight: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        of_models = (hidden, weight, teacher_hidden, teacher_weight, labels, WEIGHT_OF_TEACHER[spec.divergence], IGNORED)
        temperature, sum_dtype, kernel = 1.0, None, "nvidia-triton"
        divergence: torch.Tensor = LigerFusedLinearJSDFunction.apply(*of_models, temperature, sum_dtype, kernel)
        return divergence

    return loss
