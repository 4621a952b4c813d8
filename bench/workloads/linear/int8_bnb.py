"""LLM.int8() by bitsandbytes without its outlier features: int8 weights by rows, inputs converted at each call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.linear._bnb import INT8_PROOF, REQUIRES, int8

if TYPE_CHECKING:
    from bench.workloads.linear import LinearSpec


@implementation(requires=REQUIRES, proof=INT8_PROOF, tolerance=0.02, multiplies_in="int8")
def int8_bnb(spec: LinearSpec) -> Any:
    """`Linear8bitLt` with threshold 0.

    A row of n normal numbers is divided into steps of its largest over 127. Rounding loses a step / sqrt(12): 0.9 % of the root mean
    square where the largest is 4 (n near 10,000), in weights and inputs alike, 1.3 % together.
    """
    return int8(spec, 0.0)
