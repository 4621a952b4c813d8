"""Liger's chunked preference losses: plain PyTorch on one pair (grpo: one answer) at a time, gradients made in the forward.

For dpo, orpo and simpo a chunk's logits, loss and gradients are one compiled step. For grpo only the loss on log-probabilities is
compiled; these come from a loop over pieces of the vocabulary that makes its logits again for the gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import Unsupported, implementation
from bench.workloads.preference_loss import PreferenceSpec
from bench.workloads.preference_loss._liger import chunked

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
    compute = chunked(spec, compiled=True)

    def compute_or_refuse(*inputs: torch.Tensor) -> torch.Tensor:
        try:
            loss: torch.Tensor = compute(*inputs)
        except AssertionError as error:
            if "sources must not be empty" not in str(error):
                raise
            # torch 2.11 on the lengths that Liger lets vary in its grpo loss; 2.13 compiles it.
            import torch

            raise Unsupported(
                f"torch {torch.__version__} cannot compile Liger's {spec.loss} loss ({error}): build it with compiled=False, "
                "which is measured as liger_chunked_eager, or use torch 2.13"
            ) from error
        return loss

    return compute_or_refuse
