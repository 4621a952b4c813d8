"""What the page's templates are given: each run, workload and panel of it, with every chart drawn and every sentence made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.records import Run, Scalar, Status
from bench.report import figures, units
from bench.report.answers import QUESTIONS, Doubt, Reading, doubts, readings
from bench.report.dots import MOST_SIZES, dots
from bench.report.layout import MAX_LINES, Facet, Section, sections
from bench.report.matrix import MatrixRow, matrix
from bench.report.rates import (
    Exponent,
    canaries_in_order,
    canary_name,
    canary_rate,
    denominator_words,
    denominators,
    exponents,
    rate_words,
    share_words,
    trials_words,
)
from bench.report.roofline import Roofline, rooflines
from bench.report.rows import Depth, Row, table_rows
from bench.report.summary import PEAK, TIME, CaseSummary, Reach
from bench.report.surroundings import Surroundings, surroundings

MAX_PANELS = 24
"""Charts drawn in one page, about 10 to 25 kB each; further panels keep their matrix and say that they have no chart."""
OPEN_FACETS = 4
"""Panels that stand open; the rest is folded with its heading visible."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart with what stands around it."""

    title: str
    hint: str
    svg: str
    growths: tuple[tuple[str, str, str], ...]
    """Subjects, what grows, and its exponent in words; subjects of one exponent together."""


@dataclass(frozen=True, slots=True)
class FacetView:
    id: str
    facet: Facet
    panels: tuple[Panel, ...]
    legend: bool
    """Whether the charts need one: those of dots carry the names themselves."""
    growths: tuple[tuple[str, str, str], ...]
    """Exponents where there is no chart to stand under."""
    nowhere: tuple[tuple[str, str, str | None], ...]
    """Subjects without one value here: label, status word, reason."""
    undrawn: str | None
    coinciding: tuple[str, ...]
    """Sentences about lines that lie on each other."""
    matrix: tuple[MatrixRow, ...]
    open: bool

    @property
    def rated_by(self) -> str:
        """What the shares in the matrix are of, each with its value; nothing where there are none."""
        leading = [cell.summary.rates.leading for row in self.matrix for cell in row.cells if cell.summary and cell.rate]
        return " or ".join(dict.fromkeys(denominator_words(rate) for rate in leading if rate))


@dataclass(frozen=True, slots=True)
class SectionView:
    id: str
    section: Section
    answers: tuple[tuple[str, tuple[Reading, ...]], ...]
    styles: Mapping[str, figures.Style]
    facets: tuple[FacetView, ...]
    rooflines: tuple[Roofline, ...]
    rows: tuple[Row, ...]

    @property
    def has_cycles(self) -> bool:
        return any(row.cycles for row in self.rows)

    @property
    def has_kernels(self) -> bool:
        return any(row.kernels for row in self.rows)

    @property
    def has_rates(self) -> bool:
        return any(row.rate for row in self.rows)

    @property
    def columns(self) -> int:
        """Columns of the table of all rows."""
        return 9 + len(self.section.axes) + self.has_cycles + self.has_kernels + self.has_rates


@dataclass(frozen=True, slots=True)
class CanaryView:
    """One thing that the machine was seen to reach."""

    name: str
    """`matmul bf16`, `copy`."""
    summary: CaseSummary
    rate: str | None
    spread: str | None
    """Range over trials as a share of the median, and n."""
    share: str | None
    denominator: str | None


@dataclass(frozen=True, slots=True)
class RunView:
    id: str
    run: Run
    device: str
    trial_counts: tuple[tuple[Status, int], ...]
    cases: int
    trials: int
    doubts: tuple[Doubt, ...]
    sections: tuple[SectionView, ...]
    canaries: tuple[CanaryView, ...]
    canary_rows: tuple[SectionView, ...]
    surroundings: Surroundings
    protocol: tuple[tuple[str, str], ...]


def _nowhere(facet: Facet) -> tuple[tuple[str, str, str | None], ...]:
    found = []
    for label in facet.labels:
        cells = facet.row(label)
        if not any(cell.usable for cell in cells):
            words = ", ".join(dict.fromkeys(figures.case_word(cell) for cell in cells))
            found.append((label, words, cells[0].reason))
    return tuple(found)


def _batches(facet: Facet) -> list[list[str]]:
    """Subjects with a value, at most MAX_LINES together; the baseline stands in each batch."""
    drawn = [label for label in facet.labels if any(cell.usable for cell in facet.row(label))]
    if len(drawn) <= MAX_LINES:
        return [drawn] if drawn else []
    base = [facet.baseline] if facet.baseline in drawn and facet.baseline else []
    rest = [label for label in drawn if label not in base]
    step = MAX_LINES - len(base)
    return [base + rest[start : start + step] for start in range(0, len(rest), step)]


def _coinciding(facet: Facet) -> tuple[str, ...]:
    return tuple(
        f"{', '.join(units.shorten(label, 40) for label in group)}: lines of {figures.TITLES[metric]} lie on each other"
        for metric in (TIME, PEAK)
        for labels in _batches(facet)
        for group in figures.coinciding(facet, labels, metric)
    )


def _growths(section: Section, found: Sequence[Exponent], labels: Sequence[str], metric: str) -> tuple[tuple[str, str, str], ...]:
    alike: dict[str, list[str]] = {}
    for exponent in found:
        if exponent.metric == metric and exponent.label in labels:
            alike.setdefault(exponent.words, []).append(units.shorten(exponent.label, 40))
    what = f"{'time' if metric == TIME else 'peak'} ∝ {section.swept}"
    return tuple((", ".join(names), what, words) for words, names in alike.items())


def _hint(facet: Facet, swept: str | None) -> str:
    if len(facet.xs) > MOST_SIZES:
        return "lower is better · both axes logarithmic · bars: range over trials"
    sizes = ""
    if len(facet.xs) == MOST_SIZES and swept:
        sizes = f" · ○{units.NO_BREAK}{swept.replace('_', ' ')} {facet.xs[0]} →{units.NO_BREAK}●{units.NO_BREAK}{facet.xs[1]}"
    return f"lower is better · logarithmic · bars: range over trials{sizes}"


def _panels(
    facet: Facet, section: Section, chosen: dict[str, figures.Style], prefix: str, room: int, found: Sequence[Exponent]
) -> tuple[list[Panel], str | None]:
    batches = _batches(facet)
    few = len(facet.xs) <= MOST_SIZES
    if not batches:
        return [], "No subject has a value here, so there is no chart."
    if room < 2 * len(batches):
        return [], f"This page draws {MAX_PANELS} charts at most; the numbers of this panel are in the matrix."
    panels = []
    undrawn = None
    for number, labels in enumerate(batches, 1):
        part = f" ({number} of {len(batches)})" if len(batches) > 1 else ""
        for metric in (TIME, PEAK):
            name = f"{prefix}{number}{metric[0]}"
            try:
                svg = (
                    dots(facet, labels, metric, swept=section.swept, chosen=chosen, prefix=name)
                    if few or section.swept is None
                    else figures.panel(facet, labels, metric, swept=section.swept, chosen=chosen, prefix=name)
                )
            except (ValueError, ArithmeticError) as error:
                # One strange imported row must not cost the reader the page.
                undrawn = f"{figures.TITLES[metric].capitalize()}: no chart: {error}"
                continue
            if svg:
                title = f"{figures.TITLES[metric].capitalize()}{part}"
                panels.append(Panel(title, _hint(facet, section.swept), svg, _growths(section, found, labels, metric)))
    return panels, undrawn


def _section_view(section: Section, ident: str, rows: Sequence[Row], drawn: int) -> tuple[SectionView, int]:
    chosen = figures.styles(section.labels)
    row_ids: dict[tuple[str, str], str] = {}
    for row in rows:
        row_ids.setdefault((row.summary.case.key, row.summary.arm), row.id)
    views = []
    for number, facet in enumerate(section.facets, 1):
        grown = [exponent for label in facet.labels for exponent in exponents(label, facet.row(label), section.swept)]
        panels, undrawn = _panels(facet, section, chosen, f"{ident}f{number}", MAX_PANELS - drawn, grown)
        drawn += len(panels)
        views.append(
            FacetView(
                f"{ident}f{number}",
                facet,
                tuple(panels),
                bool(panels) and len(facet.xs) > MOST_SIZES,
                () if panels else tuple(line for m in (TIME, PEAK) for line in _growths(section, grown, facet.labels, m)),
                _nowhere(facet),
                undrawn,
                _coinciding(facet) if panels and len(facet.xs) > MOST_SIZES else (),
                matrix(facet, row_ids),
                number <= OPEN_FACETS,
            )
        )
    answers = tuple((words, tuple(found)) for metric, words in QUESTIONS if (found := readings(section, metric)))
    return SectionView(ident, section, answers, chosen, tuple(views), rooflines(section, chosen, ident), tuple(rows)), drawn


def _canary(summary: CaseSummary) -> CanaryView:
    """In words, what a canary reached; its status where it reached nothing."""
    time, rate = summary.values.get(TIME), canary_rate(summary)
    return CanaryView(
        name=canary_name(summary),
        summary=summary,
        rate=rate_words(rate) if rate else None,
        spread=trials_words(time) if rate and time else None,
        share=share_words(rate) if rate else None,
        denominator=denominators(rate) if rate else None,
    )


def _canary_rows(run: Run, reach: Reach, ident: str, usual: Mapping[str, Scalar], depth: Depth) -> tuple[SectionView, ...]:
    return tuple(
        SectionView(f"{ident}-{n}", section, (), figures.styles(section.labels), (), (), tuple(table_rows(section, usual, depth)))
        for n, section in enumerate(sections(run, canaries_in_order(reach)), 1)
    )


def device_words(run: Run, hard: Mapping[str, Scalar]) -> str:
    """The device of a run in a few words, from its hard facts."""
    model = next(
        (str(hard[key]) for key in ("gpu", "gpu_model", "gpu_name", "cpu_model", "cpu", "model", "name") if hard.get(key)), ""
    )
    threads = hard.get("threads")
    words = [run.device if not model else f"{model} ({run.device})"]
    if threads is not None:
        words.append("1 thread" if threads == 1 else f"{threads} threads")
    return ", ".join(words)


def run_view(run: Run, cases: Sequence[CaseSummary], reach: Reach, number: int, depth: Depth, drawn: int) -> tuple[RunView, int]:
    own = [result for summary in (*cases, *reach.canaries) for result in summary.counted]
    around = surroundings(own)
    views = []
    for position, section in enumerate(sections(run, cases), 1):
        view, drawn = _section_view(section, f"s{number}-{position}", table_rows(section, around.usual, depth), drawn)
        views.append(view)
    counts = Counter(result.status for result in own)
    return RunView(
        id=f"run{number}",
        run=run,
        device=device_words(run, around.usual),
        trial_counts=tuple((status, counts[status]) for status in Status if counts[status]),
        cases=len(cases),
        trials=len(own),
        doubts=tuple(doubts(run, cases, reach)),
        sections=tuple(views),
        canaries=tuple(_canary(summary) for summary in canaries_in_order(reach)),
        canary_rows=_canary_rows(run, reach, f"c{number}", around.usual, depth),
        surroundings=around,
        protocol=tuple((name, units.fact(name, value)) for name, value in units.flatten(run.suite_data.get("protocol", {}))),
    ), drawn
