"""The nearest valid word to one that is not known."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known word that is most like `word`, or None where none is near."""
    lowered = {name.lower(): name for name in known}
    matches = get_close_matches(word.lower()[:300], list(lowered), n=1, cutoff=0.6)
    return lowered[matches[0]] if matches else None


def unknown(kind: str, word: str, known: Sequence[str]) -> str:
    """The sentence about a word that is not among the known ones."""
    close = nearest(word, known)
    hint = f" (did you mean {close!r}?)" if close else ""
    return f"unknown {kind} {word!r}{hint}; known: {', '.join(known) or 'none'}"
