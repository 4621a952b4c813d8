"""A small table with what is drawn and said beside it: the plain data that the page's further views have in common."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a view."""

    text: str
    note: str = ""
    """In small letters below."""
    tint: str = ""
    """A class of the page: `faster`, `slower`, `bad`, `warn`, `word`, `none`, or nothing."""
    share: float | None = None
    """Length of a bar from zero behind the text, as a share of the longest."""
    link: str | None = None
    """Id of the row that it rests on."""
    why: str = ""
    """What a pointer that rests on it is told; it stands elsewhere on the page too."""


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a column and what it means."""

    text: str
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """One view: a table whose first column names the lines, with a chart above it and sentences below."""

    title: str
    caption: str
    heads: tuple[Head, ...]
    lines: tuple[tuple[Cell, ...], ...]
    svg: str | None = None
    words: tuple[str, ...] = ()
    kind: str = ""
    """A class of the page, for views that look different."""
