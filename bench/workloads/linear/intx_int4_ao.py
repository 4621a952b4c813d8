"""Int4 weights in groups of 32 by torchao, each in a byte of its own: the error of 4 bits without their memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.linear._compiled import COMPILED
from bench.workloads.linear._frozen import demand_frozen
from bench.workloads.linear._torchao import REQUIRES, quantized

if TYPE_CHECKING:
    from bench.workloads.linear import LinearSpec


@implementation(
    requires=REQUIRES,
    proof={"ops": [f"^torchao::(dequantize_affine|quantize_affine)$|{COMPILED}"], "not": ["_int_mm"]},
    tolerance=0.12,
    multiplies_in="dtype",
)
def intx_int4_ao(spec: LinearSpec) -> Any:
    """`IntxWeightOnlyConfig` with int4 and groups of 32.

    The largest of 32 normal weights is 2.4 in root mean square, steps are that over 7.5, and a step / sqrt(12) is 9.3 %; a largest that is
    positive is clipped by half a step, which makes it 9.5 %. A scale that is 10 % off would make it 13.8 %.
    """
    demand_frozen(spec, "int4 in groups of 32")
    import torch
    from torchao.quantization import IntxWeightOnlyConfig, PerGroup

    return quantized(lambda plain: IntxWeightOnlyConfig(torch.int4, PerGroup(32)))  # type: ignore[attr-defined]
