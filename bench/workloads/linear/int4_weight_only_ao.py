"""Int4 weights in groups of 128 by torchao, two in a byte, multiplied by kernels of the package mslk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import Unsupported, implementation
from bench.workloads.linear._frozen import demand_frozen
from bench.workloads.linear._torchao import REQUIRES, quantized

if TYPE_CHECKING:
    from bench.workloads.linear import LinearSpec

GROUP = 128


@implementation(
    requires=REQUIRES,
    dtypes=["bf16"],
    passes=["forward", "quantize"],
    proof={"not": ["^aten::(linear|matmul|mm)$"]},
    tolerance=0.13,
    multiplies_in="dtype",
)
def int4_weight_only_ao(spec: LinearSpec) -> Any:
    """`Int4WeightOnlyConfig`. Without mslk the library says so, and the row is `unavailable`.

    Of 128 normal weights smallest and largest lie 5.2 apart on average: fifteen steps of 0.35, a step / sqrt(12) is 10 %.
    """
    demand_frozen(spec, "int4 in groups of 128")
    if spec.in_features % GROUP:
        raise Unsupported(f"{spec.in_features} input features are no multiple of {GROUP}: torchao would leave the layer as it is")
    from torchao.quantization import Int4WeightOnlyConfig

    return quantized(lambda plain: Int4WeightOnlyConfig())
