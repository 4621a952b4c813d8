"""NF4 by bitsandbytes: 4 bits a weight and an fp32 scale for each 64 of them, 4.5 bits in all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.linear._bnb import FOUR_BIT_PROOF, REQUIRES, four_bit

if TYPE_CHECKING:
    from bench.workloads.linear import LinearSpec


@implementation(requires=REQUIRES, proof=FOUR_BIT_PROOF, tolerance=0.11, multiplies_in="dtype")
def nf4_bnb(spec: LinearSpec) -> Any:
    """`Linear4bit` with nf4 weights in blocks of 64.

    The sixteen levels lie at quantiles of the normal distribution (QLoRA, arXiv 2305.14314, appendix E), scaled by the largest weight of
    each block: normal weights lose 9.1 % in root mean square. A scale that is 10 % off would make it 13.5 %.
    """
    return four_bit(spec, "nf4", double=False)
