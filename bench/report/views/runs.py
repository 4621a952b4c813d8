"""What the page's templates are given: each run, workload and panel of it, with every chart drawn and every sentence made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from bench.records import Result, Run, Scalar, Status
from bench.report.answers.advice import Advice, advice
from bench.report.answers.against import Judged, judged
from bench.report.answers.crossover import crossings
from bench.report.answers.readings import Reading, questions, readings
from bench.report.drawing import figures
from bench.report.drawing.dots import MOST_SIZES
from bench.report.drawing.roofline import Roofline, rooflines
from bench.report.numbers import units
from bench.report.numbers.findings import found_in, title
from bench.report.numbers.layout import Facet, Section, searched_axis, sections
from bench.report.numbers.parts import PARTS
from bench.report.numbers.rates import (
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
from bench.report.numbers.summary import TIME, CaseSummary, Reach, withheld_words
from bench.report.trust.doubts import Doubt, doubts
from bench.report.trust.grounds import TrustLine, trust
from bench.report.trust.method import method
from bench.report.trust.surroundings import Surroundings, surroundings
from bench.report.views.beside import Extra, extras
from bench.report.views.compatible import compatibility_advice, compatibility_tables
from bench.report.views.energy import energy_table
from bench.report.views.explained import Explanation, explanations
from bench.report.views.frontier import frontier_advice, frontier_table
from bench.report.views.links import links_table
from bench.report.views.matrix import MatrixRow, matrix
from bench.report.views.numerics import numerics
from bench.report.views.panels import Panel, Room, lying_together, nowhere, panels
from bench.report.views.ranks import rank_table
from bench.report.views.rows import Depth, Row, table_rows
from bench.report.views.scorecard import Score, scorecard
from bench.report.views.sharing import Pool, sharing_tables
from bench.report.views.stability import stability
from bench.report.views.steps import step_tables
from bench.report.views.tables import Table

OPEN_FACETS = 4
"""Panels that stand open; the rest is folded with its heading visible."""


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
    tables: tuple[Table, ...] = ()
    """Further views: what fits, steps of a ladder, stability, ranks."""
    charts: tuple[Table, ...] = ()
    """Those that are a chart alone: errors."""
    crossings: tuple[str, ...] = ()
    """Sentences about who overtakes whom."""
    within: tuple[str, ...] = ()
    """What else differs between its sizes, and why some cases show no time, in words."""

    def has_matrix(self, depth: Depth) -> bool:
        """Whether its matrix is shown: on a page that travels light only where it sets sizes beside each other, as the rows do not."""
        return not depth.light or len(self.facet.xs) > 1

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to see in it but its matrix."""
        drawn = self.panels or self.extras or self.charts or self.tables
        return not (drawn or self.growths or self.coinciding or self.crossings or self.nowhere)

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
    judged: Judged | None = None
    """Each case against the baseline of its panel; None without one."""
    advice: tuple[Advice, ...] = ()
    scores: tuple[Score, ...] = ()
    tables: tuple[Table, ...] = ()
    """Views of the whole section: which techniques go together, and what sharing a step comes to."""
    energy: Table | None = None

    @property
    def memory(self) -> str:
        return self.section.memory

    @property
    def unjudged(self) -> str:
        """Why no case has one of the five words, where that is so and cases stand beside each other."""
        if self.judged is not None or not any(len(facet.labels) > 1 for facet in self.section.facets):
            return ""
        if self.section.run.suite_data.get("baseline"):
            return "No case is judged worse, better or the same: the baseline that the suite names has no row at these points."
        return "No case is judged worse, better or the same, since the suite names no baseline; ratios are to the subjects that they name."

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
        against = 2 if self.judged else 0
        return 9 + against + len(self.section.axes) + self.has_cycles + self.has_kernels + self.has_rates + len(self.findings)


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
    why_none: str | None
    """Why a canary that is `ok` has no rate."""


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
    trust: tuple[TrustLine, ...]
    method: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    """How far the run came, and its protocol."""


def _section_view(section: Section, ident: str, rows: Sequence[Row], room: Room, pool: Pool | None, *, full: bool) -> SectionView:
    chosen = figures.styles(section.labels)
    row_ids: dict[tuple[str, str], str] = {}
    for row in rows:
        row_ids.setdefault((row.summary.case.key, row.summary.arm), row.id)
    by_result = {result.id: row.id for row in rows for result in row.results}
    verdicts = judged(section)
    together = compatibility_tables(section.run, _counted(section), by_result)
    views = []
    for number, facet in enumerate(section.facets, 1):
        grown = facet_exponents(facet, section.swept)
        drawn, undrawn = panels(facet, section, chosen, f"{ident}f{number}", room.panels, grown)
        room.panels -= len(drawn)
        beside = extras(facet, section.swept, chosen, f"{ident}f{number}", room.extras, draw=room.drawn)
        room.extras -= len(beside)
        views.append(
            FacetView(
                f"{ident}f{number}",
                facet,
                tuple(drawn),
                bool(drawn) and len(facet.xs) > MOST_SIZES,
                ()
                if drawn
                else tuple(line for m in (TIME, facet.memory) for line in growth_lines(grown, facet.labels, m, section.swept)),
                nowhere(facet),
                undrawn,
                lying_together(facet) if drawn and len(facet.xs) > MOST_SIZES else (),
                matrix(facet, row_ids, verdicts),
                number <= OPEN_FACETS and not together,
                tuple(beside),
                figures.TITLES[facet.memory],
                tuple(_tables(section, facet, chosen, row_ids)) if number <= room.told else (),
                tuple(numerics(facet, chosen)) if number <= room.errors else (),
                tuple(found.words(section.swept) for found in crossings(facet)) if section.swept and number <= room.told else (),
                (*section.differing_within(facet), *withheld_words(facet.cells.values())),
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
        rooflines(section, chosen, ident, most=room.roofs, draw=room.drawn),
        tuple(rows),
        tuple((name, title(name)) for name in found_in(section.cases)),
        explained,
        verdicts,
        tuple(_advice(section, verdicts)),
        scorecard(section, verdicts),
        (*together, *sharing_tables(section, pool), *filter(None, (links_table(section),))),
        energy_table(section, row_ids),
    )


def _counted(section: Section) -> list[Result]:
    return [result for case in section.cases for result in case.counted]


def _advice(section: Section, verdicts: Judged | None) -> list[Advice]:
    """By what the suite asks: which go together, how far each comes, or what to use."""
    if searched_axis(section.run) is not None:
        return frontier_advice(section)
    return compatibility_advice(section.run, _counted(section)) or advice(section, verdicts)


def _tables(
    section: Section, facet: Facet, chosen: Mapping[str, figures.Style], row_ids: Mapping[tuple[str, str], str]
) -> Iterator[Table]:
    """The further views of a panel, those that have something to show."""
    if (found := frontier_table(section, facet, chosen, row_ids)) is not None:
        yield found
    yield from step_tables(section, facet, row_ids)
    if (found := stability(section, facet, row_ids)) is not None:
        yield found
    if (found := rank_table(section, facet, row_ids)) is not None:
        yield found


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
        why_none=None if rate else summary.time_withheld,
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


def _facts(run: Run) -> tuple[tuple[str, str], ...]:
    finished = f"{run.finished_at[:19].replace('T', ' ')} UTC" if run.finished_at else "not finished"
    return (
        ("state", str(run.state)),
        ("seed of the order", "not told" if run.seed is None else str(run.seed)),
        ("harness", run.harness_version or "not recorded"),
        ("finished", finished),
        *((("continues", run.parent_run_id),) if run.parent_run_id else ()),
        *((("measured in parts", ", ".join(map(str, parts))),) if isinstance(parts := run.options.get(PARTS), list) else ()),
        *((name, units.fact(name, value)) for name, value in units.flatten(run.suite_data.get("protocol", {}))),
    )


def run_view(
    run: Run, cases: Sequence[CaseSummary], reach: Reach, number: int, depth: Depth, room: Room, pool: Pool | None = None
) -> RunView:
    """`pool`: the cases of several runs of a page that are told together where steps are shared out."""
    own = [result for summary in (*cases, *reach.canaries) for result in summary.counted]
    around = surroundings(own)
    views = [
        _section_view(section, f"s{number}-{position}", table_rows(section, around.usual, depth), room, pool, full=depth.full)
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
        trust=trust(run, cases, reach, [view.judged for view in views]),
        method=method(run, cases),
        facts=_facts(run),
    )
