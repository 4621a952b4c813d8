"""Published rows in fewer bytes: nine digits of a number, and some samples of many.

A number that is not whole keeps nine significant digits: a single-precision number survives that unchanged, and no clock of ours has
more. Of many samples those at evenly spaced ranks are kept, in the order in which they were taken, with the lowest, the highest and those
in the middle: the median stays. A note says how many there were, with mean and percentiles of all. So a light row reads as a thinned one
does (thinning.py), and its samples still show how they lay.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bench.records import Json, Measurement, Result
from bench.store.thinning import equally_thinned, kept_of, roughly, samples_before

MOST_SAMPLES = 32
DIGITS = 9
CLOSE = 10.0 ** (1 - DIGITS)
"""How far a number with nine digits, or a median of two such, may lie from the whole one, relatively."""


def light_result(result: Result) -> Result:
    """The row in fewer bytes; a light row stays as it is."""
    measurements = tuple(_light_measurement(one) for one in result.measurements)
    return replace(result, measurements=measurements, conditions=_light(result.conditions))


def equally_light(ours: Result, theirs: Result) -> tuple[Result, Result]:
    """Both rows without what made either of them thin or light, so that two forms of one row are equal."""
    if ours == theirs:
        return ours, theirs
    mine, yours = equally_thinned(ours, theirs)
    if not _is_light(ours) and not _is_light(theirs):
        return mine, yours  # every digit counts
    pairs = zip(mine.measurements, yours.measurements, strict=False)
    aligned = [replace(b, samples=tuple(_aligned(list(a.samples), list(b.samples)))) for a, b in pairs]
    return mine, replace(
        yours,
        measurements=(*aligned, *yours.measurements[len(aligned) :]),
        conditions=_aligned(mine.conditions, yours.conditions),
    )


def _is_light(result: Result) -> bool:
    """Whether no number has more than nine digits, or ten, as a median of two has."""
    numbers = [sample for one in result.measurements for sample in one.samples]
    return _light(result.conditions) == result.conditions and all(
        math.isclose(number, float(f"{number:.{DIGITS + 1}g}"), rel_tol=1e-15) for number in numbers
    )


def _light_measurement(measurement: Measurement) -> Measurement:
    note, samples = measurement.note, measurement.samples
    if samples_before(note) is not None:
        note = roughly(note or "")
    elif len(samples) > MOST_SAMPLES:
        note, samples = kept_of(measurement, MOST_SAMPLES), tuple(samples[place] for place in _places(samples))
    return replace(measurement, samples=tuple(_short(sample) for sample in samples), note=note)


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


def _short(number: float) -> float:
    return number if number.is_integer() else float(f"{number:.{DIGITS}g}")


def _light(data: Json) -> Json:
    """The same data with at most nine digits of every number that is not whole."""
    if isinstance(data, float):
        return _short(data)
    if isinstance(data, Mapping):
        return {key: _light(value) for key, value in data.items()}
    return [_light(value) for value in data] if isinstance(data, list | tuple) else data


def _aligned(ours: Json, theirs: Json) -> Any:
    """`theirs` with our number wherever theirs is the same but for the last of nine digits."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return {key: _aligned(ours[key], value) if key in ours else value for key, value in theirs.items()}
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple) and len(ours) == len(theirs):
        return list(map(_aligned, ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, float) and math.isclose(ours, theirs, rel_tol=CLOSE):
        return ours
    return theirs
