"""What a result says once `bench db gc` took its samples or its log away: the median, and words about what is gone.

A thinned measurement is read as its median alone, which is exact, with a note that gives its number of samples, mean, and 5th and 95th
percentile. So a thinned row goes through reports, exports and imports like any other, and nobody takes it for a single measured number.
Of a published one some samples are left beside the same note (light.py).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from bench import stats
from bench.records import Measurement, Result

_NOTE = "samples dropped by `bench db gc` on "
_KEPT = " samples published: "
_LOG = "log dropped by `bench db gc` on "
_BETWEEN = "; "
_MEDIAN_OF = re.compile(r"\bthe median of (\d+)\b")
_SAID = re.compile(rf"(?:{_BETWEEN}|^)(?:{re.escape(_NOTE)}|\d+ of \d+{_KEPT}).*$")
_STATISTIC = re.compile(r"(?<=, )(mean|5 %|95 %) ([\d.e+-]+\d)")
_ROUGH_DIGITS = 5


def thinned_measurement(row: Any, at: str) -> Measurement:
    """The measurement of a row of `measurement` whose samples were dropped at `at` (UTC, ISO 8601)."""
    said = f"{_NOTE}{at[:10]}: the median of {row.n}{_statistics(row.mean, row.p05, row.p95)}"
    note = said if row.note is None else row.note + _BETWEEN + said
    return Measurement(row.metric, row.unit, (row.median,), row.scope, row.calls_per_sample, note)


def kept_of(measurement: Measurement, count: int) -> str:
    """The note of a whole measurement of which `count` samples will be left."""
    every = measurement.samples
    told = _statistics(stats.mean(every), stats.quantile(every, 0.05), stats.quantile(every, 0.95))
    said = roughly(f"{count} of {len(every)}{_KEPT}the median of {len(every)}{told}")
    return said if measurement.note is None else measurement.note + _BETWEEN + said


def roughly(note: str) -> str:
    """The note with five digits of the mean and the percentiles that it tells."""
    return _STATISTIC.sub(lambda found: f"{found[1]} {float(found[2]):.{_ROUGH_DIGITS}g}", note)


def thinned_log(at: str) -> str:
    """What stands where a log was."""
    return f"{_LOG}{at[:10]}\n"


def equally_thinned(ours: Result, theirs: Result) -> tuple[Result, Result]:
    """Both results without what `bench db gc` or publishing took from either, so that a thinned row can be compared with the whole one."""
    if any(_was_thinned(m) for m in (*ours.measurements, *theirs.measurements)):
        ours, theirs = (replace(one, measurements=tuple(map(_bare, one.measurements))) for one in (ours, theirs))
    if ours.log.startswith(_LOG) or theirs.log.startswith(_LOG):
        ours, theirs = replace(ours, log=""), replace(theirs, log="")
    return ours, theirs


def samples_before(note: str | None) -> int | None:
    """How many samples a measurement had of which a median or some are left, by its note (ours or an importer's); None for a whole one."""
    said = _MEDIAN_OF.search(note or "")
    return None if said is None else int(said[1])


def _was_thinned(measurement: Measurement) -> bool:
    return _SAID.search(measurement.note or "") is not None


def _bare(measurement: Measurement) -> Measurement:
    note = measurement.note
    return replace(
        measurement,
        samples=(stats.median(sorted(measurement.samples)),),
        note=None if note is None else _SAID.sub("", note, count=1) or None,
    )


def _statistics(mean: float | None, low: float | None, high: float | None) -> str:
    known = (("mean", mean), ("5 %", low), ("95 %", high))
    return "".join(f", {words} {value:.9g}" for words, value in known if value is not None)
