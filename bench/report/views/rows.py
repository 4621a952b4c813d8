"""What the page says of one row: a case with one of its statuses, its numbers, and the evidence that opens below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bench.judge.rates import Rate
from bench.metrics import METRICS, SHOWS_SPEED
from bench.plan.stored import PREDICTED
from bench.records import Check, Json, Result, Scalar, Status, fingerprint
from bench.report.drawing.histogram import histogram
from bench.report.numbers import units
from bench.report.numbers.findings import FINDINGS
from bench.report.numbers.hardware_work import NAME as HARDWARE
from bench.report.numbers.hardware_work import hardware_utilisation
from bench.report.numbers.layout import Section
from bench.report.numbers.memory import CAUSES, EXPLAINED, explained, is_training_step
from bench.report.numbers.rates import Utilisation, above_words, all_rates, clock_wandered, cycles_words, rate_words, utilisation
from bench.report.numbers.samples import note_in_units, taken
from bench.report.numbers.summary import CYCLES, KERNELS, SAVED, SET_ASIDE, TIME, CaseSummary
from bench.report.numbers.units import shorten
from bench.report.trust.surroundings import DEVICES

SHOWN_REASON = 4000
FULL, LIGHT, BRIEF = "full", "light", "brief"
LIGHT_CHARS = 400
FULL_CASES = 1000
"""Up to so many a page tells each row with all its evidence."""


@dataclass(frozen=True, slots=True)
class Depth:
    """How much evidence each row carries, so that a file with thousands of rows stays light."""

    log_chars: int
    full: bool
    """False: parameters, conditions, secondary metrics and trial facts are left to `bench show`."""

    brief: bool
    """True where there are so many rows that the matrix leaves out what stands in them too, and few panels have a chart."""
    light: bool = False
    """True for a page that is to travel light: as little evidence, the charts of the first panel alone, and no picture of samples."""

    @classmethod
    def for_cases(cls, count: int, *, light: bool = False) -> Depth:
        """Everything up to about a thousand cases; the essentials beyond, or where they are asked for."""
        brief = count > FULL_CASES
        chars = LIGHT_CHARS if light else max(200, min(4000, 400_000 // max(count, 1)))
        return cls(log_chars=chars, full=not brief and not light, brief=brief, light=light)

    @classmethod
    def named(cls, name: str, count: int) -> Depth:
        """The depth that a page's data name."""
        found = cls.for_cases(count, light=name == LIGHT)
        return found if found.light else replace(found, full=name == FULL, brief=name == BRIEF)

    @property
    def name(self) -> str:
        """As the data of a page name it."""
        return FULL if self.full else LIGHT if self.light else BRIEF

    def log_limit(self, status: Status) -> int:
        """Characters of a log: a trial that went well has little to tell."""
        return self.log_chars if status is not Status.OK else self.log_chars // 4 if self.full else 0


@dataclass(frozen=True, slots=True)
class TrialLine:
    """One trial inside an opened row."""

    result: Result
    time: float | None
    samples: int | None
    low: float | None
    """5th percentile of its samples."""
    high: float | None
    """95th percentile."""
    peak: float | None
    aside: str | None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table of all rows."""

    id: str
    summary: CaseSummary
    status: Status
    n: int
    results: tuple[Result, ...]
    axes: tuple[str, ...]
    """Text of the section's axes."""
    check: Check | None
    """The check nearest to, or farthest beyond, its limit."""
    reasons: tuple[tuple[str, int], ...]
    commands: tuple[str, ...]
    trials: tuple[TrialLine, ...]
    others: tuple[tuple[str, str, bool], ...]
    """Other metrics: name, value with range, whether it is the harness's own cost."""
    params: tuple[tuple[str, str], ...]
    """Parameters that vary in the section; the others stand once above its panels."""
    rate: Rate | None
    """The one that is nearer to its limit; of a training step tokens."""
    utilisation: Utilisation | None
    cycles: str | None
    kernels: str | None
    """Kernels that one call launches."""
    rates: tuple[tuple[str, str], ...]
    """What is counted, and the rate with its shares and denominators in words."""
    flags: tuple[str, ...]
    """What a reader must know of the numbers of this row."""
    notes: tuple[str, ...]
    checks: tuple[Check, ...]
    conditions: tuple[tuple[str, str], ...]
    environment_difference: tuple[tuple[str, str, str], ...]
    """Item, value here, value in most rows."""
    log: str
    log_cut: bool
    withheld: str | None
    histogram: str | None
    """Of all samples, as `histogram.histogram` writes it."""

    @property
    def has_values(self) -> bool:
        return self.status is Status.OK and bool(self.results)

    @property
    def outcome(self) -> str:
        """The status, or that no row of the case counts."""
        return str(self.status) if self.results else SET_ASIDE


COLUMNS = ("status", "subject", "n", "cycles", "rate", "kernels", "error", "proof")
"""Columns of the table of all rows whose words are made here."""
NONE = "–"
_TOLD_APART = frozenset((EXPLAINED, PREDICTED))
"""Conditions that are shown as a curve, and as bars; of each rank as well."""


def column_words(row: Row, column: str) -> str:
    """What a row says in one of `COLUMNS`."""
    leading = row.status is row.summary.status
    match column:
        case "status":
            return row.outcome
        case "subject":
            return row.summary.label
        case "n":
            return str(row.n)
        case "cycles":
            return row.cycles or NONE
        case "rate":
            return _rate_words(row)
        case "kernels":
            return row.kernels or NONE
        case "error":
            return _error_words(row.check)
        case _:
            return row.summary.proof.verdict.replace("_", " ") if row.summary.proof and leading else NONE


def _rate_words(row: Row) -> str:
    if row.rate is None:
        return NONE
    share = row.rate.share
    part = f" MFU {units.percent(row.utilisation.share)}" if row.utilisation else f" {units.percent(share.value)}" if share else ""
    return f"{rate_words(row.rate)}{part}"


def _error_words(check: Check | None) -> str:
    if check is None:
        return NONE
    if check.error is None or not check.limit:
        return "passed" if check.passed else "not finite" if check.error is None and check.limit else "did not pass"
    return f"{units.scientific(check.error)} / {units.scientific(check.limit)}"


def nearness(check: Check) -> float:
    """How near a check came to its limit; above a million those that did not pass, below zero those without numbers."""
    if not check.passed:
        return float("inf") if check.error is None or not check.limit else 1e6 + check.error / check.limit
    if check.error is None or not check.limit:
        return -1.0
    return check.error / check.limit


def _trial_line(summary: CaseSummary, result: Result, memory: str, aside: str | None) -> TrialLine:
    own = summary.trial_values.get(result.id, {})
    measured = result.measurement(TIME) if TIME in own else None
    spread = taken(measured) if measured else None
    return TrialLine(
        result=result,
        time=own.get(TIME),
        samples=spread.count if spread else None,
        low=spread.low if spread else None,
        high=spread.high if spread else None,
        peak=own.get(memory),
        aside=aside,
    )


def _others(summary: CaseSummary, memory: str) -> tuple[tuple[str, str, bool], ...]:
    causes = {f"peak_{cause}_bytes" for cause in CAUSES} if explained(summary) else ()  # told apart
    lines = []
    for name, value in summary.values.items():
        if name in (TIME, memory, SAVED, KERNELS, *FINDINGS, *causes):
            continue
        metric = METRICS.get(name)
        unit = metric.unit if metric else ""
        text = units.in_unit(value.median, unit)
        if value.n > 1:
            between = units.range_in_unit(value.low, value.high, unit)
            text += f" (n {value.n})" if between == text else f" ({between}, n {value.n})"
        lines.append((name, text, metric.harness if metric else False))
    order = list(METRICS)
    return tuple(sorted(lines, key=lambda line: (line[2], order.index(line[0]) if line[0] in METRICS else 99, line[0])))


def _flags(summary: CaseSummary) -> tuple[str, ...]:
    found = list(above_words(summary.rates))
    if clock_wandered(summary):
        found.append("The clock wandered, the kernel did not: trials differ in time and agree in cycles")
    return tuple(found)


def _rates(summary: CaseSummary) -> tuple[tuple[str, str], ...]:
    found = all_rates(summary.rates)
    utilised = utilisation(summary)
    more = hardware_utilisation(summary)
    return (
        *found,
        *((("model FLOP/s utilisation", utilised.formula),) if utilised else ()),
        *(((HARDWARE, more.formula),) if more and more.formula else ()),
    )


def _kernels(summary: CaseSummary) -> str | None:
    found = summary.values.get(KERNELS)
    if found is None:
        return None
    return f"{found.low:.0f}" if found.low == found.high else f"{found.low:.0f}{units.EN_DASH}{found.high:.0f}"


def _readings(data: Json, prefix: str = "") -> list[tuple[str, Scalar]]:
    """Flat facts, in which a spread of readings (`min`, `median`, `max`) is one fact."""
    if isinstance(data, dict) and set(data) == {"min", "median", "max"}:
        low, middle, high = (units.fact(prefix, data[key]) for key in ("min", "median", "max"))
        return [(prefix, middle if low == high else f"{middle} ({low} to {high})")]
    if isinstance(data, dict):
        return [fact for key in sorted(data, key=str) for fact in _readings(data[key], f"{prefix}.{key}" if prefix else str(key))]
    return units.flatten(data, prefix)


def _conditions(results: Sequence[Result]) -> tuple[tuple[str, str], ...]:
    """Each fact once, with its lowest and highest value, or its values, where trials differ."""
    found: dict[str, list[Scalar]] = {}
    for result in results:
        for name, value in _readings(dict(result.conditions)):
            if _TOLD_APART.isdisjoint(name.split(".")):
                found.setdefault(name, []).append(value)
    lines = []
    for name, values in sorted(found.items()):
        numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
        if len(numbers) == len(values) and min(numbers) != max(numbers):
            text = f"{units.fact(name, min(numbers))} to {units.fact(name, max(numbers))} over trials"
        else:
            counts = Counter(units.fact(name, value) for value in values)
            text = "; ".join(counts if len(counts) in (1, len(values)) else (f"{value} ({n}×)" for value, n in counts.items()))
        lines.append((name, shorten(text)))
    return tuple(lines)


def _difference(result: Result, usual: Mapping[str, Scalar]) -> tuple[tuple[str, str, str], ...]:
    own = {**result.environment.hard, **result.environment.soft}
    return tuple(
        (name, shorten(units.fact(name, value)), shorten(units.fact(name, usual[name])))
        for name, value in sorted(own.items())
        if name != DEVICES and name in usual and usual[name] != value
    )


def _tail(log: str, limit: int) -> tuple[str, bool]:
    if limit == 0:
        return "", False
    return (log, False) if len(log) <= limit else (log[-limit:], True)


def row_id(summary: CaseSummary, status: Status) -> str:
    """The id of the row of a case's trials that ended so, in any page."""
    return "r-" + fingerprint([summary.run_id, summary.case.key, summary.arm, str(status)])[:12]


def _row(
    section: Section, summary: CaseSummary, status: Status, results: list[Result], usual: Mapping[str, Scalar], depth: Depth
) -> Row:
    leading = status is summary.status
    memory = section.memory
    checks = max((result.checks for result in results), key=lambda found: max(map(nearness, found), default=-2.0), default=())
    aside = [(r, why) for r, why in summary.set_aside] if leading else []
    trials = [_trial_line(summary, r, memory, None) for r in results] + [_trial_line(summary, r, memory, why) for r, why in aside]
    log, cut = _tail(next((r.log for r in results if r.log), ""), depth.log_limit(status))
    reasons = Counter(r.reason for r in results if r.reason) if results else Counter(why for _, why in aside)
    notes = {f"{m.metric}: {note_in_units(m)}" for r in results for m in r.measurements if m.note and m.metric not in SHOWS_SPEED}
    if not summary.time_withheld:
        notes |= {f"{m.metric}: {note_in_units(m)}" for r in results for m in r.measurements if m.note and m.metric in SHOWS_SPEED}
    return Row(
        id=row_id(summary, status),
        summary=summary,
        status=status,
        n=len(results),
        results=tuple(results),
        axes=tuple("–" if (v := summary.axis(axis)) is None else units.fact(axis, v) for axis in section.axes),
        check=max(checks, key=nearness, default=None),
        reasons=tuple((shorten(reason, SHOWN_REASON), n) for reason, n in reasons.items()),
        commands=tuple(dict.fromkeys(r.command for r in results)),
        trials=tuple(trials),
        others=_others(summary, memory) if leading and depth.full else (),
        params=tuple((n, units.fact(n, v)) for n, v in sorted(summary.case.params.items()) if n not in section.fixed)
        if depth.full
        else (),
        rate=(summary.rates.tokens if is_training_step(summary) else summary.rates.leading) if leading else None,
        utilisation=utilisation(summary) if leading else None,
        cycles=cycles_words(summary.values[CYCLES]) if leading and CYCLES in summary.values else None,
        kernels=_kernels(summary) if leading else None,
        rates=_rates(summary) if leading and depth.full else (),
        flags=_flags(summary) if leading else (),
        notes=tuple(sorted(notes)) if depth.full else (),
        checks=checks if depth.full else tuple(check for check in checks if not check.passed),
        conditions=_conditions(results) if depth.full else (),
        environment_difference=_difference(results[0], usual) if results else (),
        log=log,
        log_cut=cut,
        withheld=summary.time_withheld,
        histogram=histogram(summary) if leading and not depth.light else None,
    )


def table_rows(section: Section, usual: Mapping[str, Scalar], depth: Depth) -> list[Row]:
    """Every row of a section: panels in order, then size, then subject; a case with several statuses has one line for each."""
    return [
        _row(section, summary, status, [result for result in summary.counted if result.status is status], usual, depth)
        for summary in section.in_order()
        for status in list(summary.counts) or [summary.status]
    ]
