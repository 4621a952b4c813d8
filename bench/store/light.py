"""Published rows in fewer bytes: the digits that a number can have, and some samples of many.

What was measured of a subject, and how far it is from the reference, keeps nine significant digits of a number that is not whole: a
single-precision number survives that unchanged, and no clock of ours has more. Conditions and a trial's duration keep six, since they
move by more between two readings; what the harness itself spent keeps four, since it is never compared. The moments of a step's memory
keep their bytes, and their times to a thousandth of the step or finer, as under the profiler they are stretched anyhow. Of many samples
those at evenly spaced ranks are kept, in the order in which they were taken, with the lowest, the highest and those in the middle: the
median stays. A note says how many there were, with mean and percentiles of all. So a light row reads as a thinned one does (thinning.py),
and its samples still show how they lay.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from bench.metrics import METRICS
from bench.records import Check, Json, Measurement, Result
from bench.store.thinning import equally_thinned, kept_of, roughly, samples_before

MOST_SAMPLES = 32
_LONGEST_STEP_S = 1e9
"""Times beyond it are no moments of a step, and may be too large to be rounded."""
DIGITS, CONDITION_DIGITS, HARNESS_DIGITS, MOMENT_DIGITS = 9, 6, 4, 4


def light_result(result: Result) -> Result:
    """The row in fewer bytes; a light row stays as it is."""
    return replace(
        result,
        measurements=tuple(_light_measurement(one) for one in result.measurements),
        checks=tuple(_light_check(one) for one in result.checks),
        conditions=_light(_with_rough_moments(result.conditions), CONDITION_DIGITS),
        duration_s=_light(result.duration_s, CONDITION_DIGITS),
    )


def equally_light(ours: Result, theirs: Result) -> tuple[Result, Result]:
    """Both rows without what made either of them thin or light, so that two forms of one row are equal.

    Rows that older versions published, with nine digits of conditions and all of a check's, are light as well.
    """
    if ours == theirs:
        return ours, theirs
    mine, yours = equally_thinned(ours, theirs)
    if not _is_light(ours) and not _is_light(theirs):
        return mine, yours  # every digit counts
    pairs = zip(mine.measurements, yours.measurements, strict=False)
    aligned = [replace(b, samples=tuple(_aligned(list(a.samples), list(b.samples), _digits_of(b)))) for a, b in pairs]
    ours_seen, theirs_seen = _with_rough_moments(mine.conditions), _with_rough_moments(yours.conditions)
    checks = [
        Check(**_aligned(asdict(a), asdict(b), DIGITS)) if a != b else b for a, b in zip(mine.checks, yours.checks, strict=False)
    ]
    return replace(mine, conditions=ours_seen), replace(
        yours,
        measurements=(*aligned, *yours.measurements[len(aligned) :]),
        checks=(*checks, *yours.checks[len(checks) :]),
        conditions=_aligned(ours_seen, theirs_seen, CONDITION_DIGITS),
        duration_s=_aligned(mine.duration_s, yours.duration_s, CONDITION_DIGITS),
    )


def _is_light(result: Result) -> bool:
    """Whether no number that is not whole has more than nine digits, or ten, as a median of two has."""
    numbers = [sample for one in result.measurements for sample in one.samples]
    return _light(result.conditions, DIGITS) == result.conditions and all(
        number.is_integer() or math.isclose(number, float(f"{number:.{DIGITS + 1}g}"), rel_tol=1e-15) for number in numbers
    )


def _digits_of(measurement: Measurement) -> int:
    known = METRICS.get(measurement.metric)
    return HARNESS_DIGITS if known is not None and known.harness else DIGITS


def _light_measurement(measurement: Measurement) -> Measurement:
    note, samples = measurement.note, measurement.samples
    if samples_before(note) is not None:
        note = roughly(note or "")
    elif len(samples) > MOST_SAMPLES:
        note, samples = kept_of(measurement, MOST_SAMPLES), tuple(samples[place] for place in _places(samples))
    digits = _digits_of(measurement)
    return replace(measurement, samples=tuple(_short(sample, digits) for sample in samples), note=note)


def _light_check(check: Check) -> Check:
    return Check(**_light(asdict(check), DIGITS))


def _places(samples: Sequence[float]) -> list[int]:
    """Places of at most `MOST_SAMPLES` samples at evenly spaced ranks: as many as there are, if odd, else an even number of them, so
    that what lies in the middle of all lies in the middle of these."""
    count = MOST_SAMPLES - (MOST_SAMPLES - len(samples)) % 2
    by_rank = sorted(range(len(samples)), key=samples.__getitem__)
    half = (count + 1) // 2
    last = (len(samples) - 1) // 2
    lower = [round(last * step / (half - 1)) for step in range(half)]
    ranks = {rank for low in lower for rank in (low, len(samples) - 1 - low)}
    return sorted(by_rank[rank] for rank in ranks)


def _with_rough_moments(data: Any) -> Any:
    """The conditions with the times of their memory's moments to as many digits as the last of them needs for a thousandth of itself."""
    if isinstance(data, list | tuple):
        return [_with_rough_moments(value) for value in data]
    if not isinstance(data, Mapping):
        return data
    moments = data.get("timeline")
    at = [one.get("at_s") if isinstance(one, Mapping) else None for one in moments] if isinstance(moments, list | tuple) else []
    last = at[-1] if at else None
    found = {key: _with_rough_moments(value) for key, value in data.items()}
    if isinstance(last, float) and last > 0 and all(isinstance(one, float) and one < _LONGEST_STEP_S for one in at):
        places = MOMENT_DIGITS - 1 - int(f"{last:.{MOMENT_DIGITS - 1}e}".partition("e")[2])
        found["timeline"] = [{**one, "at_s": round(one["at_s"], places)} for one in found["timeline"]]
    return found


def _short(number: float, digits: int) -> float:
    return number if number.is_integer() else float(f"{number:.{digits}g}")


def _light(data: Json, digits: int) -> Any:
    """The same data with at most so many digits of every number that is not whole."""
    if isinstance(data, float):
        return _short(data, digits)
    if isinstance(data, Mapping):
        return {key: _light(value, digits) for key, value in data.items()}
    return [_light(value, digits) for value in data] if isinstance(data, list | tuple) else data


def _aligned(ours: Json, theirs: Json, digits: int) -> Any:
    """`theirs` with our number wherever theirs is the same but for the last of so many digits, as a median of two such may be too."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return {key: _aligned(ours[key], value, digits) if key in ours else value for key, value in theirs.items()}
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple) and len(ours) == len(theirs):
        return [_aligned(a, b, digits) for a, b in zip(ours, theirs, strict=True)]
    if isinstance(ours, float) and isinstance(theirs, float) and math.isclose(ours, theirs, rel_tol=10.0 ** (1 - digits)):
        return ours
    return theirs
