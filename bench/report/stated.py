"""Marks what the page states as numbers: each such element says of which cases and which metric it is, for `bench verify`.

The mark is an attribute, `data-q`. A statement is a letter of `KINDS` with the position of its metric in the data of the page, then the
positions of its cases, with dots between: `x0.12` is the ratio of the first metric of case 12 to its baseline. What lies inside of an
element that is marked with cases alone is of these cases. In a table the heads may hold letter and metric, and the bodies or lines the
cases; `-` is a body that states no number. The text of a marked element is the statement and nothing else, except that of a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from bench.report.island import case_places, metrics_told, trial_places
from bench.report.layout import Section
from bench.report.summary import TIME, CaseSummary

ATTRIBUTE = "data-q"
MEDIAN, RANGE, RANGE_AND_N, VALUE, TRIAL, RATIO, WIDEST_RATIO, MEDIAN_AND_RATIO = "mrRvtxXy"
VERDICT, INTERVAL, JUDGED, WITH_SYMBOL = "wiWV"
MEAN, LOWEST, HIGHEST, COUNT, COUNT_OF_ALL, SENTENCE, LINE, ADVICE = "glhcCsLa"
KINDS: Mapping[str, str] = {
    MEDIAN: "values",
    VALUE: "values",
    TRIAL: "values",
    RANGE: "ranges",
    RANGE_AND_N: "ranges",
    RATIO: "ratios",
    WIDEST_RATIO: "ratios",
    MEDIAN_AND_RATIO: "ratios",
    MEAN: "ratios",
    LOWEST: "ratios",
    HIGHEST: "ratios",
    INTERVAL: "intervals",
    VERDICT: "verdicts",
    JUDGED: "verdicts with their intervals",
    WITH_SYMBOL: "verdicts with their intervals",
    COUNT: "counts of verdicts",
    COUNT_OF_ALL: "counts of verdicts",
    SENTENCE: "sentences",
    ADVICE: "sentences",
    LINE: "exponents and crossings",
}
"""Letter to what it is counted among. `m` median over trials · `r` range over trials · `R` the same with n, or n alone · `v` median with
range and n · `t` median of one trial, by the trial's position · `x` ratio of medians to the second case named, else to the baseline · `X`
the same with the widest range that the trials allow · `y` median and ratio, where there is one · `w` verdict against the baseline in a word
· `i` the judged ratio with its 99 % interval · `W` both · `V` both after the word's symbol · `g` geometric mean of the judged ratios of
several cases · `l` and `h` the lowest and the highest of them · `c` how many of them have a verdict · `C` the same among all of the
workload of the case named · `s` a sentence: every ratio, interval and value in it is of the cases that it names, or of one beside another
· `L` an exponent or a crossing among those of the workload of the case named · `a` what to use, word for word, among all that is advised
for that workload."""
OF_ONE_CASE = frozenset((MEDIAN, VALUE))
"""Statements by which a page shows a case."""
NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Marks:
    """What templates ask for marks; each answer is an attribute with a space before it, or nothing for what the data do not tell."""

    cases: Mapping[tuple[str, str, str], int]
    trials: Mapping[str, int]
    metrics: Mapping[str, int]

    @classmethod
    def of(cls, cases: Sequence[CaseSummary]) -> Marks:
        """The marks of a page whose data were made of these cases."""
        told = metrics_told(cases)
        return cls(case_places(cases), trial_places(cases), {name: place for place, name in enumerate(told)})

    def about(self, *cases: CaseSummary | None) -> Markup:
        """What lies inside is of these cases."""
        return _attribute(self._places(cases))

    def row(self, case: CaseSummary, leading: bool) -> Markup:
        """A body of a table with heads that are marked; of a case that ended in several ways only the leading one states its numbers."""
        return self.about(case) if leading else _attribute(NOTHING)

    def subject(self, section: Section, label: str) -> Markup:
        """What lies inside is of all cases of a subject."""
        return self.about(*(cell for facet in section.facets for (name, _), cell in facet.cells.items() if name == label))

    def states(self, kind: str, metric: str, *cases: CaseSummary | None) -> Markup:
        """A statement; without cases it is of those around it."""
        if metric not in self.metrics:
            return Markup("")
        return _attribute(".".join((f"{kind}{self.metrics[metric]}", *filter(None, (self._places(cases),)))))

    def trial(self, result_id: str) -> Markup:
        """A line of a table of trials."""
        return _attribute(str(self.trials[result_id])) if result_id in self.trials else _attribute(NOTHING)

    def sentence(self, cases: Iterable[CaseSummary]) -> Markup:
        """Words about these cases."""
        places = self._places(cases)
        return _attribute(f"{SENTENCE}0.{places}") if places else Markup("")

    def advice(self, cases: Iterable[CaseSummary]) -> Markup:
        """What to use, with these cases."""
        places = self._places(cases)
        return _attribute(f"{ADVICE}0.{places}") if places else Markup("")

    def line(self, section: Section) -> Markup:
        """An exponent or a crossing of a section."""
        return self.states(LINE, TIME, section.cases[0])

    def _places(self, cases: Iterable[CaseSummary | None]) -> str:
        found = (self.cases[case.run_id, case.case.key, case.arm] for case in cases if case is not None)
        return ".".join(map(str, dict.fromkeys(found)))


def _attribute(value: str) -> Markup:
    # Digits, letters, dots and dashes need no quotes, and thousands of rows carry one.
    return Markup(f" {ATTRIBUTE}={value}") if value else Markup("")
