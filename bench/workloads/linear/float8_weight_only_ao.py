"""Float8 weights (e4m3) by rows by torchao; inputs stay as they are, and the product is the case's own dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.linear._frozen import demand_frozen
from bench.workloads.linear._torchao import REQUIRES, quantized

if TYPE_CHECKING:
    from bench.workloads.linear import LinearSpec


@implementation(
    requires=REQUIRES,
    proof={"ops": ["^aten::mm$|^torchao::choose_scale_float8$"], "not": ["^aten::linear$", "_scaled_mm"]},
    tolerance=0.035,
    multiplies_in="dtype",
)
def float8_weight_only_ao(spec: LinearSpec) -> Any:
    """`Float8WeightOnlyConfig`.

    e4m3 has three bits of mantissa: rounding moves a number by up to 1/16 of its power of two, 2.6 % in root mean square.
    """
    demand_frozen(spec, "float8 by rows")
    from torchao.quantization import Float8WeightOnlyConfig

    return quantized(lambda plain: Float8WeightOnlyConfig())
