"""The plain module compiled by torch.compile as a whole: torch's own products, and one generated kernel between them each way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.swiglu._gated import MlpSpec

if TYPE_CHECKING:
    import torch


@implementation(
    dtypes=["fp32", "tf32", "bf16", "fp16", "fp64"],
    proof={
        "cpu": {"ops": ["Torch-Compiled Region"], "not": ["^aten::gelu$", "^aten::mul$", "Liger"]},
        "cuda": {"kernels": ["^triton_(per|red|poi)_fused_"], "not": ["^aten::gelu$", "^aten::mul$", "^_geglu_tanh_"]},
    },
    refuses=["InvalidCxxCompiler", "No working C\\+\\+ compiler"],
)
def compiled(spec: MlpSpec) -> Any:
    """Compiled where it stands, so that it keeps its parameters' names."""

    def replace(module: torch.nn.Module) -> torch.nn.Module:
        module.compile(fullgraph=True, dynamic=False)
        return module

    return replace
