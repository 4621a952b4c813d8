"""The symbols of a formula and their values: a formula is written once, and its bytes are computed from it.

    b  sequences           h  hidden size            e  bytes of a number that is computed with
    s  tokens of each      i  width of the mlp       w  bytes of a weight
    t  tokens, b*s         a  heads, k  of keys      x  bytes of a number in the stream between layers
    V  vocabulary          d  width of a head        r  rank of adapters      C  tokens of a chunk of the loss

A formula is a sum of products: `2·h·t + 4·t`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dims:
    """Values of the symbols."""

    values: Mapping[str, int]

    def size(self, formula: str) -> int:
        """Bytes of a formula; raises KeyError for a symbol without a value."""
        values = self.values
        total = 0
        for number, symbols in _products(formula):
            for symbol in symbols:
                number *= values[symbol]
            total += number
        return total


@functools.cache
def _products(formula: str) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """The number and the symbols of each product: one search computes the same few formulas thousands of times."""
    products = [product.strip().split("·") for product in formula.split("+")]
    return tuple(
        (math.prod(int(one) for one in factors if one.isdigit()), tuple(one for one in factors if not one.isdigit()))
        for factors in products
    )
