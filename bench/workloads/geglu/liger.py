"""Liger-Kernel's GEGLU: torch's own products, and a Triton kernel between them each way.

The backward makes the activation again instead of keeping it, and writes its gradients over gate and up. The function is called, and
not `LigerGEGLUMLP`, because it takes a model's configuration.
"""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.swiglu._gated import MlpSpec, overwriting


@implementation(
    requires=["liger-kernel>=0.8"],
    devices=["cuda", "cpu-interpreter"],
    proof={
        "cpu": {"ops": ["^LigerGELUMulFunction$"], "not": ["^aten::gelu$", "Torch-Compiled Region"]},
        "cuda": {"kernels": ["^_geglu_tanh_forward_kernel"], "not": ["^triton_", "^aten::gelu$"]},
    },
    refuses=["exceeds the recommended Triton blocksize"],
)
def liger(spec: MlpSpec) -> Any:
    from liger_kernel.ops.geglu import LigerGELUMulFunction

    return overwriting(spec, LigerGELUMulFunction.apply)
