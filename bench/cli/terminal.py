"""Writes to the terminal: tables that line up, text that cannot steer it, notices on stderr; each in the language that is spoken."""

from __future__ import annotations

import codecs
import io
import json
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

import click

from bench.errors import BenchError
from bench.lang import said
from bench.plaintext import STEERING, plain

if TYPE_CHECKING:
    from bench.store import Store

SPELLED = "bench-spelled"
_SPELLINGS = {
    "–": "-", "−": "-", "─": "-", "…": "...", "×": "x", "→": "->", "·": "*", "µ": "u", "±": "+/-", "≤": "<=", "≥": ">=", "≠": "!=",
    "∝": "~", "²": "^2", "³": "^3", "°": " degrees", "√": "sqrt ", "├": "|", "│": "|", "└": "|",
}  # fmt: skip
"""What we print beyond ASCII, for a locale that lacks it: a range must stay readable as one."""


def width(text: str) -> int:
    """Columns that `text` takes: wide characters take two, combining ones none."""
    return sum(0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def counted(number: int, noun: str) -> str:
    """`1 block`, `2 blocks`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def note_unread(store: Store) -> None:
    """Says on stderr which excluded results were left out of what was read, since they do not read."""
    for result_id in sorted(store.unread):
        note(f"left out: result {result_id} of {store.location.shown} is excluded and does not read")


def shortened(text: str, most: int) -> str:
    """`text` cut to `most` characters, with an ellipsis where something was cut."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def padded(text: str, wide: int, *, right: bool) -> str:
    """`text` with spaces up to `wide` columns, before it where it ends at the right."""
    space = " " * (wide - width(text))
    return space + text if right else text + space


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Columns under `heads`, two spaces apart, nothing cut; those whose index is in `right` end at the right. The last is not padded."""
    cells = [[said(plain(cell)) for cell in row] for row in [list(heads), *(list(row) for row in rows)]]
    widths = [max(width(row[column]) for row in cells) for column in range(len(heads))]
    lines = []
    for row in cells:
        parts = []
        for column, cell in enumerate(row):
            parts.append(padded(cell, widths[column], right=column in right))
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def _spelled(error: UnicodeError) -> tuple[str, int]:
    """An error handler of codecs: our own signs are spelled out, others' characters become `?`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_SPELLINGS.get(char, "?") for char in error.object[error.start : error.end]), error.end


def speak_any_locale() -> None:
    """From now on a locale that cannot say a character (Latin-1, Big5) costs that character and not the command."""
    codecs.register_error(SPELLED, _spelled)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not _says_all(stream):
            stream.reconfigure(errors=SPELLED)


def _says_all(stream: TextIO) -> bool:
    return codecs.lookup(stream.encoding or "utf-8").name.startswith("utf")


@contextmanager
def standard_output() -> Iterator[None]:
    """Around whatever writes the command's output. Raises BenchError where that goes to a full disk, or is broken otherwise.

    A reader who left is nobody's error: BrokenPipeError, which the entry point turns into its exit code.
    """
    try:
        sys.stdout.flush()
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise BenchError(f"standard output cannot be written ({error.strerror}): free some space, or send it elsewhere") from error


def put(content: str | bytes) -> None:
    """A whole document on standard output as it is: nothing is added, nothing translated."""
    with standard_output():
        click.echo(content, nl=False)


def say(text: str = "") -> None:
    """One line, or several, of the command's output."""
    put((text if "\n" in text else said(text)) + "\n")


def progress_line(text: str) -> None:
    """A line of progress, on stderr. Nobody needs to read along: a terminal that was closed must not end hours of measuring."""
    with suppress(OSError):
        click.echo(plain(text), err=True)


def note(text: str) -> None:
    """A warning or a notice: on stderr, so that output stays what was asked for."""
    # Whether output gets through is told by who writes it.
    with suppress(OSError):
        sys.stdout.flush()
    click.echo(f"bench: {said(plain(text, lines=True))}", err=True)


def json_text(data: Any) -> str:
    """`data` as indented JSON in which nothing steers a terminal, the same data in every locale.

    Raises ValueError on NaN and infinities.
    """
    text = json.dumps(data, indent=2, ensure_ascii=not _says_all(sys.stdout), allow_nan=False)
    return "".join(char if char == "\n" or unicodedata.category(char) not in STEERING else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    """As JSON spells it: `\\u` and four digits, a pair of them beyond the first plane."""
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def say_json(data: Any) -> None:
    """`data` as `json_text` gives it."""
    put(json_text(data) + "\n")
