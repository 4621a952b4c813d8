"""The types of our columns: texts that anybody may have written, and values that are what their column says or Unreadable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from sqlalchemy import BigInteger, Dialect, Double, Text
from sqlalchemy.types import TypeDecorator

from bench.records import Pass, RunState, Status
from bench.store.failures import Unreadable

_ESCAPE = "\ue000"


def needs_escape(value: str) -> bool:
    """Whether a text holds what PostgreSQL refuses, or what stands for it."""
    return "\x00" in value or _ESCAPE in value


def escaped(value: str | None) -> str | None:
    """How a free text is stored: NUL, and the character that stands for it, as two others."""
    if value is None or not needs_escape(value):
        return value
    return value.replace(_ESCAPE, _ESCAPE + "1").replace("\x00", _ESCAPE + "0")


def _refuse(value: object, what: str) -> NoReturn:
    shown = repr(value)
    raise Unreadable(f"{shown[:40]}{'…' if len(shown) > 40 else ''} is no {what}")


def _number(value: Any) -> Any:
    if value.__class__ is float or value is None or isinstance(value, int):
        return value
    _refuse(value, "number")


def _whole(value: Any) -> Any:
    if value.__class__ is int or value is None:
        return value
    _refuse(value, "whole number")


class Number(Double[float]):
    """A column of SQLite takes any value, and others would compute with it: what is no number is Unreadable."""

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        return _number if dialect.name == "sqlite" else None


class Whole(BigInteger):
    """The same of whole numbers."""

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        return _whole if dialect.name == "sqlite" else None


class Word(Text):
    """One of the words of an enumeration."""

    cache_ok = True

    def __init__(self, words: type[Pass | RunState | Status]) -> None:
        super().__init__()
        self.words = words
        self.known = frozenset(map(str, words))

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        def read(value: Any) -> Any:
            if value in self.known:
                return value
            _refuse(value, self.words.__name__)

        return read


class FreeText(TypeDecorator[str]):
    """Text that anybody may have written.

    PostgreSQL refuses NUL in text, so NUL is stored as two other characters and read back as it was.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return escaped(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        try:
            if value is None or _ESCAPE not in value:
                return value
        except TypeError:
            _refuse(value, "text")
        return value.replace(_ESCAPE + "0", "\x00").replace(_ESCAPE + "1", _ESCAPE)
