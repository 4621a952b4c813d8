"""Liger's chunked grpo loss without a compiler: the same chunks, each operation a kernel of PyTorch's own."""

from __future__ import annotations

from typing import Any

from bench.declare import Unsupported, implementation
from bench.workloads.preference_loss import PreferenceSpec
from bench.workloads.preference_loss._liger import chunked


@implementation(
    requires=["liger-kernel>=0.8"],
    dtypes=["fp32", "tf32", "bf16", "fp16"],
    passes=["forward", "forward_backward"],
    proof={
        "ops": ["^LigerFusedLinearGRPOFunction$"],
        "not": ["liger_cross_entropy_kernel", "Torch-Compiled Region"],
    },
)
def liger_chunked_eager(spec: PreferenceSpec) -> Any:
    """`liger_kernel.chunked_loss` with `compiled=False`, one answer a chunk: for a torch that cannot compile it."""
    if spec.loss != "grpo":
        raise Unsupported(
            f"Liger makes the gradients of a pair ({spec.loss}) with torch.func, which suffers no hooks on saved tensors, "
            "by which memory is explained here, unless it is compiled: see liger_chunked"
        )
    return chunked(spec, compiled=False)
