"""Which techniques go together: the matrix of a suite's pairs, with a word in each cell and the words of what refuses below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from bench.judge.compat import Cell as Found
from bench.judge.compat import Compatibility, Fit, compatibilities
from bench.records import Result, Run
from bench.report.answers.advice import Advice
from bench.report.numbers import units
from bench.report.views.tables import Cell, Head, Table

SYMBOLS: Mapping[Fit, str] = {
    Fit.WORKS: "✓", Fit.WRONG_LOSS: "≠", Fit.NO_EFFECT: "○", Fit.REFUSES: "×", Fit.UNTOLD: "?", Fit.ONE_SLOT: "–",
}  # fmt: skip
TINTS: Mapping[Fit, str] = {
    Fit.WORKS: "faster", Fit.WRONG_LOSS: "bad", Fit.NO_EFFECT: "slower", Fit.REFUSES: "word", Fit.UNTOLD: "none", Fit.ONE_SLOT: "none",
}  # fmt: skip
MEANINGS: Mapping[Fit, str] = {
    Fit.WORKS: "the loss follows the unmodified model's, and both were at work",
    Fit.WRONG_LOSS: "a check of the loss or of the update failed",
    Fit.NO_EFFECT: "the proof says that one of the two was not at work",
    Fit.REFUSES: "cannot, in its own words below",
    Fit.UNTOLD: "not installed here, out of memory, timed out, or not run",
    Fit.ONE_SLOT: "both fill the same place, so it is one or the other",
}
WHY_CHARS = 240
"""Where the pointer rests on a cell."""
LISTED_CHARS = 800
"""Below the table: what can be done stands at the end of a reason."""


def compatibility_tables(run: Run, results: Sequence[Result], rows: Mapping[str, str]) -> tuple[Table, ...]:
    """A matrix for each point of a suite with pairs; none else. `rows`: id of a result to the id of its row."""
    return tuple(_table(found, rows) for found in compatibilities(run.suite_data, results))


def _table(found: Compatibility, rows: Mapping[str, str]) -> Table:
    heads = (Head(""), *(Head(part) for part in found.parts))
    lines = tuple((Cell(one), *(_cell(found.cell(one, two), rows) for two in found.parts)) for one in found.parts)
    present = [fit for fit in Fit if any(cell.word is fit for cell in found.cells)]
    caption = "On the diagonal each alone. " + " ".join(f"{SYMBOLS[fit]} {fit}: {MEANINGS[fit]}." for fit in present)
    return Table("Which go together", caption, heads, lines, words=tuple(_reasons(found)), kind="compat")


def _cell(cell: Found, rows: Mapping[str, str]) -> Cell:
    note = f"is {cell.same_as[0]}" if cell.same_as else f"{cell.alone[0]} alone too" if len(cell.alone) == 1 else ""
    tint = TINTS[cell.word] + (" dim" if cell.alone or cell.same_as else "")
    link = rows.get(cell.result_id) if cell.result_id else None
    return Cell(f"{SYMBOLS[cell.word]} {cell.word}", note, tint, link=link, why=units.shorten(cell.words or "", WHY_CHARS))


def _reasons(found: Compatibility) -> list[str]:
    """What does not work and is not explained by one of the two alone, with its reason; equal reasons together."""
    together: dict[tuple[Fit, str], list[str]] = {}
    for cell in found.cells:
        if cell.words and cell.word is not Fit.WORKS and not cell.alone and not cell.same_as:
            name = cell.one if cell.one == cell.two else f"{cell.one} with {cell.two}"
            together.setdefault((cell.word, units.shorten(" ".join(cell.words.split()), LISTED_CHARS)), []).append(name)
    return [f"{', '.join(names)}: {word}: {words}" for (word, words), names in together.items()]


def compatibility_advice(run: Run, results: Sequence[Result]) -> list[Advice]:
    """How many pairs work, and which do not, in one sentence a point; none for a suite without pairs."""
    return [_sentence(found) for found in compatibilities(run.suite_data, results)]


def _sentence(found: Compatibility) -> Advice:
    pairs = [cell for cell in found.cells if cell.one != cell.two and cell.word is not Fit.ONE_SLOT and not cell.same_as]
    counts = Counter(cell.word for cell in pairs)
    rest = ", ".join(f"{counts[fit]} {fit}" for fit in Fit if counts[fit] and fit is not Fit.WORKS)
    bad = [f"{cell.one} with {cell.two}" for cell in pairs if cell.word in (Fit.WRONG_LOSS, Fit.NO_EFFECT) and not cell.alone]
    numbers = (rest or "none does not") + (f"; look at {', '.join(bad[:6])}{' …' if len(bad) > 6 else ''}" if bad else "")
    where = f"{len(found.parts)} techniques, {len(pairs)} pairs"
    return Advice(where, "", f"{counts[Fit.WORKS]} work together", numbers, None, None, settled=True)
