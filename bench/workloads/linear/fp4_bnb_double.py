"""FP4 by bitsandbytes with double quantization: the scales are quantized too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.linear._bnb import FOUR_BIT_PROOF, REQUIRES, four_bit

if TYPE_CHECKING:
    from bench.workloads.linear import LinearSpec


@implementation(requires=REQUIRES, proof=FOUR_BIT_PROOF, tolerance=0.14, multiplies_in="dtype")
def fp4_bnb_double(spec: LinearSpec) -> Any:
    """`Linear4bit` with fp4 weights and 8-bit scales.

    Normal weights lose 12.2 % by the levels (see fp4_bnb), and hardly more by the scales.
    """
    return four_bit(spec, "fp4", double=True)
