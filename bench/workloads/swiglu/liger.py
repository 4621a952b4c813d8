"""Liger-Kernel's SwiGLU: torch's own products, and a Triton kernel between them each way.

The backward makes the activation again instead of keeping it, and writes its gradients over gate and up. The function is called, and
not `LigerSwiGLUMLP`, because it takes a model's configuration.
"""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.swiglu._gated import MlpSpec, overwriting


@implementation(
    requires=["liger-kernel>=0.8"],
    devices=["cuda", "cpu-interpreter"],
    proof={
        "cpu": {"ops": ["^LigerSiLUMulFunction$"], "not": ["^aten::silu$", "Torch-Compiled Region"]},
        "cuda": {"kernels": ["^_swiglu_forward_kernel"], "not": ["^triton_", "^aten::silu$"]},
    },
    refuses=["exceeds the recommended Triton blocksize"],
)
def liger(spec: MlpSpec) -> Any:
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction

    return overwriting(spec, LigerSiLUMulFunction.apply)
