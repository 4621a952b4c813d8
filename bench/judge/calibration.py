"""How often `bench compare` cries wolf, and what it can see: the very code and thresholds, on real process medians that were all alike.

*Within.* The processes of each series of one run are dealt at random to two sides, again and again, and compared as two runs. Every row
that comes out better or worse is a false alarm; times are counted apart from what exact rules judge, which would thin them out. Then times
of some rows are multiplied by a known factor on one side, and it is counted how many of those are found: the power at the spread that was
measured, not at an assumed one.

*Between.* Runs of one revision, measured apart, are compared each with the next of the same cases: what the machine does between runs is
in these alarms.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bench.errors import SelectionError
from bench.judge.compare import compare
from bench.judge.evidence import Evidence, TrialRow
from bench.judge.intervals import pooled_sd
from bench.judge.thresholds import CYCLES, FEWEST, TIME
from bench.judge.verdict import JUDGING_VERSION, Kind, Verdict, Word
from bench.records import Status, fingerprint
from bench.stats import median, quantile

FACTORS = (1.02, 1.03, 1.05, 1.10)
CHANGED_SHARE = 0.1
"""Of the rows, when power is measured: few, as in a real night, since many would look like the machine."""
ALARMS = (Word.BETTER, Word.WORSE)


@dataclass(frozen=True, slots=True)
class Power:
    """How many of the rows whose time was multiplied by `factor` came out as worse."""

    factor: float
    found: int
    of: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """What equal sides came out as, and what changed ones did."""

    way: str
    """`within` or `between`."""
    rounds: int
    processes: int
    """A side and series."""
    rows: int
    """Times that were judged, over all rounds."""
    words: Mapping[str, int]
    """What those came out as."""
    alarms: int
    """Better or worse, of the times."""
    alarms_at_most: float
    """The 95 % upper limit of alarms per 1 000 times, as if rows were independent."""
    alarms_at_least: float
    """The 95 % lower limit."""
    other_rows: int
    """Of memory, sizes and errors, which exact rules judge."""
    other_alarms: int
    power: tuple[Power, ...] = ()
    spread: tuple[float, ...] = ()
    """Standard deviation between processes, as a share, of the 10th, 50th and 90th of 100 series of times."""
    left_out: int = 0
    """Series with too few processes."""
    detectable: tuple[float, ...] = ()
    """The change, as a share, that four of five such comparisons would show: of the 10th, 50th and 90th of 100 series."""
    detectable_by_series: Mapping[str, float] = field(default_factory=dict)
    """The same by the key of each series: the median over all rounds."""
    judging_version: int = JUDGING_VERSION

    @property
    def per_thousand(self) -> float:
        """False alarms per 1 000 times."""
        return 1000 * self.alarms / self.rows


def within(evidence: Evidence, *, rounds: int, seed: int) -> Calibration:
    """Deals the processes of one run to two sides. Raises SelectionError where no series has six that ran on one GPU."""
    groups = _series(evidence)
    most = max((len(rows) for rows in groups), default=0)
    n = max(FEWEST, min(8, most // 2))
    usable = [rows for rows in groups if len(rows) >= 2 * n]
    if most < 2 * FEWEST:
        raise SelectionError(
            f"no series has {2 * FEWEST} processes of one kind, {FEWEST} for each side: measure it with `bench run SUITE --trials 16`"
        )
    rng = random.Random(seed)
    verdicts = [verdict for _ in range(rounds) for verdict in _dealt(evidence, usable, n, rng, {})]
    power = []
    for factor in FACTORS:
        found = of = 0
        for _ in range(max(1, rounds // len(FACTORS))):
            size = max(1, round(CHANGED_SHARE * len(usable)))
            changed = dict.fromkeys(rng.sample(range(len(usable)), size), factor)
            keys = {usable[place][0].case_key for place in changed}
            for verdict in _dealt(evidence, usable, n, rng, changed):
                if verdict.series.metric == TIME and verdict.series.case_key in keys:
                    of += 1
                    found += verdict.word is Word.WORSE
        power.append(Power(factor, found, of))
    return _calibration("within", rounds, n, verdicts, tuple(power), _spread(usable), len(groups) - len(usable))


def between(runs: Sequence[Evidence]) -> Calibration:
    """Compares each run with the next that was asked for the same cases. All must be of one revision.

    Raises SelectionError where no two were.
    """
    runs = [replace(evidence, trials=tuple(row for row in evidence.trials if TIME not in row.left_out)) for evidence in runs]
    pairs = [pair for alike in _alike(runs) for pair in itertools.pairwise(alike)]
    if not pairs:
        raise SelectionError("two runs of the same cases and revision at least are needed to compare runs with each other")
    verdicts = [verdict for first, second in pairs for verdict in compare(first, second).verdicts]
    fewest = min(len(rows) for evidence in runs for rows in _series(evidence))
    spread = _spread([rows for evidence in runs for rows in _series(evidence)])
    return _calibration("between", len(pairs), fewest, verdicts, (), spread, 0)


def _alike(runs: Sequence[Evidence]) -> list[list[Evidence]]:
    """The runs by what they were asked for: profile, filters, settings and shard."""
    groups: dict[str, list[Evidence]] = {}
    for evidence in runs:
        asked = {name: evidence.runs[0].options.get(name) for name in ("profile", "sets", "filters", "shard")}
        groups.setdefault(fingerprint(asked), []).append(evidence)
    return list(groups.values())


def _calibration(
    way: str, rounds: int, n: int, verdicts: Sequence[Verdict], power: tuple[Power, ...], spread: tuple[float, ...], left_out: int
) -> Calibration:
    words: Counter[str] = Counter(str(verdict.word) for verdict in verdicts if verdict.series.metric == TIME)
    others = [verdict for verdict in verdicts if verdict.series.metric != TIME and verdict.kind is Kind.VALUE]
    rows = words.total()
    if not rows:
        raise SelectionError("no time of these runs could be judged")
    alarms = sum(words[word] for word in ALARMS)
    least, at_most = (1000 * limit for limit in limits(alarms, rows))
    other_alarms = sum(verdict.word in ALARMS for verdict in others)
    by_series: dict[str, list[float]] = {}
    for verdict in verdicts:
        if verdict.series.metric == TIME and verdict.smallest_detectable is not None:
            by_series.setdefault(verdict.series.key, []).append(verdict.smallest_detectable)
    detectable = {key: median(values) for key, values in sorted(by_series.items())}
    spans = tuple(quantile(list(detectable.values()), q) for q in (0.1, 0.5, 0.9)) if detectable else ()
    return Calibration(
        way,
        rounds,
        n,
        rows,
        dict(words),
        alarms,
        at_most,
        least,
        len(others),
        other_alarms,
        power,
        spread,
        left_out,
        spans,
        detectable,
    )


def limits(events: int, trials: int) -> tuple[float, float]:
    """The rates below and above which `events` in `trials` would be seen in less than 5 % of cases, by Poisson's law: rates are small."""

    def at_most(most: int, rate: float) -> float:
        # By logarithms: e to minus some hundreds is nothing, and all that is multiplied with it.
        mean = rate * trials
        return math.fsum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(most + 1))

    def where(most: int, wanted: float) -> float:
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if at_most(most, middle) > wanted else (low, middle)
        return high

    return (where(events - 1, 0.95) if events else 0.0), where(events, 0.05)


def _series(evidence: Evidence) -> list[list[TrialRow]]:
    """The `ok` rows of each case, arm, hardware and physical GPU; left out are canaries, and rows of which the time is."""
    groups: dict[tuple[str, ...], list[TrialRow]] = {}
    for row in evidence.trials:
        if row.status is Status.OK and TIME not in row.left_out and not evidence.is_canary(row.case_key):
            groups.setdefault((row.case_key, row.arm, row.hard_hash, row.gpu or ""), []).append(row)
    return [groups[key] for key in sorted(groups)]


def _dealt(
    evidence: Evidence, series: Sequence[Sequence[TrialRow]], n: int, rng: random.Random, factors: Mapping[int, float]
) -> tuple[Verdict, ...]:
    sides: tuple[list[TrialRow], list[TrialRow]] = ([], [])
    for place, rows in enumerate(series):
        dealt = rng.sample(range(len(rows)), 2 * n)
        sides[0].extend(replace(rows[index], run_id="first") for index in dealt[:n])
        sides[1].extend(_slowed(replace(rows[index], run_id="second"), factors.get(place, 1.0)) for index in dealt[n:])
    first, second = (replace(evidence, trials=tuple(side)) for side in sides)
    return compare(first, second).verdicts


def _slowed(row: TrialRow, factor: float) -> TrialRow:
    if factor == 1.0:
        return row
    slowed = {name: value * factor for name in (TIME, CYCLES) if (value := row.medians.get(name)) is not None}
    return replace(row, medians={**row.medians, **slowed})


def _spread(series: Sequence[Sequence[TrialRow]]) -> tuple[float, ...]:
    found = [sd for rows in series for sd in _sd(rows)]
    return tuple(quantile(found, q) for q in (0.1, 0.5, 0.9)) if found else ()


def _sd(rows: Sequence[TrialRow]) -> Iterator[float]:
    values = [value for row in rows if (value := row.medians.get(TIME)) is not None and value > 0]
    pooled = pooled_sd([values])
    if pooled is not None:
        yield pooled[0]
