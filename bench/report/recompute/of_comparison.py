"""A comparison judged again from the process medians inside its page, and held against what it prints.

A row is told with all that its verdict follows of: the numbers of both sides by physical GPU, as `bench.judge.values` reads them; how the
trials of both sides ended; or, of a time that was screened against earlier nights, the numbers night by night, of which medians and ratio
follow and the word does not. What follows of none of these (a row that was measured again, a case that only one side has) is left out,
and counted by who verifies.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from bench.judge.compare import Comparison, is_crowded
from bench.judge.evidence import TrialRow
from bench.judge.intervals import adjusted
from bench.judge.regress import NIGHTS
from bench.judge.statuses import Counts, judge_statuses, leading, outcome
from bench.judge.thresholds import BAND_FROM, CYCLES, RULES, TIME
from bench.judge.values import ByGpu, Noise, Reading, Sides, flat, read
from bench.judge.verdict import Kind, Ratio, SideReading, Verdict, Word
from bench.records import Json, Status, dump, load
from bench.report.outputs.judged import MOST_ROWS, NEWS, page_of_words, ratio_words, side_words
from bench.report.recompute.aligned import differences, texts
from bench.report.recompute.embedded import VERDICTS, Checked, data_of, stated_rows
from bench.stats import median

PAIR, ENDS, BY_NIGHT = "pair", "ends", "nights"
WORDS = "words of the page"
AROUND = "reasons, banners, totals and what to do"
REPEATED = f"drawings; {AROUND} are held only against the words that the data repeat"
CHECKED = ("rows", "verdicts", "first sides", "second sides", "ratios with intervals", "numbers of processes")


@dataclass(frozen=True, slots=True)
class Found:
    """What follows for one row."""

    word: Word | None
    """None where it does not follow of the data."""
    first: SideReading
    second: SideReading
    ratio: Ratio | None
    metric: str
    by_status: bool = False

    def words(self) -> tuple[str, ...]:
        """What the row has to say: verdict, sides, ratio with interval, processes."""
        sides = (side.outcome if self.by_status else side_words(side.median, self.metric) for side in (self.first, self.second))
        ratio = " ".join(word for word in ratio_words(self.ratio) if word != "–") or "–"
        return str(self.word or ""), *sides, ratio, f"{self.first.n}/{self.second.n}"


def comparison_data(comparison: Comparison, names: Mapping[int, str], shown: Collection[int]) -> dict[str, Json]:
    """The rows of a comparison whose numbers follow of medians; by position in its verdicts, with the names that stand there.

    `shown` are the positions of those that the page draws: nights are told of these alone.
    """
    before, after = _by_series(comparison.first.trials), _by_series(comparison.second.trials)
    told: dict[int, dict[str, Json] | None] = {}
    for place, verdict in enumerate(comparison.verdicts):
        series = verdict.series
        key = series.case_key, series.arm, series.hard_hash, series.method_version
        rows = before.get(key, []), after.get(key, [])
        told[place] = _told(verdict, rows, comparison, drawn=place in shown) if all(rows) else None
    kept = {place: one for place, one in told.items() if one is not None}
    while True:
        # Whether a row stands out hangs on all others, so what is left out may change it.
        found = _found(kept)
        fits = {place: one for place, one in kept.items() if _is(found[place], comparison.verdicts[place])}
        if len(fits) == len(kept):
            break
        kept = fits
    return {"rows": [{"place": place, "name": names[place], **one} for place, one in kept.items()]}


def verify_comparison(page: str) -> Checked:
    """Holds a page of a comparison against its data. Raises NoPage."""
    from bench.store.page_data import NoPage

    data = data_of(page, VERDICTS)
    try:
        rows = {int(row["place"]): row for row in data["rows"]}
        names = {place: str(row["name"]) for place, row in rows.items()}
        found = _found(rows)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise NoPage(f"the data inside the page are no comparison ({' '.join(str(error).split())[:200]})") from error
    held = _held(found, names, stated_rows(page))
    if not held.agrees or "page" not in data:
        # Pages of older versions do not repeat their words.
        return held
    return _worded(held, page, data["page"])


def _worded(held: Checked, page: str, told: Json) -> Checked:
    """With all words of the page, drawings apart, held against those that its data repeat."""
    from bench.store.page_data import NoPage

    try:
        right = texts(_undrawn(page_of_words(told)))
    except (ValueError, TypeError) as error:
        raise NoPage(f"the data inside the page are no comparison ({' '.join(str(error).split())[:200]})") from error
    wrong = tuple((WORDS, *one) for one in differences(texts(_undrawn(page)), right))
    return replace(
        held,
        stated={**held.stated, WORDS: len(right)},
        agreed={**held.agreed, WORDS: max(len(right) - len(wrong), 0)},
        differences=wrong,
        not_recomputed=(*held.not_recomputed[:-1], REPEATED),
    )


def _undrawn(page: str) -> str:
    return re.sub(r"<svg\b.*?</svg>", "", page, flags=re.S)


def _held(found: Mapping[int, Found], names: Mapping[int, str], printed: Mapping[str, Sequence[str]]) -> Checked:
    stated: Counter[str] = Counter()
    agreed: Counter[str] = Counter()
    differences = []
    for place, one in found.items():
        cells = printed.get(str(place))
        if cells is None:
            continue
        expected = (f"{names[place]} {one.metric}", *one.words())
        for what, right, told in zip(CHECKED, expected, _printed(cells), strict=True):
            if right:
                stated[what] += 1
                agreed[what] += right == told
                if right != told:
                    differences.append((what, names[place], told, right))
    absent = [place for place, one in found.items() if one.word in NEWS and str(place) not in printed]
    missing = tuple(names[place] for place in absent) if len(printed) < MOST_ROWS else ()
    others = len(printed) - len(found.keys() & {int(name) for name in printed if name.isdecimal()})
    nights = sum(one.word is None for one in found.values())
    unheld = (
        *((f"{others} rows that were measured again, or that one side alone has",) if others else ()),
        *((f"the words of {nights} rows that were screened against earlier nights",) if nights else ()),
        AROUND,
    )
    return Checked("a comparison", stated, agreed, tuple(differences), missing, unheld)


def _printed(cells: Sequence[str]) -> tuple[str, ...]:
    """Of a row below its heading: verdict, what, metric, first, second, ratio, interval's picture, processes, nights, n, why."""
    _, word, what, metric, first, second, ratio, _, _, _, n, *_ = (*cells, *[""] * 12)
    return f"{what} {metric}", word, first, second, ratio, n


# --- what a row follows of ----------------------------------------------------------------------------------------------------


def _by_series(trials: Sequence[TrialRow]) -> dict[tuple[str, str, str, int], list[TrialRow]]:
    found: dict[tuple[str, str, str, int], list[TrialRow]] = {}
    for row in trials:
        found.setdefault((row.case_key, row.arm, row.hard_hash, row.method_version), []).append(row)
    return found


def _told(verdict: Verdict, sides: Sequence[Sequence[TrialRow]], comparison: Comparison, *, drawn: bool) -> dict[str, Json] | None:
    metric = verdict.series.metric
    if verdict.confirmed_in is not None:
        return None
    if verdict.kind is Kind.STATUS:
        ended = (sides[0] if verdict.last_judged is None else _last_that_ran(sides[0], comparison)), sides[1]
        counts = [dict(Counter(str(row.status) for row in rows)) for rows in ended]
        return {"kind": ENDS, "metric": metric, "sides": counts} if _says_something(counts) else None
    if verdict.screening is not None:
        nights = _nights(sides, metric, comparison) if drawn else []
        return {"kind": BY_NIGHT, "metric": metric, "nights": nights} if nights else None
    numbers = [_by_gpu(rows, metric) for rows in sides]
    if not all(numbers) or not all(math.isfinite(value) for one in numbers for value in flat(one)):
        return None
    return {"kind": PAIR, "sides": dump(_sides(verdict, sides, numbers, comparison))}


def _sides(verdict: Verdict, rows: Sequence[Sequence[TrialRow]], numbers: Sequence[ByGpu], comparison: Comparison) -> Sides:
    metric, case = verdict.series.metric, verdict.series.case
    runs = [{row.run_id for row in side} for side in rows]
    timed = metric == TIME
    cycles = [(_by_gpu(side, CYCLES) or None) if timed else None for side in rows]
    crowded = timed and case.device == "cpu" and any(map(is_crowded, rows))
    first, second = _reference(verdict, rows, numbers, comparison)
    given = Sides(metric, case.workload, first, second, cycles[0], cycles[1], interleaved=runs[0] == runs[1], crowded=crowded)
    own = read(given).threshold
    if own is None or verdict.threshold is None or verdict.threshold.relative <= own.relative:
        return given
    # The band is wider for what earlier runs say; as a spread within runs it can be told in one number.
    fewest = min(len(flat(side)) for side in (given.first, given.second))
    within = math.log1p(verdict.threshold.relative) * math.sqrt(fewest) / 2
    return replace(given, noise=Noise(within=within, processes=BAND_FROM))


def _reference(
    verdict: Verdict, rows: Sequence[Sequence[TrialRow]], numbers: Sequence[ByGpu], comparison: Comparison
) -> tuple[ByGpu, ByGpu]:
    """Both sides; of many nights the first is the one whose median is the median of all, as an exact rule takes it."""
    if len(comparison.first.runs) == 1 or verdict.last_judged is None:
        return numbers[0], numbers[1]
    *earlier, tonight = _nights(rows, verdict.series.metric, comparison)
    return {"": sorted(earlier, key=median)[(len(earlier) - 1) // 2]}, {"": tonight}


def _last_that_ran(rows: Sequence[TrialRow], comparison: Comparison) -> Sequence[TrialRow]:
    """The rows of the last night on which a case ran, else of the last."""
    by_run: dict[str, list[TrialRow]] = {}
    for row in rows:
        by_run.setdefault(row.run_id, []).append(row)
    nights = [by_run[run.id] for run in comparison.first.runs if run.id in by_run]
    ran = (night for night in reversed(nights) if leading(Counter(row.status for row in night)) is Status.OK)
    return next(ran, nights[-1] if nights else rows)


def _says_something(counts: Sequence[Mapping[str, int]]) -> bool:
    return all(counts) and judge_statuses(*_counted(counts)) is not None


def _counted(sides: Sequence[Mapping[str, Json]]) -> tuple[Counts, Counts]:
    first, second = ({Status(name): int(n) for name, n in side.items() if int(n) > 0} for side in sides)
    return first, second


def _by_gpu(rows: Sequence[TrialRow], metric: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for row in rows:
        if metric in row.medians:
            value = row.medians[metric]
            found.setdefault(row.gpu or "", []).append(math.inf if value is None else value)
    return found


def _nights(sides: Sequence[Sequence[TrialRow]], metric: str, comparison: Comparison) -> list[list[float]]:
    """The usable numbers of each night, tonight's last; nothing where there is no earlier one."""
    order = [run.id for evidence in (comparison.first, comparison.second) for run in evidence.runs]
    tonight = {row.run_id for row in sides[1]}
    by_run: dict[str, list[float]] = {}
    for row in (*sides[0], *sides[1]):
        value = row.medians.get(metric)
        if value is not None and math.isfinite(value) and value > 0:
            by_run.setdefault("" if row.run_id in tonight else row.run_id, []).append(value)
    earlier = [by_run[run] for run in order if run in by_run][-NIGHTS:]
    return [*earlier, by_run[""]] if earlier and "" in by_run else []


# --- what follows -------------------------------------------------------------------------------------------------------------


def _found(rows: Mapping[int, Mapping[str, Json]]) -> dict[int, Found]:
    """By position what follows, all together."""
    pairs = {
        place: (sides, read(sides)) for place, row in rows.items() if row["kind"] == PAIR for sides in (load(Sides, row["sides"]),)
    }
    tested = [place for place, (_, reading) in pairs.items() if reading.p is not None]
    p_values = dict(zip(tested, adjusted([pairs[place][1].p or 0.0 for place in tested]), strict=True))
    found = {place: _of_pair(sides, reading.settled(p_values.get(place), len(tested))) for place, (sides, reading) in pairs.items()}
    return {place: found[place] if place in found else _of_other(row) for place, row in rows.items()}


def _of_pair(sides: Sides, reading: Reading) -> Found:
    first = SideReading(reading.n_first, reading.median_first, "")
    second = SideReading(reading.n_second, reading.median_second, "")
    return Found(reading.word, first, second, reading.ratio, sides.metric)


def _of_other(row: Mapping[str, Json]) -> Found:
    metric = str(row["metric"])
    if row["kind"] == ENDS:
        counts = _counted(row["sides"])
        first, second = (SideReading(0, None, outcome(one)) for one in counts)
        finding = judge_statuses(*counts)
        if finding is None:
            raise ValueError("how the trials ended says nothing")
        return Found(finding.word, first, second, None, metric, by_status=True)
    if row["kind"] != BY_NIGHT or metric not in RULES:
        raise ValueError(f"a row of the kind {row['kind']!r}")
    nights = [[float(value) for value in night] for night in row["nights"]]
    *earlier, tonight = [median(night) for night in nights]
    middle = median(earlier)
    return Found(
        None, SideReading(len(earlier), middle, ""), SideReading(len(nights[-1]), tonight, ""), Ratio(tonight / middle), metric
    )


def _is(found: Found, verdict: Verdict) -> bool:
    """Whether it is what the verdict says, to what is printed of it."""
    as_judged = Found(verdict.word, verdict.first, verdict.second, verdict.ratio, verdict.series.metric, found.by_status)
    return found.words()[1:] == as_judged.words()[1:] and found.word in (None, verdict.word)
