"""Int8 weights by rows by torchao; inputs stay as they are, and the product is the case's own dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.linear._frozen import demand_frozen
from bench.workloads.linear._torchao import REQUIRES, quantized

if TYPE_CHECKING:
    from bench.workloads.linear import LinearSpec


@implementation(
    requires=REQUIRES,
    proof={
        "ops": ["^aten::(mm|_weight_int8pack_mm)$|^torchao::quantize_affine$"],
        "not": ["^aten::linear$", "_int_mm", "^bitsandbytes::"],
    },
    tolerance=0.015,
    multiplies_in="dtype",
)
def int8_weight_only_ao(spec: LinearSpec) -> Any:
    """`Int8WeightOnlyConfig`.

    A row of n normal weights is divided into steps of its largest over 127.5: 0.9 % is lost where the largest is 4.
    """
    demand_frozen(spec, "int8 by rows")
    from torchao.quantization import Int8WeightOnlyConfig

    return quantized(lambda plain: Int8WeightOnlyConfig())
