"""torch.compile of torch's own embedding: the rows copied, and their gradients added, by generated kernels."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.embedding import EmbeddingSpec
from bench.workloads.embedding.eager import eager


@implementation(
    proof={
        "cpu": {"ops": ["Torch-Compiled Region"], "not": ["^aten::embedding", "LigerEmbedding"]},
        "cuda": {"kernels": ["^triton_(red|per|poi)_fused"], "not": ["^aten::embedding", "^embedding_(forward|backward)_kernel"]},
    },
    refuses=["InvalidCxxCompiler", "No working C\\+\\+ compiler"],
)
def compiled(spec: EmbeddingSpec) -> Any:
    import torch

    return torch.compile(eager.builder(spec), dynamic=False, fullgraph=True)
