"""The language that is spoken right now, for what is printed or drawn in many places: lines of a terminal, words of a figure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.lang.messages import Language

_SPOKEN: ContextVar[Language | None] = ContextVar("spoken", default=None)


@contextmanager
def speaking(own: Language | None) -> Iterator[None]:
    """Within it `said` is in this language; None is English."""
    token = _SPOKEN.set(own)
    try:
        yield
    finally:
        _SPOKEN.reset(token)


def spoken() -> Language | None:
    """The language of `speaking`, None where it is English."""
    return _SPOKEN.get()


def said(text: str) -> str:
    """`text` in the language that is spoken, and as it is where it cannot be said there."""
    own = _SPOKEN.get()
    return text if own is None else own.said(text)
