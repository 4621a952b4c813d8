"""Divergences in plain PyTorch: `kl_div`, and for jsd twice that against the logarithm of the mean, as trainers write it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.divergence_loss import DivergenceSpec

if TYPE_CHECKING:
    import torch


@implementation(
    dtypes=["fp32", "bf16", "fp16", "fp64"],
    proof={"ops": ["^aten::kl_div$"], "not": ["Torch-Compiled Region", "Liger", "_jsd_kernel", "_kldiv_kernel"]},
)
def eager(spec: DivergenceSpec) -> Any:
    """`torch.nn.functional.kl_div` by element for jsd, and as a mean over rows for kl; in fp32 at least."""
    import torch
    from torch.nn import functional

    def upcast(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(torch.promote_types(tensor.dtype, torch.float32))

    def kl(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
        return functional.kl_div(upcast(student), upcast(teacher), reduction="batchmean")

    def jsd(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
        student, teacher = upcast(student), upcast(teacher)
        middle = torch.lerp(student.exp(), teacher.exp(), 0.5).log()
        terms = [functional.kl_div(middle, one, reduction="sum", log_target=True) for one in (student, teacher)]
        return (terms[0] + terms[1]) / (2 * len(student))

    return {"kl": kl, "jsd": jsd}[spec.divergence]
