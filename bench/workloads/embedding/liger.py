"""Liger-Kernel's embedding, an experimental one: a Triton kernel copies blocks of rows, another adds gradients to them atomically."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import Unavailable, implementation
from bench.workloads.embedding import EmbeddingSpec

if TYPE_CHECKING:
    import torch


@implementation(
    requires=["liger-kernel>=0.8"],
    devices=["cuda", "cpu-interpreter"],
    dtypes=["fp32", "bf16", "fp16"],
    proof={
        "cpu": {"ops": ["^LigerEmbeddingFunction"], "not": ["^aten::embedding", "Torch-Compiled Region"]},
        "cuda": {"kernels": ["^embedding_(forward|backward)_kernel"], "not": ["^aten::embedding", "^triton_"]},
    },
)
def liger(spec: EmbeddingSpec) -> Any:
    """`liger_kernel.ops.experimental.embedding.LigerEmbeddingFunction`; the module around it adds nothing but padding words."""
    try:
        from liger_kernel.ops.experimental.embedding import LigerEmbeddingFunction
    except ImportError as error:
        if error.name is not None and not error.name.startswith("liger_kernel"):
            raise
        raise Unavailable(f"this liger-kernel has its embedding elsewhere: {error}") from error

    def looked_up(weight: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = LigerEmbeddingFunction.apply(weight, ids)
        return out

    return looked_up
