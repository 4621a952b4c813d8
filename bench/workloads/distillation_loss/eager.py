"""Distillation in plain PyTorch: logits of both models in fp32, log-softmax, `kl_div` with every term kept, as trainers write it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.cross_entropy._labels import IGNORED
from bench.workloads.distillation_loss import WEIGHT_OF_TEACHER, DistillationSpec

if TYPE_CHECKING:
    import torch


@implementation(
    dtypes=["fp32", "tf32", "bf16", "fp16", "fp64"],
    proof={
        "ops": ["^aten::linear$", "^aten::_log_softmax$", "^aten::kl_div$"],
        "not": ["Torch-Compiled Region", "Liger", "_jsd_kernel"],
    },
)
def eager(spec: DistillationSpec) -> Any:
    """Two linear layers, two log-softmaxes, `torch.nn.functional.kl_div` by element."""
    import torch
    from torch.nn import functional

    beta = WEIGHT_OF_TEACHER[spec.divergence]

    def log_probabilities(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        logits = functional.linear(hidden, weight)
        return functional.log_softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), dim=-1)

    def kl(of: torch.Tensor, against: torch.Tensor) -> torch.Tensor:
        return functional.kl_div(against, of, reduction="none", log_target=True)

    def loss(
        student_hidden: torch.Tensor,
        student_weight: torch.Tensor,
        teacher_hidden: torch.Tensor,
        teacher_weight: torch.Tensor,
        labels: torch.Tensor,
    ) -> torch.Tensor:
        student = log_probabilities(student_hidden, student_weight)
        with torch.no_grad():
            teacher = log_probabilities(teacher_hidden, teacher_weight)
        if beta == 0.0:
            terms = kl(teacher, student)
        elif beta == 1.0:
            terms = kl(student, teacher)
        else:
            middle = torch.lerp(student.exp(), teacher.exp(), beta).log()
            terms = beta * kl(teacher, middle) + (1.0 - beta) * kl(student, middle)
        counted = labels != IGNORED
        return (terms.sum(-1) * counted).sum() / counted.sum()

    return loss
