"""What each rank of a case measured, and which of them is the fullest."""

from __future__ import annotations

from bench import stats
from bench.metrics import SHOWS_SPEED
from bench.records import Result, Status
from bench.report.numbers.summary import TOTAL, CaseSummary

SCOPE = "rank:"
_SPEED = SHOWS_SPEED | {"exposed_communication_share"}


def by_rank(case: CaseSummary) -> dict[int, dict[str, float]]:
    """Rank to metric to the median over trials; empty where the case ran on one. No times where those are withheld."""
    found: dict[int, dict[str, list[float]]] = {}
    for result in case.counted:
        for rank, own in rank_medians(case, result).items():
            for name, value in own.items():
                found.setdefault(rank, {}).setdefault(name, []).append(value)
    return {rank: {name: stats.median(values) for name, values in own.items()} for rank, own in sorted(found.items())}


def fullest(case: CaseSummary) -> dict[str, float]:
    """Metric to median on the rank whose peak is the highest; those of the trial where the case ran on one."""
    ranks = by_rank(case)
    if not ranks:
        return {name: value.median for name, value in case.values.items()}
    return max(ranks.values(), key=lambda own: own.get(TOTAL, 0.0))


def rank_medians(case: CaseSummary, result: Result) -> dict[int, dict[str, float]]:
    """The same of one trial of the case; empty where it is not ok."""
    found: dict[int, dict[str, float]] = {}
    for measurement in result.measurements if result.status is Status.OK else ():
        if not measurement.scope.startswith(SCOPE) or (case.time_withheld and measurement.metric in _SPEED):
            continue
        number = measurement.scope.removeprefix(SCOPE)
        if number.isdecimal():
            found.setdefault(int(number), {})[measurement.metric] = stats.median(measurement.samples)
    return found
