"""Int8 weights by rows and int8 inputs by tokens (W8A8) by torchao, which scales the inputs anew at each call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.linear._compiled import COMPILED
from bench.workloads.linear._frozen import demand_frozen
from bench.workloads.linear._torchao import REQUIRES, multiplying_int8, quantized

if TYPE_CHECKING:
    from bench.workloads.linear import LinearSpec


@implementation(
    requires=REQUIRES,
    passes=["forward", "quantize"],
    proof={"ops": [f"^aten::_int_mm$|^torchao::quantize_affine$|{COMPILED}"], "not": ["^aten::matmul$", "^aten::linear$"]},
    tolerance=0.02,
    multiplies_in="int8",
)
def int8_dynamic_ao(spec: LinearSpec) -> Any:
    """`Int8DynamicActivationInt8WeightConfig`. It has no gradient of x.

    0.9 % are lost in weights and inputs alike (see int8_weight_only_ao), 1.3 % together. Where int8 products do not suit the shape, the
    library multiplies something else without a word (`aten::matmul`): that is no int8 row.
    """
    demand_frozen(spec, "int8 by rows")
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig

    return multiplying_int8(quantized(lambda plain: Int8DynamicActivationInt8WeightConfig()), spec)
