"""Liger-Kernel's divergences, its Triton kernels: kl with a kernel a direction, jsd with its gradient made in the forward.

Its module of jsd would take another kernel than Triton's where a compiler of such kernels happens to be installed (CuTe's comes with
flash-attn-4), so the function is called. Either asks the device whether the outer gradient is 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import Unavailable, implementation
from bench.workloads.divergence_loss import DivergenceSpec

if TYPE_CHECKING:
    import torch

NO_LABELS, HALF, IGNORED, TRITON = None, 0.5, -100, "nvidia-triton"


@implementation(
    requires=["liger-kernel>=0.8.5"],
    devices=["cuda", "cpu-interpreter"],
    dtypes=["fp32", "bf16", "fp16"],
    passes=["forward", "forward_backward"],
    proof={
        "cpu": {"ops": ["^Liger(KLDivLoss|JSD)Function$"], "not": ["^aten::kl_div$", "Torch-Compiled Region"]},
        "cuda": {"kernels": ["_jsd_kernel|_kldiv_kernel"], "not": ["^aten::kl_div$", "Torch-Compiled Region"]},
    },
)
def liger(spec: DivergenceSpec) -> Any:
    """`LigerKLDivLossFunction` and `LigerJSDFunction`, with `nvidia-triton`, Liger's name of Triton's kernels anywhere."""
    try:
        from liger_kernel.ops.jsd import LigerJSDFunction
        from liger_kernel.ops.kl_div import LigerKLDivLossFunction
    except ImportError as error:
        if error.name is not None and not error.name.startswith("liger_kernel"):
            raise
        raise Unavailable(f"this liger-kernel has its divergences elsewhere: {error}") from error

    def kl(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = LigerKLDivLossFunction.apply(student, teacher, "batchmean", False)
        return loss

    def jsd(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = LigerJSDFunction.apply(student, teacher, NO_LABELS, HALF, IGNORED, TRITON)
        return loss

    return {"kl": kl, "jsd": jsd}[spec.divergence]
