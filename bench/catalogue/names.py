"""Words about a word that is not known: what was said, what there is, and the nearest valid one."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known word that is most like `word`, or None where none is near."""
    lowered = {name.lower(): name for name in known}
    matches = get_close_matches(word.lower()[:300], list(lowered), n=1, cutoff=0.6)
    return lowered[matches[0]] if matches else None


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
