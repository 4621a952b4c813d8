"""FP4 by bitsandbytes: a sign, two bits of exponent and one of mantissa, an fp32 scale for each 64 weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.linear._bnb import FOUR_BIT_PROOF, REQUIRES, four_bit

if TYPE_CHECKING:
    from bench.workloads.linear import LinearSpec


@implementation(requires=REQUIRES, proof=FOUR_BIT_PROOF, tolerance=0.14, multiplies_in="dtype")
def fp4_bnb(spec: LinearSpec) -> Any:
    """`Linear4bit` with fp4 weights in blocks of 64.

    Seven magnitudes, of which two lie below a tenth of the largest: normal weights lose 12.2 %. A scale that is 10 % off would make it
    15.8 %.
    """
    return four_bit(spec, "fp4", double=False)
