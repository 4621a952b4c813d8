"""Liger's chunked preference losses of one specification, with its compiler or without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import Unavailable
from bench.workloads.cross_entropy._labels import IGNORED
from bench.workloads.preference_loss import DPO_BETA, GRPO_BETA, ORPO_LAMBDA, SIMPO_BETA, SIMPO_GAMMA, PreferenceSpec

if TYPE_CHECKING:
    import torch


def chunked(spec: PreferenceSpec, *, compiled: bool) -> Any:
    """`liger_kernel.chunked_loss` with one pair a chunk and the published formula of each loss; takes the workload's inputs.

    Raises Unavailable where the installed liger-kernel has its losses elsewhere.
    """
    import liger_kernel.chunked_loss as chunked_loss

    try:
        modules = {
            "dpo": lambda: chunked_loss.LigerFusedLinearDPOLoss(ignore_index=IGNORED, beta=DPO_BETA, compiled=compiled),
            "orpo": lambda: chunked_loss.LigerFusedLinearORPOLoss(ignore_index=IGNORED, beta=ORPO_LAMBDA, compiled=compiled),
            "simpo": lambda: chunked_loss.LigerFusedLinearSimPOLoss(
                ignore_index=IGNORED, beta=SIMPO_BETA, gamma=SIMPO_GAMMA, compute_nll_loss=False, compiled=compiled
            ),
            "grpo": lambda: chunked_loss.LigerFusedLinearGRPOLoss(beta=GRPO_BETA, loss_type="grpo", compiled=compiled),
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
