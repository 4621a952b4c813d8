"""Words for rates, shares and exponents: `519 TFLOP/s`, `71 % of matmul bf16 of this run`, `seq len^2.00 ± 0.01`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.judge.growth import Growth, growth
from bench.judge.rates import BYTES, FLOPS, TOKENS, Rate, Rates
from bench.records import Status
from bench.report.numbers import units
from bench.report.numbers.layout import Facet, Section
from bench.report.numbers.memory import is_training_step
from bench.report.numbers.summary import PEAK, TIME, CaseSummary, Reach, Spread

UNITS = {FLOPS: "FLOP/s", BYTES: "B/s", TOKENS: "tokens/s"}
WORK = {FLOPS: "work by the workload's formula", BYTES: "fewest bytes that must move", TOKENS: "tokens"}
Growing = tuple[str, str, str]
"""Subjects, what grows with what, and the exponent with its interval."""
CLOCK_WANDERED_TIME = 0.01
CLOCK_WANDERED_CYCLES = 0.005


def rate_words(rate: Rate) -> str:
    """`519 TFLOP/s`, `125k tokens/s`."""
    if rate.kind == TOKENS:
        return f"{units.scaled(rate.per_s, units.COUNT).replace(' ', '')} {UNITS[TOKENS]}"
    return units.rate(rate.per_s, UNITS[rate.kind])


def share_words(rate: Rate) -> str:
    """`71 % of matmul bf16 of this run, 52 % of the H200 SXM data sheet`; nothing where no limit is known."""
    found = []
    if rate.measured:
        found.append(f"{units.percent(rate.measured.value)} of {rate.measured.ceiling.name}")
    if rate.data_sheet:
        found.append(f"{units.percent(rate.data_sheet.value)} of the {rate.data_sheet.ceiling.name}")
    return ", ".join(found)


def denominators(rate: Rate) -> str:
    """Each denominator with its value and source: `733 TFLOP/s (matmul bf16 of this run, …)`."""
    shares = [share for share in (rate.measured, rate.data_sheet) if share is not None]
    return "; ".join(f"{units.rate(s.ceiling.per_s, UNITS[rate.kind])} ({s.ceiling.source})" for s in shares)


def winner_words(case: CaseSummary) -> str:
    """`519 TFLOP/s, 71 % of matmul bf16 of this run`, for a sentence: the leading rate with its first share, if there is one.

    Of a training step tokens per second and, where the data sheet knows it, MFU; nothing else of what ran on a CPU.
    """
    if is_training_step(case) and case.rates.tokens:
        utilised = utilisation(case)
        return rate_words(case.rates.tokens) + (f", MFU {units.percent(utilised.share)}" if utilised else "")
    rate = case.rates.leading if case.case.device == "cuda" else None
    if rate is None or rate.kind == TOKENS:
        return ""
    share = rate.share
    article = "the " if share is rate.data_sheet else ""
    words = rate_words(rate).replace(" ", units.NO_BREAK) + (
        f", {units.percent(share.value)} of {article}{share.ceiling.name}" if share else ""
    )
    return words.replace(" %", f"{units.NO_BREAK}%")


@dataclass(frozen=True, slots=True)
class Utilisation:
    """Model FLOP/s utilisation of a training step."""

    share: float
    denominator: str
    """`the 989 TFLOP/s of bf16 in the H200 SXM data sheet`."""
    formula: str


def utilisation(case: CaseSummary) -> Utilisation | None:
    """None for what is no training step, and where the data sheet does not know the dtype's rate."""
    flops, timed = case.rates.flops, case.timed
    if flops is None or flops.data_sheet is None or timed is None or not is_training_step(case):
        return None
    top = flops.data_sheet.ceiling
    denominator = f"the {units.rate(top.per_s, UNITS[FLOPS])} of dense {timed.format} in the {top.name}"
    work = units.rate(float(timed.cost.flops or 0), "FLOP")
    quotient = f"{work} by the workload's formula / {units.seconds(timed.median_s)} / {denominator}"
    formula = f"MFU {units.percent(flops.data_sheet.value)} = {quotient}"
    return Utilisation(flops.data_sheet.value, denominator, formula)


def above_words(rates: Rates) -> tuple[str, ...]:
    """A sentence for each rate above the ceiling that the run measured."""
    return tuple(
        f"{rate_words(rate)} are {units.ratio(rate.measured.value)} the measured ceiling, {denominator_words(rate)}: "
        "look at the clocks, and at the work that the formula counts"
        for rate in rates.above_measured
        if rate.measured
    )


def denominator_words(rate: Rate) -> str:
    """What the first share of a rate is of: `matmul bf16 of this run (733 TFLOP/s)`; nothing where there is none."""
    share = rate.share
    if share is None:
        return ""
    article = "the " if share is rate.data_sheet else ""
    return f"{article}{share.ceiling.name} ({units.rate(share.ceiling.per_s, UNITS[rate.kind])})"


def reach_words(reach: Reach) -> list[str]:
    """A line for each canary: `matmul bf16 697 TFLOP/s (± 0.9 %, n 3), 70 % of the H200 SXM data sheet`, or why there is none."""
    lines = []
    for summary in canaries_in_order(reach):
        rate = canary_rate(summary)
        if rate is None:
            why = summary.reason or summary.time_withheld
            lines.append(f"{canary_name(summary)} {summary.status}" + (f": {why}" if why else ""))
            continue
        share = share_words(rate)
        lines.append(
            f"{canary_name(summary)} {rate_words(rate)} ({trials_words(summary.values[TIME])})" + (f", {share}" if share else "")
        )
    return lines


def canaries_in_order(reach: Reach) -> list[CaseSummary]:
    """Matrix products by dtype, then the copy."""
    return sorted(reach.canaries, key=lambda summary: (summary.case.workload != "matmul", summary.case.dtype))


def canary_name(summary: CaseSummary) -> str:
    """`matmul bf16`, or `copy`, whose dtype says nothing; with the GPU's word where each of several measured its own."""
    name = summary.case.workload if summary.case.workload == "copy" else f"{summary.case.workload} {summary.case.dtype}"
    return name if summary.arm == "-" else f"{name} [{summary.arm}]"


def canary_rate(summary: CaseSummary) -> Rate | None:
    """What a canary is there for: FLOP/s, or bytes per second where it computes nothing."""
    rates = summary.rates
    return rates.flops or rates.bytes


def trials_words(value: Spread) -> str:
    """`± 0.9 % over trials, n 3`: half the range over trials as a share of the median."""
    wide = value.relative_range
    return f"n {value.n}, no range" if wide is None else f"± {units.percent(wide / 2)} over trials, n {value.n}"


def all_rates(rates: Rates) -> tuple[tuple[str, str], ...]:
    """What the rate counts, and the rate with shares and denominators in words, for an opened row."""
    lines = []
    for rate in (rates.flops, rates.bytes, rates.tokens):
        if rate is None:
            continue
        text = rate_words(rate)
        if rate.share:
            text += f" = {share_words(rate)}; denominators: {denominators(rate)}"
        elif rate.withheld:
            text += f"; {rate.withheld}"
        lines.append((WORK[rate.kind], text))
    return tuple(lines)


def clock_wandered(case: CaseSummary) -> bool:
    """Whether trials differ in time and agree in cycles: then the clock moved, and not what the kernel does."""
    time, cycles = (case.values.get(metric) for metric in (TIME, "cycles"))
    if time is None or cycles is None or time.n < 2 or cycles.n < 2:
        return False
    in_time, in_cycles = time.relative_range, cycles.relative_range
    return in_time is not None and in_cycles is not None and in_time > CLOCK_WANDERED_TIME and in_cycles <= CLOCK_WANDERED_CYCLES


def cycles_words(cycles: Spread) -> str:
    """`12.4 M` and, from two trials on, the range over trials as a share of the median."""
    text = units.scaled(cycles.median, units.COUNT)
    spread = cycles.relative_range
    if spread is None:
        return text
    # Percent with one digit would show most kernels as 0.0: their trials agree to some 0.05 %.
    return f"{text} ± {spread * 50:.2f} %" if spread < 0.02 else f"{text} ± {units.percent(spread / 2)}"


WIDEST_GROWTH = 1.0
"""Between constant and linear, or linear and quadratic."""


@dataclass(frozen=True, slots=True)
class Exponent:
    """How one subject's metric grows with the swept axis."""

    label: str
    metric: str
    growth: Growth
    per_sequence: bool = False
    """Whether the value is that of one sequence: where the batch shrinks as sequences grow, the whole would hide the growth."""

    @property
    def words(self) -> str:
        """`2.00 ± 0.01`: the 95 % interval, never printed as zero unless it is."""
        half = self.growth.half_width
        decimals = 2 if half >= 0.005 or half < 1e-6 else 3
        error = "0" if half < 1e-6 else f"{half:.{decimals}f}" if half >= 0.0005 else "0.001"
        # + 0.0 turns the -0.0 of a rounded small negative number into 0.0.
        return f"{round(self.growth.exponent, decimals) + 0.0:.{decimals}f} ± {error}"


def facet_exponents(facet: Facet, swept: str | None) -> tuple[Exponent, ...]:
    """Those of all subjects of a panel."""
    memory = facet.memory
    return tuple(found for label in facet.labels for found in exponents(label, facet.row(label), swept, memory))


def growth_lines(
    found: Sequence[Exponent], labels: Sequence[str], metric: str, swept: str | None, widest: float = WIDEST_GROWTH
) -> tuple[Growing, ...]:
    """What grows how by `metric`, subjects of one exponent together: names, `peak ∝ seq_len`, `2.00 ± 0.01`.

    Nothing of an exponent that is known to no better than ± `widest`: it could be that of anything.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for exponent in found:
        if exponent.metric == metric and exponent.label in labels and exponent.growth.half_width <= widest:
            of = f"{'time' if metric == TIME else 'peak'}{' per sequence' if exponent.per_sequence else ''}"
            alike.setdefault((f"{of} ∝ {swept}", exponent.words), []).append(units.shorten(exponent.label, 40))
    return tuple((", ".join(names), what, words) for (what, words), names in alike.items())


def growth_words(section: Section) -> list[str]:
    """A line for each panel and each exponent, for text: `forward: time ∝ seq_len^1.98 ± 0.02 (eager, flex)`."""
    lines = []
    for facet in section.facets:
        found = facet_exponents(facet, section.swept)
        for metric in (TIME, facet.memory):
            for names, what, words in growth_lines(found, facet.labels, metric, section.swept):
                lines.append(f"{facet.title + ': ' if facet.title else ''}{what}^({words}), {names}")
    return lines


def exponents(label: str, cells: Sequence[CaseSummary], swept: str | None, memory: str = PEAK) -> tuple[Exponent, ...]:
    """The exponents of time and memory (by the metric `memory`) of one subject over the sizes that it was measured at."""
    found = []
    batches = {cell.axis("batch") for cell in cells}
    per_sequence = swept == "seq_len" and len(batches) > 1 and all(isinstance(batch, int) and batch > 0 for batch in batches)
    for metric in (TIME, memory):
        points = [
            (float(x), cell.values[metric].median / (float(str(cell.axis("batch"))) if per_sequence else 1.0))
            for cell in cells
            if swept and isinstance(x := cell.axis(swept), int | float) and cell.status is Status.OK and metric in cell.values
        ]
        fit = growth([x for x, _ in points], [y for _, y in points])
        if fit:
            found.append(Exponent(label, metric, fit, per_sequence))
    return tuple(found)
