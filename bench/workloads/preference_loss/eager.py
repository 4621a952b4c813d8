"""Preference losses in plain PyTorch: all logits, their fp32 copy, log-softmax over the vocabulary, the labels' entries of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.cross_entropy._labels import IGNORED
from bench.workloads.preference_loss import DPO_BETA, GRPO_BETA, ORPO_LAMBDA, SIMPO_BETA, SIMPO_GAMMA, PreferenceSpec

if TYPE_CHECKING:
    import torch


@implementation(
    dtypes=["fp32", "tf32", "bf16", "fp16", "fp64"],
    proof={"ops": ["^aten::linear$", "^aten::_log_softmax$", "^aten::gather$"], "not": ["Torch-Compiled Region", "Liger"]},
)
def eager(spec: PreferenceSpec) -> Any:
    """Linear layer, fp32 log-softmax, gather, and the loss on what is left, one log-probability a token."""
    import torch
    from torch.nn import functional

    def log_probabilities(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits = functional.linear(hidden, weight)
        everything = functional.log_softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), dim=-1)
        counted = labels != IGNORED
        return everything.gather(-1, torch.where(counted, labels, 0).unsqueeze(-1)).squeeze(-1) * counted

    def pairs(of_sequences: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        chosen, rejected = of_sequences.chunk(2)
        return chosen, rejected

    def dpo(hidden: Any, weight: Any, labels: Any, reference_hidden: Any, reference_weight: Any) -> torch.Tensor:
        chosen, rejected = pairs(log_probabilities(hidden, weight, labels).sum(-1))
        with torch.no_grad():
            reference_chosen, reference_rejected = pairs(log_probabilities(reference_hidden, reference_weight, labels).sum(-1))
        margins = (chosen - reference_chosen) - (rejected - reference_rejected)
        return -functional.logsigmoid(DPO_BETA * margins).mean()

    def simpo(hidden: Any, weight: Any, labels: Any) -> torch.Tensor:
        chosen, rejected = pairs(log_probabilities(hidden, weight, labels).sum(-1) / (labels != IGNORED).sum(-1))
        return -functional.logsigmoid(SIMPO_BETA * (chosen - rejected) - SIMPO_GAMMA).mean()

    def orpo(hidden: Any, weight: Any, labels: Any) -> torch.Tensor:
        totals, lengths = log_probabilities(hidden, weight, labels).sum(-1), (labels != IGNORED).sum(-1)
        chosen, rejected = pairs(totals / lengths)
        odds = (chosen - rejected) - (torch.log1p(-chosen.exp()) - torch.log1p(-rejected.exp()))
        likelihood = -pairs(totals)[0].sum() / pairs(lengths)[0].sum()
        return likelihood - ORPO_LAMBDA * functional.logsigmoid(odds).mean()

    def grpo(hidden: Any, weight: Any, labels: Any, advantages: torch.Tensor, reference_logp: torch.Tensor) -> torch.Tensor:
        logp, answer = log_probabilities(hidden, weight, labels), labels != IGNORED
        gained = advantages.unsqueeze(-1) * torch.exp(logp - logp.detach())
        behind = reference_logp - logp
        terms = GRPO_BETA * (behind.exp() - behind - 1.0) - gained
        return ((terms * answer).sum(-1) / answer.sum(-1)).mean()

    return {"dpo": dpo, "orpo": orpo, "simpo": simpo, "grpo": grpo}[spec.loss]
