"""torch's own `linear_cross_entropy` with the options that it takes by default: in chunks of tokens, gradients made in the forward.

With `options=None` it would be the eager computation; where it cannot work in chunks it warns and does that, which the proof finds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import Unavailable, implementation
from bench.workloads.cross_entropy._labels import IGNORED
from bench.workloads.linear_cross_entropy import LinearCrossEntropySpec

if TYPE_CHECKING:
    import torch


@implementation(
    dtypes=["fp32", "tf32", "bf16", "fp16", "fp64"],
    passes=["forward", "forward_backward"],
    proof={"ops": ["^torch_nn::_linear_cross_entropy_batch_chunked$"], "not": ["^aten::_?log_softmax$", "^aten::nll_loss"]},
)
def torch_native(spec: LinearCrossEntropySpec) -> Any:
    """`torch.nn.functional.linear_cross_entropy` with `LinearCrossEntropyOptions()`; older torch has neither."""
    try:
        from torch.nn import LinearCrossEntropyOptions
        from torch.nn.functional import linear_cross_entropy
    except ImportError as error:
        raise Unavailable(f"this torch has no linear_cross_entropy that works in chunks (torch 2.13 has one): {error}") from error

    options = LinearCrossEntropyOptions()

    def loss(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return linear_cross_entropy(hidden, weight, labels, ignore_index=IGNORED, options=options)

    return loss
