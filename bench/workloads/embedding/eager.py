"""Embeddings as every model looks them up: `torch.nn.functional.embedding`, torch's own kernels in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.embedding import EmbeddingSpec

if TYPE_CHECKING:
    import torch


@implementation(
    dtypes=["fp32", "bf16", "fp16", "fp64"],
    proof={"ops": ["^aten::embedding"], "not": ["Torch-Compiled Region", "LigerEmbedding", "^embedding_(forward|backward)_kernel"]},
)
def eager(spec: EmbeddingSpec) -> Any:
    from torch.nn import functional

    def looked_up(weight: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return functional.embedding(ids, weight)

    return looked_up
