"""What a result says once `bench db gc` took its samples or its log away: the median, and words about what is gone.

A thinned measurement is read as its median alone, which is exact, with a note that gives its number of samples, mean, and 5th and 95th
percentile. So a thinned row goes through reports, exports and imports like any other, and nobody takes it for a single measured number.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from bench import stats
from bench.records import Measurement, Result

_NOTE = "samples dropped by `bench db gc` on "
_LOG = "log dropped by `bench db gc` on "
_BETWEEN = "; "
_MEDIAN_OF = re.compile(r"\bthe median of (\d+)\b")


def thinned_measurement(row: Any, at: str) -> Measurement:
    """The measurement of a row of `measurement` whose samples were dropped at `at` (UTC, ISO 8601)."""
    known = (("mean", row.mean), ("5 %", row.p05), ("95 %", row.p95))
    statistics = "".join(f", {words} {value:.9g}" for words, value in known if value is not None)
    said = f"{_NOTE}{at[:10]}: the median of {row.n}{statistics}"
    note = said if row.note is None else row.note + _BETWEEN + said
    return Measurement(row.metric, row.unit, (row.median,), row.scope, row.calls_per_sample, note)


def thinned_log(at: str) -> str:
    """What stands where a log was."""
    return f"{_LOG}{at[:10]}\n"


def equally_thinned(ours: Result, theirs: Result) -> tuple[Result, Result]:
    """Both results without what `bench db gc` took from either of them, so that a thinned row can be compared with the whole one."""
    if any(_was_thinned(m) for m in (*ours.measurements, *theirs.measurements)):
        ours, theirs = (replace(one, measurements=tuple(map(_bare, one.measurements))) for one in (ours, theirs))
    if ours.log.startswith(_LOG) or theirs.log.startswith(_LOG):
        ours, theirs = replace(ours, log=""), replace(theirs, log="")
    return ours, theirs


def samples_before(note: str | None) -> int | None:
    """How many samples a measurement had that is told by its median alone, by its note (ours or an importer's); None for a whole one."""
    said = _MEDIAN_OF.search(note or "")
    return None if said is None else int(said[1])


def _was_thinned(measurement: Measurement) -> bool:
    return measurement.note is not None and _NOTE in measurement.note


def _bare(measurement: Measurement) -> Measurement:
    note = measurement.note
    if note is not None and _NOTE in note:
        note = note[: note.rindex(_NOTE)].removesuffix(_BETWEEN) or None
    return replace(measurement, samples=(stats.median(sorted(measurement.samples)),), note=note)
