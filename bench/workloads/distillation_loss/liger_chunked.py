"""Liger's chunked distillation loss: plain PyTorch on 1024 tokens at a time, gradients by torch.func, each chunk's step compiled.

It takes logarithms, softmax and divergence in the dtype of the logits. In bf16 and fp16 that is another computation than the rest of
the field's, which goes to fp32 for it: hence the tolerance. Gradients are always made, in a forward that asks for none as well.
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
    dtypes=["fp32", "tf32", "bf16", "fp16"],
    passes=["forward", "forward_backward"],
    # Both of Liger's functions have this name; the other one runs a Triton kernel and compiles nothing.
    proof={"ops": ["^LigerFusedLinearJSDFunction$", "Torch-Compiled Region"], "not": ["_jsd_kernel", "^aten::kl_div$"]},
    refuses=["InvalidCxxCompiler", "No working C\\+\\+ compiler"],
    tolerance=0.1,
    multiplies_in="dtype",
)
def liger_chunked(spec: DistillationSpec) -> Any:
    """`liger_kernel.chunked_loss.LigerFusedLinearJSDLoss` as it comes, without the loss of the labels.

    The tolerance is bf16's: with a large vocabulary log-probabilities lie between -8 and -16, where bf16 counts in sixteenths. Rounding
    one loses 0.02 in root mean square, and the gradient of jsd is made of differences of two such that are about 0.3 apart: 6 %.
    """
    import liger_kernel.chunked_loss as chunked_loss

    try:
        module = chunked_loss.LigerFusedLinearJSDLoss
    except AttributeError as error:
        raise Unavailable(f"this liger-kernel has its loss elsewhere: {error}") from error
    teacher = WEIGHT_OF_TEACHER[spec.divergence]
    loss: torch.nn.Module = module(weight_hard_loss=0.0, weight_soft_loss=1.0, beta=teacher, ignore_index=IGNORED)
    return loss
