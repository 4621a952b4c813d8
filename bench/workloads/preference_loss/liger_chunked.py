"""Liger's chunked preference losses: plain PyTorch on one pair (grpo: one answer) at a time, gradients made in the forward.

For dpo, orpo and simpo a chunk's logits, loss and gradients are one compiled step. For grpo only the loss on log-probabilities is
compiled; these come from a loop over pieces of the vocabulary that makes its logits again for the gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import Unavailable, implementation
from bench.workloads.cross_entropy._labels import IGNORED
from bench.workloads.preference_loss import DPO_BETA, GRPO_BETA, ORPO_LAMBDA, SIMPO_BETA, SIMPO_GAMMA, PreferenceSpec

if TYPE_CHECKING:
    import torch


@implementation(
    requires=["liger-kernel>=0.8"],
    dtypes=["fp32", "tf32", "bf16", "fp16"],
    passes=["forward", "forward_backward"],
    proof={
        "ops": ["^LigerFusedLinear(DPO|ORPO|SimPO|GRPO)Function$", "Torch-Compiled Region"],
        "not": ["liger_cross_entropy_kernel"],
    },
    refuses=["InvalidCxxCompiler", "No working C\\+\\+ compiler"],
)
def liger_chunked(spec: PreferenceSpec) -> Any:
    """`liger_kernel.chunked_loss` with one pair a chunk, compiled, as it comes; the published formula of each loss."""
    import liger_kernel.chunked_loss as chunked_loss

    try:
        modules = {
            "dpo": lambda: chunked_loss.LigerFusedLinearDPOLoss(ignore_index=IGNORED, beta=DPO_BETA),
            "orpo": lambda: chunked_loss.LigerFusedLinearORPOLoss(ignore_index=IGNORED, beta=ORPO_LAMBDA),
            "simpo": lambda: chunked_loss.LigerFusedLinearSimPOLoss(
                ignore_index=IGNORED, beta=SIMPO_BETA, gamma=SIMPO_GAMMA, compute_nll_loss=False
            ),
            "grpo": lambda: chunked_loss.LigerFusedLinearGRPOLoss(beta=GRPO_BETA, loss_type="grpo"),
        }
        module = modules[spec.loss]()
    except AttributeError as error:
        raise Unavailable(f"this liger-kernel has its losses elsewhere: {error}") from error

    def dpo(hidden: Any, weight: Any, labels: Any, reference_hidden: Any, reference_weight: Any) -> torch.Tensor:
        loss: torch.Tensor = module(weight, hidden, labels, ref_input=reference_hidden, ref_weight=reference_weight)[0]
        return loss

    def of_pairs(hidden: Any, weight: Any, labels: Any) -> torch.Tensor:
        loss: torch.Tensor = module(weight, hidden, labels)[0]
        return loss

    def grpo(hidden: Any, weight: Any, labels: torch.Tensor, advantages: Any, reference_logp: Any) -> torch.Tensor:
        answer = labels != IGNORED
        loss: torch.Tensor = module(hidden, weight, labels.clamp(min=0), answer, advantages, ref_per_token_logps=reference_logp)[0]
        return loss

    return {"dpo": dpo, "grpo": grpo}.get(spec.loss, of_pairs)
