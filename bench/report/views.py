"""What the page's templates are given: each run, workload and panel of it, with every chart drawn and every sentence made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from bench.records import Run, Scalar, Status
from bench.report import figures, units
from bench.report.answers import Reading, questions, readings
from bench.report.beside import Extra, extras
from bench.report.dots import MOST_SIZES, dots
from bench.report.doubts import Doubt, doubts
from bench.report.explained import MOST_TIMELINES, Explanation, explanations
from bench.report.findings import found_in, title
from bench.report.layout import MAX_LINES, Facet, Section, sections
from bench.report.matrix import MatrixRow, matrix
from bench.report.rates import (
    Exponent,
    canaries_in_order,
    canary_name,
    canary_rate,
    denominator_words,
    denominators,
    facet_exponents,
    growth_lines,
    rate_words,
    share_words,
    trials_words,
)
from bench.report.roofline import Roofline, rooflines
from bench.report.rows import Depth, Row, table_rows
from bench.report.summary import TIME, CaseSummary, Reach
from bench.report.surroundings import Surroundings, surroundings

MAX_PANELS = 24
"""Charts drawn in one page, about 10 to 25 kB each; further panels keep their matrix and say that they have no chart."""
FEW_PANELS, FEW_EXTRAS = 16, 3
"""In a page with very many rows."""
MAX_EXTRAS = 12
"""Charts beside those of time and memory: three for each panel that stands open."""
OPEN_FACETS = 4
"""Panels that stand open; the rest is folded with its heading visible."""


@dataclass(slots=True)
class Room:
    """How much may still be drawn in a page."""

    panels: int = MAX_PANELS
    extras: int = MAX_EXTRAS
    timelines: int = MOST_TIMELINES


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
    extras: tuple[Extra, ...]
    memory_words: str
    """Which peak the matrix shows."""

    @property
    def rated_by(self) -> str:
        """What the shares in the matrix are of, each with its value; nothing where there are none."""
        rates = [cell.rated for row in self.matrix for cell in row.cells if cell.rated]
        return " or ".join(dict.fromkeys(denominator_words(rate) for rate in rates))

    @property
    def utilised_of(self) -> str:
        """The denominators of the model FLOP/s utilisations in the matrix; nothing where there are none."""
        cells = [cell.utilisation for row in self.matrix for cell in row.cells if cell.utilisation]
        return " or ".join(dict.fromkeys(found.denominator for found in cells))

    @property
    def has_others(self) -> bool:
        """Whether somebody computes something else on purpose."""
        return any(row.other_numbers for row in self.matrix)


@dataclass(frozen=True)
class SectionView:
    id: str
    section: Section
    answers: tuple[tuple[str, tuple[Reading, ...]], ...]
    styles: Mapping[str, figures.Style]
    facets: tuple[FacetView, ...]
    rooflines: tuple[Roofline, ...]
    rows: tuple[Row, ...]
    findings: tuple[tuple[str, str], ...] = ()
    """Metric and head of each column of findings."""
    explanations: Mapping[str, Explanation] = field(default_factory=dict)
    """By the id of the row."""

    @property
    def memory(self) -> str:
        return self.section.memory

    @cached_property
    def has_cycles(self) -> bool:
        return any(row.cycles for row in self.rows)

    @cached_property
    def has_kernels(self) -> bool:
        return any(row.kernels for row in self.rows)

    @cached_property
    def has_rates(self) -> bool:
        return any(row.rate for row in self.rows)

    @cached_property
    def columns(self) -> int:
        """Columns of the table of all rows."""
        return 9 + len(self.section.axes) + self.has_cycles + self.has_kernels + self.has_rates + len(self.findings)


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
        for metric in (TIME, facet.memory)
        for labels in _batches(facet)
        for group in figures.coinciding(facet, labels, metric)
    )


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
        return [], "This page draws no more charts; the numbers of this panel are in the matrix."
    panels = []
    undrawn = None
    for number, labels in enumerate(batches, 1):
        part = f" ({number} of {len(batches)})" if len(batches) > 1 else ""
        for metric in (TIME, facet.memory):
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
                panels.append(Panel(title, _hint(facet, section.swept), svg, growth_lines(found, labels, metric, section.swept)))
    return panels, undrawn


def _section_view(section: Section, ident: str, rows: Sequence[Row], room: Room, *, full: bool) -> SectionView:
    chosen = figures.styles(section.labels)
    row_ids: dict[tuple[str, str], str] = {}
    for row in rows:
        row_ids.setdefault((row.summary.case.key, row.summary.arm), row.id)
    views = []
    for number, facet in enumerate(section.facets, 1):
        grown = facet_exponents(facet, section.swept)
        panels, undrawn = _panels(facet, section, chosen, f"{ident}f{number}", room.panels, grown)
        room.panels -= len(panels)
        beside = extras(facet, section.swept, chosen, f"{ident}f{number}", room.extras)
        room.extras -= len(beside)
        views.append(
            FacetView(
                f"{ident}f{number}",
                facet,
                tuple(panels),
                bool(panels) and len(facet.xs) > MOST_SIZES,
                ()
                if panels
                else tuple(line for m in (TIME, facet.memory) for line in growth_lines(grown, facet.labels, m, section.swept)),
                _nowhere(facet),
                undrawn,
                _coinciding(facet) if panels and len(facet.xs) > MOST_SIZES else (),
                matrix(facet, row_ids),
                number <= OPEN_FACETS,
                tuple(beside),
                figures.TITLES[facet.memory],
            )
        )
    answers = tuple((words, tuple(found)) for metric, words in questions(section) if (found := readings(section, metric)))
    explained = explanations(rows, room.timelines) if full else {}
    room.timelines -= sum(explanation.svg is not None for explanation in explained.values())
    return SectionView(
        ident,
        section,
        answers,
        chosen,
        tuple(views),
        rooflines(section, chosen, ident),
        tuple(rows),
        tuple((name, title(name)) for name in found_in(section.cases)),
        explained,
    )


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


def run_view(run: Run, cases: Sequence[CaseSummary], reach: Reach, number: int, depth: Depth, room: Room) -> RunView:
    own = [result for summary in (*cases, *reach.canaries) for result in summary.counted]
    around = surroundings(own)
    views = [
        _section_view(section, f"s{number}-{position}", table_rows(section, around.usual, depth), room, full=depth.full)
        for position, section in enumerate(sections(run, cases), 1)
    ]
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
    )
