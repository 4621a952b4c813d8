"""The symbols of a formula and their values: a formula is written once, and its bytes are computed from it.

    b  sequences           h  hidden size            e  bytes of a number that is computed with
    s  tokens of each      i  width of the mlp       w  bytes of a weight
    t  tokens, b*s         a  heads, k  of keys      x  bytes of a number in the stream between layers
    V  vocabulary          d  width of a head        r  rank of adapters      C  tokens of a chunk of the loss

A formula is a sum of products: `2·h·t + 4·t`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

SYMBOLS = "bstVhiakdewxrC"


@dataclass(frozen=True, slots=True)
class Dims:
    """Values of the symbols."""

    values: Mapping[str, int]

    def size(self, formula: str) -> int:
        """Bytes of a formula; raises KeyError for a symbol without a value."""
        return sum(math.prod(self._factor(factor) for factor in product.strip().split("·")) for product in formula.split("+"))

    def _factor(self, text: str) -> int:
        return int(text) if text.isdigit() else self.values[text]
