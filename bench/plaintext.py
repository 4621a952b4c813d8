"""Text of others made harmless where a terminal may show it. Low in the house: the report's Markdown needs it as the command line does."""

from __future__ import annotations

import unicodedata

STEERING = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of characters that move, hide or reorder text instead of being text."""


def plain(text: str, *, lines: bool = False) -> str:
    """`text` with control characters spelled out, since names and logs come from others and must not steer the terminal.

    `lines` keeps line ends and tabs.
    """
    kept = "\n\t" if lines else ""
    return "".join(char if char in kept or unicodedata.category(char) not in STEERING else f"\\x{ord(char):02x}" for char in text)
