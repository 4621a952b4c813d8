"""Text for a terminal that is too narrow for it: prose, and cells of tables, are folded between words.

Where output goes into a file or a pipe nothing is fitted: there a table has all its columns and words, whatever the width of a window was.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence

from bench.cli.terminal import padded, table, width
from bench.lang import said
from bench.plaintext import plain

NARROWEST = 12
"""Room below which folding and cutting help nobody."""
NARROWEST_PROSE = 40
BELOW = "    "
"""In front of what stands below its row."""
GAP = "  "
_WORD = re.compile(r"[-+\d.]*\d(?:e[-+]?\d+)? \S+|\S+")


def terminal_columns() -> int | None:
    """How wide the terminal is that standard output goes to; None where it goes elsewhere, or nobody knows."""
    if not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size(fallback=(0, 0)).columns or None


def widest_line(text: str) -> int:
    """Columns of the widest line of `text`."""
    return max(map(width, text.splitlines()), default=0)


def folded(text: str, most: int) -> list[str]:
    """`text` in lines of at most `most` columns, broken between words, and within a word only where it is longer than a line.

    A number and the word after it stay together.
    """
    lines, line = [], ""
    for word in _WORD.findall(text):
        if line and width(line) + 1 + width(word) <= most:
            line += f" {word}"
            continue
        if line:
            lines.append(line)
        line = ""
        for char in word:
            if line and width(line) + width(char) > most:
                lines.append(line)
                line = ""
            line += char
    return [*lines, line] if line or not lines else lines


def paragraph(text: str, room: int | None) -> str:
    """One line of prose, folded at words for a terminal of `room` columns; what follows the first line is set in by two."""
    if room is None or width(text) <= room:
        return text
    first, *rest = folded(text, max(room - 2, NARROWEST))
    return "\n  ".join([first, *rest])


def folded_table(heads: Sequence[str], rows: Sequence[Sequence[str]], room: int | None, *, right: Sequence[int] = ()) -> str:
    """The table whole, folded until it fits `room` columns; with None, as wide as it is.

    Words stay whole: names are there to be copied. The last column is prose; where little is left for it, and for those before it,
    they stand below their row, each after its head.
    """
    if room is None:
        return table(heads, rows, right=right)
    cells = [[said(plain(cell)) for cell in row] for row in [heads, *rows]]
    columns = [[row[column] for row in cells] for column in range(len(heads))]
    own = [max(map(width, column)) for column in columns]
    least = [
        own[c] if c in right else max(width(word) for cell in columns[c] for word in ["", *cell.split()]) for c in range(len(own))
    ]
    least[-1] = max(least[-1], min(own[-1], NARROWEST_PROSE))
    beside = next((count for count in range(len(own), 1, -1) if total(least[:count]) <= room), 1)
    widths = _shrunk(own[:beside], least[:beside], room)
    lines = []
    for place, row in enumerate(cells):
        lines += laid(row[:beside], widths, right)
        named = [f"{head} {cell}" for head, cell in zip(cells[0][beside:-1], row[beside:-1], strict=True) if cell and place]
        below = "; ".join(filter(None, [*named, *row[max(beside, len(row) - 1) :]]))
        lines += [f"{BELOW}{line}" for line in folded(below, room - len(BELOW)) if line]
    return "\n".join(lines)


def total(widths: Sequence[int]) -> int:
    """Columns that columns of these widths take beside each other."""
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _shrunk(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """`widths` with the widest made narrower until all fit, as far as `least` allows."""
    left = list(widths)
    while total(left) > room:
        foldable = [column for column in range(len(left)) if left[column] > least[column]]
        if not foldable:
            break
        left[max(foldable, key=left.__getitem__)] -= 1
    return left


def laid(row: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> list[str]:
    """The lines of one row: a cell that is wider than its column goes on below."""
    cells = [folded(cell, wide) if width(cell) > wide else [cell] for cell, wide in zip(row, widths, strict=True)]
    return [
        GAP.join(
            padded(cell[line] if line < len(cell) else "", wide, right=column in right)
            for column, (cell, wide) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()
        for line in range(max(map(len, cells)))
    ]
