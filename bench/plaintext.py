"""Text of others made harmless for a terminal and for Markdown. Low in the house: the report needs it as the command line does."""

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


def markdown_cell(text: str) -> str:
    """`text` on one line, which can neither end a table's cell nor become markup."""
    flat = plain(" ".join(text.split()))
    for character in "\\`*_[]|#~":
        flat = flat.replace(character, "\\" + character)
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
