"""Liger's cross-entropy: one Triton kernel goes over each row twice and leaves the gradient where the logits were.

So the gradient costs no memory, and it is made in the forward: nothing is left for a backward but to scale it, which Liger leaves out
where the outer gradient is 1. The loss comes in the dtype of the logits. Liger asks the device how many labels count, so it waits for
the device in each call and no CUDA graph can hold it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import Unavailable, implementation
from bench.workloads.cross_entropy import CrossEntropySpec
from bench.workloads.cross_entropy._labels import IGNORED
from bench.workloads.cross_entropy._overwritten import Overwrites

if TYPE_CHECKING:
    import torch


@implementation(
    requires=["liger-kernel>=0.8"],
    devices=["cuda", "cpu-interpreter"],
    passes=["forward", "forward_backward"],
    proof={
        "cpu": {"ops": ["^LigerCrossEntropyFunction$"], "not": ["^aten::_?log_softmax$", "^aten::nll_loss"]},
        "cuda": {"kernels": ["liger_cross_entropy_kernel"], "not": ["^aten::_?log_softmax$", "^aten::nll_loss", "^aten::mm$"]},
    },
)
def liger(spec: CrossEntropySpec) -> Any:
    """`liger_kernel.transformers.functional.liger_cross_entropy`, the function that Liger puts into transformers."""
    import liger_kernel.transformers.functional as functional

    try:
        cross_entropy = functional.liger_cross_entropy
    except AttributeError as error:
        raise Unavailable(f"this liger-kernel has its loss elsewhere: {error}") from error

    def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        of_liger: torch.Tensor = cross_entropy(logits, labels, ignore_index=IGNORED)
        return of_liger

    return Overwrites(loss)
