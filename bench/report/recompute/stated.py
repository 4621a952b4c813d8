"""Marks what the page states: each such element says of which case and metric, or of which part of the page it is, for `bench verify`.

The mark is an attribute, `data-q`. A statement is a letter of `KINDS` with a number, then the positions of its cases in the data of the
page, with dots between: `m0.12` is the median of the first metric of case 12. Of what is said in words the number is that of the scope
(`told.py`), a run, section, panel or row: `T7`. What lies inside of an element that is marked with a case alone is of this case. In a table
the heads may hold letter and number, and the bodies or lines the case; `-` is a body that states no number. The text of a marked element
is the statement and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from bench.report.numbers.layout import Facet
from bench.report.numbers.summary import TIME, CaseSummary
from bench.report.recompute.island import case_places, command_of, metrics_told, trial_places
from bench.report.views.rows import COLUMNS, Row

ATTRIBUTE = "data-q"
MEDIAN, RANGE, TRIAL, FINDING, WITH_SYMBOL, LINE, CELLS, COLUMN, FACT, SAID = "mrtfVLMouT"
KINDS: Mapping[str, str] = {
    MEDIAN: "values",
    TRIAL: "values",
    RANGE: "ranges",
    FINDING: "other metrics",
    WITH_SYMBOL: "verdicts with their intervals",
    LINE: "exponents and crossings",
    CELLS: "lines of the matrix",
    COLUMN: "statuses, rates, errors and proofs",
    FACT: "facts of trials",
    SAID: "sentences",
}
"""Letter to what it is counted among. `m` median over trials · `r` range over trials · `t` median of one trial, by the trial's position ·
`f` median with the range where trials differ · `V` verdict against the baseline with its interval, after the word's symbol · `L` an
exponent among those of the panel of the case named · `M` all that the line of the matrix says in which that case is the first, whose parts
are counted one by one · `o` one of the columns that `rows.py` makes words for, by its number, or beyond them an axis · `u` one of `FACTS`
of a trial, by its number · `T` something that a scope says, counted among what it is."""
FACTS = ("index", "samples", "result")
"""What a line of a trial begins with in the columns of these names."""
OF_ONE_CASE = frozenset((MEDIAN,))
"""Statements by which a page shows a case, beside the lines of the matrix."""
NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Marks:
    """What templates ask for marks; each answer is an attribute with a space before it, or nothing for what the data do not tell."""

    cases: Mapping[tuple[str, str, str], int]
    trials: Mapping[str, int]
    metrics: Mapping[str, int]
    scopes: Mapping[str, int]
    full: bool
    """Whether the page tells each row with all its evidence."""

    @classmethod
    def of(cls, cases: Sequence[CaseSummary], scopes: Iterable[str], *, full: bool) -> Marks:
        """The marks of a page whose data were made of these cases, and whose scopes have these ids."""
        told = metrics_told(cases, full=full)
        numbers = {ident: place for place, ident in enumerate(scopes)}
        return cls(case_places(cases), trial_places(cases), {name: place for place, name in enumerate(told)}, numbers, full)

    def row(self, case: CaseSummary, leading: bool) -> Markup:
        """A body of a table with heads that are marked; of a case that ended in several ways only the leading one states its numbers."""
        return _attribute(str(self._place(case)) if leading else NOTHING)

    def states(self, kind: str, metric: str) -> Markup:
        """A statement of the case around it."""
        return _attribute(f"{kind}{self.metrics[metric]}") if metric in self.metrics else Markup("")

    def column(self, name: str) -> Markup:
        """The head of one of the columns that have words of their own."""
        return _attribute(f"{COLUMN}{COLUMNS.index(name)}")

    def axis(self, number: int) -> Markup:
        """The head of the column of an axis."""
        return _attribute(f"{COLUMN}{len(COLUMNS) + number}")

    def line_of(self, facet: Facet, label: str) -> Markup:
        """A line of a panel's matrix."""
        return _attribute(f"{CELLS}0.{self._place(facet.row(label)[0])}")

    def fact(self, name: str) -> Markup:
        """The head of a column of trials."""
        return _attribute(f"{FACT}{FACTS.index(name)}")

    def command(self, row: Row) -> Markup:
        """The command of a row, where the data tell that very one."""
        told = command_of(row.summary)
        return self.said(row.id) if self.full and told and row.commands[:1] == (told,) else Markup("")

    def trial(self, result_id: str) -> Markup:
        """A line of a table of trials."""
        return _attribute(str(self.trials[result_id])) if result_id in self.trials else _attribute(NOTHING)

    def said(self, scope: str) -> Markup:
        """Something in words, by the id of what it is said of."""
        return _attribute(f"{SAID}{self.scopes[scope]}")

    def line(self, facet: Facet) -> Markup:
        """An exponent of a panel."""
        return _attribute(f"{LINE}{self.metrics[TIME]}.{self._place(next(iter(facet.cells.values())))}")

    def _place(self, case: CaseSummary) -> int:
        return self.cases[case.run_id, case.case.key, case.arm]


def _attribute(value: str) -> Markup:
    # Digits, letters, dots and dashes need no quotes, and thousands of rows carry one.
    return Markup(f" {ATTRIBUTE}={value}")
