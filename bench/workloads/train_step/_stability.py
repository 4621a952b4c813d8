"""What the numbers of a step say about its precision: vanished and subnormal gradients, their norm, the scale, steps that were skipped.

Gradients are looked at before the scale is taken off, as they were computed: in fp16 the smallest normal number is 6.1e-5 and the smallest
of all 6.0e-8. Under autocast they arrive in fp32, but a product that came out as zero in fp16 stays zero, and one that was subnormal there
is recognised by its size. Only weights of matrices within the blocks count, since an embedding's gradient is zero for each token that did
not occur, in any precision.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bench.declare import torch_dtype
from bench.workloads.train_step._step import TrainingStep, unheard

if TYPE_CHECKING:
    import torch


def gradient_findings(step: TrainingStep) -> dict[str, float]:
    """Of one more forward and backward on the last batch, whose gradients are thrown away.

    gradient_zero_share, gradient_subnormal_share and gradient_nonfinite_share of the numbers; gradient_norm, of all weights and unscaled,
    where it is finite; loss_scale; skipped_steps, of all steps so far. Where a rank has but a part of the gradients, the last two alone.
    """
    import torch

    if not step.driver.whole:
        return {"loss_scale": step.update.scale, "skipped_steps": float(step.update.skipped_steps)}
    with step.running():
        step.differentiate(step.inputs, unheard)
    smallest = torch.finfo(torch_dtype(step.numerics.compute)).tiny
    gradients = [weight.grad for weight in _block_matrices(step) if weight.grad is not None]
    numbers = sum(gradient.numel() for gradient in gradients)
    zeros = subnormal = nonfinite = 0
    for gradient in gradients:
        sizes = gradient.abs()
        zeros += int((sizes == 0).sum())
        subnormal += int(((sizes > 0) & (sizes < smallest)).sum())
        nonfinite += int((~torch.isfinite(sizes)).sum())
    found = {
        "gradient_zero_share": zeros / numbers,
        "gradient_subnormal_share": subnormal / numbers,
        "gradient_nonfinite_share": nonfinite / numbers,
        "loss_scale": step.update.scale,
        "skipped_steps": float(step.update.skipped_steps),
    }
    norms = [
        float(torch.linalg.vector_norm(weight.grad, dtype=torch.float32))
        for weight in step.update.learned
        if weight.grad is not None
    ]
    norm = math.hypot(*norms) / step.update.scale
    if norm < float("inf"):
        found["gradient_norm"] = norm
    step.update.clear_gradients()
    return found


def _block_matrices(step: TrainingStep) -> list[torch.nn.Parameter]:
    return [weight for weight in step.model.model.layers.parameters() if weight.requires_grad and weight.dim() == 2]
