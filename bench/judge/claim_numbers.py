"""Our number for a claim: of rows that may be compared, with its interval over processes.

A number of a row is the median of its samples. Rows are pooled where suite, revision, harness, workload, method and hardware are the same;
of several such pools the newest that holds every side counts, so that a ratio never spans two machines or two commits.

The interval (99 %) is Student's on logarithms, from three processes a side on; for two sides it is that of every other comparison
(intervals.py): within one physical GPU, and combined. An exponent has that of its regression (growth.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.judge.claim_records import Claim, Measured, Ours
from bench.judge.growth import CONFIDENCE as GROWTH_CONFIDENCE
from bench.judge.growth import growth
from bench.judge.intervals import Block, log_ratio
from bench.judge.shared_gpu import Beside
from bench.judge.student import critical
from bench.judge.thresholds import CONFIDENCE, FEWEST
from bench.machine.datasheet import data_sheet
from bench.records import Result, Run, Scalar, Status, fingerprint
from bench.stats import mean, median, stdev

CPU = "CPU"

Number = Callable[[Result], float | None]


def _median(row: Result, metric: str) -> float | None:
    measured = row.measurement(metric)
    return None if measured is None else median(measured.samples)


def _per_second(work: str) -> Number:
    def rate(row: Result) -> float | None:
        seconds, amount = _median(row, "time_s"), getattr(row.cost, work, None)
        return row.case.world_size * amount / seconds if seconds and amount else None

    return rate


def _saved_beyond_inputs(row: Result) -> float | None:
    saved, inputs = _median(row, "saved_bytes"), _median(row, "saved_input_bytes")
    return None if saved is None or inputs is None else saved - inputs


MODEL_STATES = ("weight_bytes", "gradient_bytes", "master_bytes", "state_bytes")
"""What the ZeRO paper calls model states: all that a rank keeps of a model but its activations."""


def _model_states(row: Result) -> float | None:
    parts = [value for metric in MODEL_STATES if (value := _median(row, metric)) is not None]
    return sum(parts) if len(parts) == len(MODEL_STATES) else None


DERIVED: Mapping[str, tuple[tuple[str, ...], Number]] = {
    "flops_per_s": (("time_s",), _per_second("flops")),
    "bytes_per_s": (("time_s",), _per_second("bytes")),
    "tokens_per_s": (("time_s",), _per_second("tokens")),
    "model_state_bytes": (MODEL_STATES, _model_states),
    "saved_beyond_inputs_bytes": (("saved_bytes", "saved_input_bytes"), _saved_beyond_inputs),
}
"""Numbers that follow of several: the metrics that they need, and how. Rates are those of all ranks, by the workload's formulas."""


@dataclass(frozen=True, slots=True)
class Row:
    """A result with its run and the label that its suite gives the subject."""

    run: Run
    label: str
    result: Result


def needed(claims: Sequence[Claim]) -> tuple[str, ...]:
    """Every metric that some claim is measured by."""
    metrics = [claim.measured_by.metric for claim in claims if claim.measured_by is not None]
    return tuple(dict.fromkeys(name for metric in metrics for name in (DERIVED[metric][0] if metric in DERIVED else (metric,))))


def device_of(row: Result) -> str:
    """The data sheet's name of the GPU, its own where no sheet knows it, or `CPU`."""
    hard = row.environment.hard
    model = hard.get("gpu_model")
    if row.case.device != "cuda" or not isinstance(model, str):
        return CPU
    sheet = data_sheet(model)
    name = sheet.model if sheet is not None else model
    return f"a part ({hard['mig']}) of {name}" if hard.get("mig") else name


def standing(row: Result, where: Mapping[str, Scalar]) -> bool:
    """Whether the row has all these values."""
    try:
        return all(row.case.axis_value(axis) == value for axis, value in where.items())
    except KeyError:
        return False


def used(rows: Sequence[Row], metric: str, beside: Beside) -> list[Row]:
    """Those of which the number may be used, whoever else was on the GPU."""
    names = DERIVED[metric][0] if metric in DERIVED else (metric,)
    return [row for row in rows if not any(beside.takes(row.result.id, name, None) for name in names)]


def of_side(rows: Sequence[Row], by: Measured, label: str, where: Mapping[str, Scalar]) -> list[Row]:
    """The rows of one side, whatever became of them."""
    return [row for row in rows if row.run.suite == by.suite and row.label == label and standing(row.result, where)]


def pools(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows that may be compared with one another, the newest pool first."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        result = row.result
        revision = [[item.name, item.version, item.commit, item.diff_hash] for item in row.run.revision]
        same = [result.environment.hard_hash, result.harness_version, result.method_version, result.case.workload_version, revision]
        found.setdefault(fingerprint(same), []).append(row)
    return sorted(found.values(), key=lambda pool: max(row.result.started_at for row in pool), reverse=True)


def number_of(metric: str) -> Number:
    """How a row's number of this metric is read."""
    return DERIVED[metric][1] if metric in DERIVED else lambda row: _median(row, metric)


def _numbers(rows: Sequence[Row], number: Number) -> list[tuple[Row, float]]:
    read = [(row, number(row.result)) for row in rows if row.result.status is Status.OK]
    return [(row, value) for row, value in read if value is not None and math.isfinite(value)]


def _ours(value: float, interval: tuple[float, float] | None, confidence: float, n: int, rows: Sequence[Row]) -> Ours:
    first = rows[0].result
    low, high = interval if interval is not None else (None, None)
    ids = tuple(row.result.id for row in rows)
    return Ours(value, low, high, None if interval is None else confidence, n, False, device_of(first), ids, first.command)


def figure(rows: Sequence[Row], metric: str) -> Ours | None:
    """The median over processes; None without a number."""
    read = _numbers(rows, number_of(metric))
    if not read:
        return None
    values = [value for _, value in read]
    interval = None
    if len(values) >= FEWEST and min(values) > 0:
        logs = [math.log(value) for value in values]
        half = critical(CONFIDENCE, len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
        interval = math.exp(mean(logs) - half), math.exp(mean(logs) + half)
    return _ours(median(values), interval, CONFIDENCE, len(values), [row for row, _ in read])


def ratio(of: Sequence[Row], over: Sequence[Row], metric: str) -> Ours | None:
    """The number of `of` over that of `over`; None where a side has none, or one that is not above zero."""
    sides = [_numbers(rows, number_of(metric)) for rows in (of, over)]
    if not all(sides) or min(value for side in sides for _, value in side) <= 0:
        return None
    above, below = ([value for _, value in side] for side in sides)
    n = min(len(above), len(below))
    interval = None
    blocks = _blocks(sides)
    if n >= FEWEST and blocks:
        found = log_ratio(blocks).interval(CONFIDENCE)
        interval = found.low, found.high
    return _ours(median(above) / median(below), interval, CONFIDENCE, n, [row for side in sides for row, _ in side])


def _blocks(sides: Sequence[Sequence[tuple[Row, float]]]) -> list[Block]:
    """By physical GPU, the second side of the ratio first; only those with two processes of each."""
    of, over = ({}, {})  # type: tuple[dict[str, list[float]], dict[str, list[float]]]
    for found, side in zip((of, over), sides, strict=True):
        for row, value in side:
            found.setdefault(str(row.result.conditions.get("gpu_uuid", "")), []).append(value)
    return [(over[gpu], of[gpu]) for gpu in of if len(of[gpu]) >= 2 and len(over.get(gpu, ())) >= 2]


def difference(of: Sequence[Row], over: Sequence[Row], metric: str) -> Ours | None:
    """The number of `of` less that of `over`, over trials of the same index, which see the same inputs; None without such a pair."""
    sides = [
        {(row.run.id, row.result.trial.index): (row, value) for row, value in _numbers(rows, number_of(metric))}
        for rows in (of, over)
    ]
    pairs = [(sides[0][key], sides[1][key]) for key in sides[0] if key in sides[1]]
    if not pairs:
        return None
    values = [first[1] - second[1] for first, second in pairs]
    interval = None
    if len(values) >= FEWEST:
        half = critical(CONFIDENCE, len(values) - 1) * stdev(values) / math.sqrt(len(values))
        interval = mean(values) - half, mean(values) + half
    return _ours(median(values), interval, CONFIDENCE, len(values), [row for pair in pairs for row, _ in pair])


def exponent(rows: Sequence[Row], metric: str, along: str) -> Ours | None:
    """Of the metric's medians along an axis, at least three sizes; None with fewer."""
    by_size: dict[float, list[float]] = {}
    read = _numbers(rows, number_of(metric))
    for row, value in read:
        size = row.result.case.axis_value(along)
        if isinstance(size, int | float):
            by_size.setdefault(float(size), []).append(value)
    sizes = sorted(by_size)
    found = growth(sizes, [median(by_size[size]) for size in sizes])
    if found is None:
        return None
    interval = found.exponent - found.half_width, found.exponent + found.half_width
    return _ours(found.exponent, interval, GROWTH_CONFIDENCE, found.sizes, [row for row, _ in read])
