"""Judges each case of a section against the baseline of its panel, by time and by memory, with the rules that two runs are judged by.

Both sides were measured in one run, in turn. Times: a 99 % interval of the ratio outside the band, at 5 % false discoveries over all rows
of the section; memory: exact rules (`bench.judge.values`). How trials ended goes before any number: what did not run has no time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.judge.intervals import adjusted
from bench.judge.thresholds import BUSY_SHARE, TIME
from bench.judge.values import ByGpu, Reading, Sides, read
from bench.judge.verdict import BETTER, CANNOT_TELL, DID_NOT_RUN, READER_WORDS, SAME, WORSE, Word
from bench.records import Result, Status
from bench.report.numbers import units
from bench.report.numbers.findings import other_numbers
from bench.report.numbers.layout import Section
from bench.report.numbers.summary import CYCLES, CaseSummary, gpu_of

SYMBOLS: Mapping[str, str] = {WORSE: "▲", BETTER: "▼", SAME: "=", CANNOT_TELL: "?", DID_NOT_RUN: "×"}
"""Beside each word, so that colour is never the only cue."""
OTHER = "other numbers"
"""Instead of a word: who computes something else on purpose is neither better nor worse."""
_PLAIN: Mapping[Word, str] = {Word.WORSE: WORSE, Word.BETTER: BETTER, Word.SAME: SAME}
Key = tuple[str, str]
"""Case key and arm."""


@dataclass(frozen=True, slots=True)
class Against:
    """What a case is beside its baseline by one metric."""

    word: str
    """One of the five words, or `OTHER`."""
    reason: str
    ratio: float | None = None
    """This case over the baseline."""
    low: float | None = None
    """Of the 99 % interval of the ratio, where there are enough trials for one."""
    high: float | None = None
    band: float | None = None
    """What a difference must exceed, as a share of the baseline."""
    enough_trials: int | None = None
    """With so many a side it could be told, where it cannot."""

    @property
    def numbers(self) -> str:
        """`0.523× (0.510–0.536)`, or nothing."""
        if self.ratio is None:
            return ""
        between = interval_words(self.low, self.high)
        return units.ratio(self.ratio) + (f" ({between})" if between else "")

    @property
    def text(self) -> str:
        """`better 0.523× (0.510–0.536)`."""
        return f"{self.word} {self.numbers}".rstrip()

    @property
    def because(self) -> str:
        """The reason, with the band that a difference must exceed."""
        return self.reason + (f" (band {units.percent(self.band)})" if self.band is not None and self.low is not None else "")


@dataclass(frozen=True, slots=True)
class Pair:
    """A case and its baseline as numbers alone. `first` is the baseline's side."""

    metric: str
    workload: str
    first: ByGpu
    second: ByGpu
    first_status: str
    second_status: str
    cycles_first: ByGpu | None = None
    cycles_second: ByGpu | None = None
    crowded: bool = False
    other: bool = False
    """Whether the case computes something else on purpose."""


def interval_words(low: float | None, high: float | None) -> str:
    """`0.510–0.536`; nothing where there is no interval."""
    if low is None or high is None:
        return ""
    first, second = (units.ratio(value).removesuffix("×") for value in (low, high))
    return f"{first}{units.EN_DASH}{second}"


def judge(pairs: Sequence[Pair]) -> list[Against]:
    """A verdict for each pair, all of one metric settled together."""
    found: list[Against | Reading] = [_by_status(pair) or _read(pair) for pair in pairs]
    tested = [place for place, reading in enumerate(found) if isinstance(reading, Reading) and reading.p is not None]
    p_values = dict(zip(tested, adjusted([_p(found[place]) for place in tested]), strict=True))
    return [
        _worded(entry.settled(p_values.get(place), len(tested)), pairs[place]) if isinstance(entry, Reading) else entry
        for place, entry in enumerate(found)
    ]


def _p(entry: Against | Reading) -> float:
    return entry.p or 0.0 if isinstance(entry, Reading) else 0.0


def _by_status(pair: Pair) -> Against | None:
    """The verdict where how trials ended decides it."""
    ok, own, base = str(Status.OK), pair.second_status, pair.first_status
    if own == str(Status.INCORRECT):
        return Against(WORSE, "its numbers are wrong")
    if own == str(Status.INVALID):
        return Against(CANNOT_TELL, "measured under conditions that forbid using it")
    if own != ok:
        return Against(DID_NOT_RUN, own)
    if base == str(Status.OOM) and not pair.other:
        return Against(BETTER, "it runs where the baseline is out of memory")
    if base != ok:
        return Against(CANNOT_TELL, f"the baseline has no number here: {base or 'not run'}")
    if not pair.first or not pair.second:
        return Against(CANNOT_TELL, "no number on one of the sides")
    return None


def _read(pair: Pair) -> Reading:
    sides = Sides(
        pair.metric, pair.workload, pair.first, pair.second, pair.cycles_first, pair.cycles_second, interleaved=True,
        crowded=pair.crowded,
    )  # fmt: skip
    return read(sides)


def _worded(reading: Reading, pair: Pair) -> Against:
    ratio, between = reading.ratio, reading.ratio.interval if reading.ratio else None
    return Against(
        OTHER if pair.other else _PLAIN.get(reading.word, CANNOT_TELL),
        reading.reason,
        ratio.value if ratio else None,
        between.low if between else None,
        between.high if between else None,
        reading.threshold.relative if reading.threshold else None,
        reading.enough_trials if reading.word in (Word.AMBIGUOUS, Word.INSUFFICIENT) else None,
    )


def by_gpu(case: CaseSummary, metric: str) -> ByGpu:
    """Trial medians by physical GPU; `""` on a CPU, and where the row does not know."""
    found: dict[str, list[float]] = {}
    for result in case.counted:
        value = case.trial_values.get(result.id, {}).get(metric)
        if value is not None:
            found.setdefault(gpu_of(result) or "", []).append(value)
    return found


def was_crowded(result: Result) -> bool:
    """Whether other processes held the cores of a CPU during a trial."""
    share = result.conditions.get("machine_busy_share")
    busy = isinstance(share, int | float) and not isinstance(share, bool) and share >= BUSY_SHARE
    return busy and bool(result.conditions.get("busy_processes"))


def _crowded(case: CaseSummary) -> bool:
    return sum(map(was_crowded, case.counted)) > len(case.counted) / 2


def pair_of(case: CaseSummary, base: CaseSummary | None, metric: str, *, other: bool) -> Pair:
    """The numbers of a case beside those of its baseline, None where it has no row."""
    cpu = case.case.device == "cpu"
    return Pair(
        metric,
        case.case.workload,
        by_gpu(base, metric) if base else {},
        by_gpu(case, metric),
        base.outcome if base else "",
        case.outcome,
        (by_gpu(base, CYCLES) or None) if base and metric == TIME else None,
        (by_gpu(case, CYCLES) or None) if metric == TIME else None,
        crowded=metric == TIME and cpu and (_crowded(case) or (base is not None and _crowded(base))),
        other=other,
    )


@dataclass(frozen=True, slots=True)
class Judged:
    """A section's cases beside their baselines. Baselines themselves, and panels without one, are not in it."""

    baseline: str | None
    """The label that all panels share, where they do."""
    time: Mapping[Key, Against]
    memory: Mapping[Key, Against]

    def counts(self, metric: str) -> tuple[tuple[str, int], ...]:
        """The five words with their counts by `metric` (time, else memory), in their order; `OTHER` last, where there is any."""
        found = Counter(entry.word for entry in (self.time if metric == TIME else self.memory).values())
        words = ((word, found[word]) for word in READER_WORDS)
        return (*words, *(((OTHER, found[OTHER]),) if found[OTHER] else ()))

    def of(self, case: CaseSummary, metric: str) -> Against | None:
        """None for a baseline, and where there is none."""
        return (self.time if metric == TIME else self.memory).get((case.case.key, case.arm))


def judged(section: Section) -> Judged | None:
    """Every case of `section` against the baseline of its panel; None where the suite names no baseline that was measured."""
    places: list[tuple[CaseSummary, CaseSummary | None, bool]] = []
    names = set()
    for facet in section.facets:
        if facet.baseline is None:
            continue
        names.add(facet.baseline)
        others = other_numbers(facet)
        for (label, x), case in facet.cells.items():
            if label != facet.baseline:
                places.append((case, facet.cells.get((facet.baseline, x)), label in others))
    if not places:
        return None
    sides = [
        _keyed(places, judge([pair_of(case, base, metric, other=other) for case, base, other in places]))
        for metric in (TIME, section.memory)
    ]
    return Judged(names.pop() if len(names) == 1 else None, *sides)


def _keyed(places: Iterable[tuple[CaseSummary, CaseSummary | None, bool]], found: Sequence[Against]) -> dict[Key, Against]:
    return {(case.case.key, case.arm): entry for (case, _, _), entry in zip(places, found, strict=True)}
