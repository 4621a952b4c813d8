"""Words about a word that is not known: what was said, what there is, and the nearest valid one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

LEAST_LETTERS = 4
"""Of a family's name, below which a likeness is chance."""


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known word that is most like `word`, or None where none is near."""
    lowered = {name.lower(): name for name in known}
    matches = get_close_matches(word.lower()[:300], list(lowered), n=1, cutoff=0.6)
    if matches:
        return lowered[matches[0]]
    # Who types the family of a model, `lama`, means none of the long names in full: their first words are compared.
    families: dict[str, str] = {}
    for name in known:
        families.setdefault(re.split(r"[^a-z]", name.lower(), maxsplit=1)[0], name)
    matches = get_close_matches(
        word.lower()[:300], [family for family in families if len(family) >= LEAST_LETTERS], n=1, cutoff=0.8
    )
    return families[matches[0]] if matches else None


def shown(value: Any) -> str:
    """A user's value in a message, short enough for one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def listed(words: Sequence[Any]) -> str:
    """Known words for a message, at most twenty of them."""
    return ", ".join(map(str, words[:20])) + (", ..." if len(words) > 20 else "") if words else "none"


def unknown(kind: str, word: str, known: Sequence[str], *, hint: bool = True) -> str:
    """The sentence about a word that is not among the known ones; `hint`: with the nearest of them in it."""
    close = nearest(word, known) if hint else None
    said = f" (did you mean {close!r}?)" if close else ""
    return f"unknown {kind} {shown(word)}{said}; known: {listed(known)}"
