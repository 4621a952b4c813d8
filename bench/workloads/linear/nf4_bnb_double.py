"""NF4 by bitsandbytes with double quantization: the scales are quantized too, 4.13 bits a weight in all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.linear._bnb import FOUR_BIT_PROOF, REQUIRES, four_bit

if TYPE_CHECKING:
    from bench.workloads.linear import LinearSpec


@implementation(requires=REQUIRES, proof=FOUR_BIT_PROOF, tolerance=0.11, multiplies_in="dtype")
def nf4_bnb_double(spec: LinearSpec) -> Any:
    """`Linear4bit` with nf4 weights and 8-bit scales.

    Normal weights lose 9.1 % by the levels (see nf4_bnb); 8-bit scales add 1.3 % at most, which hardly moves the root of the squares.
    """
    return four_bit(spec, "nf4", double=True)
