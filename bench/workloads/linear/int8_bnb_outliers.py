"""LLM.int8() by bitsandbytes: features of x with a value of 6 or more are multiplied in 16 bits, all others in int8."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.linear._bnb import INT8_PROOF, REQUIRES, int8

if TYPE_CHECKING:
    from bench.workloads.linear import LinearSpec


@implementation(requires=REQUIRES, proof=INT8_PROOF, tolerance=0.02, multiplies_in="int8")
def int8_bnb_outliers(spec: LinearSpec) -> Any:
    """`Linear8bitLt` with threshold 6, the paper's (arXiv 2208.07339).

    The error is that of int8_bnb where there are no outliers, and about the same where there are.
    """
    return int8(spec, 6.0)
