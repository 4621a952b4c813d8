"""Float8 weights and inputs (e4m3) by torchao, which scales the inputs anew at each call; needs a GPU of compute capability 8.9."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import Unsupported, implementation
from bench.workloads.linear._compiled import COMPILED
from bench.workloads.linear._frozen import demand_frozen
from bench.workloads.linear._torchao import REQUIRES, quantized

if TYPE_CHECKING:
    from bench.workloads.linear import LinearSpec

SIDE = 16


@implementation(
    requires=REQUIRES,
    devices=["cuda"],
    passes=["forward", "quantize"],
    proof={
        "cuda": {"ops": [f"^aten::_scaled_mm$|^torchao::choose_scale_float8$|{COMPILED}"], "not": ["^aten::linear$", "^aten::mm$"]}
    },
    tolerance=0.05,
    multiplies_in="fp8",
)
def float8_dynamic_ao(spec: LinearSpec) -> Any:
    """`Float8DynamicActivationFloat8WeightConfig`, one scale a tensor as by default.

    2.6 % are lost in weights and inputs alike (see float8_weight_only_ao), 3.7 % together.
    """
    demand_frozen(spec, "float8")
    if spec.in_features % SIDE or spec.out_features % SIDE:
        sides = f"{spec.out_features} x {spec.in_features}"
        raise Unsupported(f"the sides of {sides} are no multiples of {SIDE}: torchao would leave the layer as it is")
    from torchao.quantization import Float8DynamicActivationFloat8WeightConfig

    return quantized(lambda plain: Float8DynamicActivationFloat8WeightConfig())
