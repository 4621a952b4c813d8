"""Says of every two techniques of a suite's `pairs` whether they go together in one step, from how their rows ended.

A pair works where its row is ok: its loss followed that of the unmodified model and what both should do was proved. Wrong numbers are
either a loss that went elsewhere or a technique that was not at work; the row's proof tells which. What a library or we refuse has words.
All else (not installed, out of memory, out of time) is no answer about the pair.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bench.records import Case, Json, Result, Status
from bench.suite.arms import arms_of

PAIRS = "pairs"


class Fit(StrEnum):
    """How two techniques go together, or one alone."""

    WORKS = "works"
    WRONG_LOSS = "wrong loss"
    NO_EFFECT = "no effect"
    REFUSES = "refuses"
    UNTOLD = "can't tell"
    ONE_SLOT = "either or"
    """Both fill one slot, in two ways."""


REFUSED = (Status.UNSUPPORTED, Status.FAILED, Status.CRASHED)


@dataclass(frozen=True, slots=True)
class Cell:
    """Two parts together, or one alone where both names are the same."""

    one: str
    two: str
    word: Fit
    words: str | None
    """The reason as the row has it; None where it works, and where there is no row."""
    alone: tuple[str, ...]
    """Of two that do not work together: those that end with the same word alone."""
    result_id: str | None
    status: Status | None
    """Of that row."""
    same_as: tuple[str, ...]
    """The one of the two that holds the other already, so that the pair is nothing but it."""


@dataclass(frozen=True, slots=True)
class Compatibility:
    """All parts of a suite at one point."""

    point: Mapping[str, Json]
    """The case without its subject."""
    parts: tuple[str, ...]
    """In the suite's order."""
    cells: tuple[Cell, ...]
    """Each part alone and with each after it, row by row."""

    def cell(self, one: str, two: str) -> Cell:
        """Of two parts in either order, or of one alone. Raises KeyError for a name that is no part."""
        for cell in self.cells:
            if {cell.one, cell.two} == {one, two}:
                return cell
        raise KeyError(one, two)


def compatibilities(data: Mapping[str, Any], results: Iterable[Result]) -> tuple[Compatibility, ...]:
    """One for each point that has rows; none where the suite (`Suite.to_data`) has no pairs.

    Rows that were excluded or measured anew do not count.
    """
    placed = [(place, arm) for arm in arms_of(data) for place in arm.places if place.key == PAIRS]
    placed.sort(key=lambda found: found[0].position)
    subjects = {place.parts: tuple(sorted(arm.subject.items())) for place, arm in placed}
    parts = tuple(names[0] for names in subjects if len(names) == 1)
    if not parts:
        return ()
    points: dict[str, dict[tuple[tuple[str, str], ...], list[Result]]] = {}
    cases: dict[str, Case] = {}
    for result in _counted(results):
        case = result.case
        cases.setdefault(case.point_key, case)
        points.setdefault(case.point_key, {}).setdefault(tuple(sorted(case.subject.items())), []).append(result)
    return tuple(
        Compatibility(cases[key].point_data(), parts, _cells(parts, subjects, rows))
        for key, rows in points.items()
        if any(subject in rows for subject in subjects.values())
    )


def _counted(results: Iterable[Result]) -> list[Result]:
    kept = [result for result in results if result.excluded_reason is None]
    last: dict[str, int] = {}
    for result in kept:
        last[result.case.point_key] = max(last.get(result.case.point_key, 0), result.trial.attempt)
    return [result for result in kept if result.trial.attempt == last[result.case.point_key]]


def _cells(
    parts: Sequence[str],
    subjects: Mapping[tuple[str, ...], tuple[tuple[str, str], ...]],
    rows: Mapping[tuple[tuple[str, str], ...], Sequence[Result]],
) -> tuple[Cell, ...]:
    found = []
    for one, two in itertools.combinations_with_replacement(parts, 2):
        names = (one,) if one == two else (one, two)
        if names not in subjects:
            found.append(Cell(one, two, Fit.ONE_SLOT, None, (), None, None, ()))
            continue
        cell = _cell(one, two, rows.get(subjects[names], ()))
        holds = tuple(name for name in names if len(names) > 1 and subjects[name,] == subjects[names])
        found.append(dataclasses.replace(cell, same_as=holds))
    words = {cell.one: cell.word for cell in found if cell.one == cell.two}
    return tuple(
        cell
        if cell.one == cell.two or cell.word is Fit.WORKS or cell.status is None
        else dataclasses.replace(cell, alone=tuple(name for name in (cell.one, cell.two) if words[name] is cell.word))
        for cell in found
    )


def _cell(one: str, two: str, rows: Sequence[Result]) -> Cell:
    """Of the trials of one subject the gravest counts: one wrong loss is a wrong loss."""
    if not rows:
        return Cell(one, two, Fit.UNTOLD, None, (), None, None, ())
    grave = [Fit.WRONG_LOSS, Fit.NO_EFFECT, Fit.REFUSES, Fit.UNTOLD, Fit.WORKS]
    row = min(rows, key=lambda row: grave.index(_fit(row)))
    return Cell(one, two, _fit(row), row.reason, (), row.id, row.status, ())


def _fit(row: Result) -> Fit:
    if row.status is Status.OK:
        return Fit.WORKS
    if row.status is Status.INCORRECT:
        return Fit.NO_EFFECT if row.proof is not None and row.proof.verdict == "disproved" else Fit.WRONG_LOSS
    return Fit.REFUSES if row.status in REFUSED else Fit.UNTOLD
