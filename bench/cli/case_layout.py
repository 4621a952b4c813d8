"""The table of a run, whole or for a terminal that is too narrow for it: then the columns that matter most, and what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.cli.fitting import GAP, NARROWEST, folded, laid, paragraph, total
from bench.cli.terminal import padded, shortened, table, width
from bench.plaintext import plain

NARROWEST_SUBJECT = 20
WIDEST_REASON = 80
"""`bench show RESULT` has it whole."""


@dataclass(frozen=True, slots=True)
class Line:
    """A case as the table of a run shows it; what it has no value of is empty."""

    point: tuple[str, ...]
    subject: str
    status: str
    n: str
    time: str
    between: str
    memory: str
    found: tuple[str, ...]
    reason: str
    result: str
    """The id of a row that ended so: of the first, where there are several."""


@dataclass(frozen=True, slots=True)
class Heads:
    """What stands above the cells of `Line`."""

    axes: tuple[str, ...]
    memory: str
    found: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fitted:
    """A table that fits, and what it lacks."""

    text: str
    left_out: tuple[str, ...]
    """Heads of columns that there was no room for."""
    alike: tuple[str, ...]
    """`weights 2.30 GiB`: columns that there was no room for, and whose rows all say the same."""


def whole_table(heads: Heads, lines: Sequence[Line], *, ids: bool) -> str:
    """Every column, however wide; with `ids` the last one has what `bench show` and `bench rerun` take."""
    titles = [*heads.axes, "subject", "status", "time", "range over trials", heads.memory, *heads.found, "n", "reason"]
    cells = [
        [*e.point, e.subject, e.status, e.time, e.between, e.memory, *e.found, e.n, shortened(plain(e.reason), WIDEST_REASON)]
        for e in lines
    ]
    if ids:
        titles.append("result")
        cells = [[*row, line.result] for row, line in zip(cells, lines, strict=True)]
    first = len(heads.axes) + 2
    return table(titles, cells, right=range(first, first + 4 + len(heads.found)))


def fitted_table(heads: Heads, lines: Sequence[Line], room: int) -> Fitted:
    """Identity, status, n, time with its range, and memory first; then findings that differ between rows, then the others.

    A reason stands where a row has no values, else below it. Where even the first columns do not fit, a line above the rows of each
    point says its axes, subjects are folded, and last the range is left out.
    """
    named = [_column("subject", [line.subject for line in lines]), _column("status", [line.status for line in lines])]
    values = [
        _column("n", [line.n for line in lines], right=True),
        _column("time", [line.time for line in lines], right=True),
        _column("range over trials", [line.between for line in lines], right=True),
        _column(heads.memory, [line.memory for line in lines], right=True),
    ]
    values = [column for column in values if any(column.cells)]
    axes = [_column(head, [line.point[place] for line in lines]) for place, head in enumerate(heads.axes)]
    found = [_column(head, [line.found[place] for line in lines], right=True) for place, head in enumerate(heads.found)]
    found = [column for column in found if any(column.cells)]
    left: list[str] = []
    above = _needs([*axes, *named, *values]) > room and bool(axes)
    shown = [*([] if above else axes), *named]
    inset = 2 if above else 0
    if (over := _needs([*shown, *values]) + inset - room) > 0:
        subject = shown[-2]
        shown[-2] = _Column(
            subject.head, subject.cells, max(subject.width - over, min(subject.width, NARROWEST_SUBJECT)), right=False
        )
    if _needs([*shown, *values]) + inset > room:
        left += [column.head for column in values if column.head == "range over trials"]
        values = [column for column in values if column.head not in left]
    taken = set()
    for column in sorted(found, key=lambda column: not column.differs):
        if _needs([*shown, *values, *(c for c in found if c.head in taken), column]) + inset <= room:
            taken.add(column.head)
    values += [column for column in found if column.head in taken]
    out = [column for column in found if column.head not in taken]
    return Fitted(
        "\n".join(_body(heads.axes if above else (), lines, shown, values, room)),
        (*left, *(column.head for column in out if column.differs)),
        tuple(f"{column.head} {next(cell for cell in column.cells if cell)}" for column in out if not column.differs),
    )


@dataclass(frozen=True, slots=True)
class _Column:
    head: str
    cells: tuple[str, ...]
    width: int
    right: bool

    @property
    def differs(self) -> bool:
        """Whether rows that have it say different things."""
        return len({cell for cell in self.cells if cell}) > 1


def _column(head: str, cells: Sequence[str], *, right: bool = False) -> _Column:
    """A head of several words is folded to what its cells take."""
    shown = tuple(map(plain, cells))
    widest = max(map(width, shown), default=0)
    most = max(widest, NARROWEST)
    return _Column(head, shown, max(widest, *(width(line) for line in folded(plain(head), most))), right)


def _needs(columns: Sequence[_Column]) -> int:
    return total([column.width for column in columns])


def _body(axes: Sequence[str], lines: Sequence[Line], named: Sequence[_Column], values: Sequence[_Column], room: int) -> list[str]:
    inset = "  " if axes else ""
    columns = [*named, *values]
    heads = [folded(plain(column.head), max(column.width, 1)) for column in columns]
    most = max(map(len, heads))
    text = [
        (
            inset
            + GAP.join(
                # The last line of a head stands on its column.
                padded((["" for _ in range(most - len(head))] + head)[row], column.width, right=column.right)
                for head, column in zip(heads, columns, strict=True)
            )
        ).rstrip()
        for row in range(most)
    ]
    point = None
    for place, line in enumerate(lines):
        if axes and line.point != point:
            point = line.point
            told = ", ".join(f"{axis}={plain(value)}" for axis, value in zip(axes, point, strict=True) if value)
            text.append(paragraph(told, room))
        text += _row(place, plain(line.reason), named, values, room, inset)
    return text


def _row(place: int, reason: str, named: Sequence[_Column], values: Sequence[_Column], room: int, inset: str) -> list[str]:
    right = [len(named) + offset for offset in range(len(values))]
    columns = [*named, *values]
    lines = [inset + line for line in laid([c.cells[place] for c in columns], [c.width for c in columns], right)]
    if not reason:
        return lines
    empty = [column for column in values if column.head != "n"]
    start = len(inset) + _needs(columns) - _needs(empty)
    if not any(column.cells[place] for column in empty) and room - start >= NARROWEST:
        # Nothing stands there that the reason could hide.
        return [padded(lines[0], start, right=False) + shortened(reason, room - start), *lines[1:]]
    return [*lines, f"{inset}  {shortened(reason, room - len(inset) - 2)}"]
