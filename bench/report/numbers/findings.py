"""What is found about a subject beside time and memory, such as its error and what it keeps, and who computes something else on purpose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from bench.metrics import METRICS
from bench.records import Result, Scalar
from bench.report.numbers import units
from bench.report.numbers.summary import CaseSummary, Spread

if TYPE_CHECKING:
    from bench.report.numbers.layout import Facet

FINDINGS = tuple(metric.name for metric in METRICS.values() if metric.finding)
"""Metrics that are compared between subjects beside time and peak."""
ERRORS = tuple(name for name in FINDINGS if METRICS[name].unit == "ratio" and name.endswith("_error"))
TITLES = {
    "output_error": "error",
    "update_error": "error of the update",
    "weight_bytes": "weights",
    "state_bytes": "states",
    "state_host_bytes": "states off the device",
    "state_bytes_per_parameter": "states a parameter",
    "energy_j": "energy a call",
    "energy_per_token_j": "energy a token",
}
LARGER_ERROR = 1.25
"""Errors within this factor of each other are alike: both are a draw of rounding."""
OTHER_ERROR = 3.0
LEAST_OTHER_ERROR = 1e-3
"""Above both, relative to the baseline and for itself, an error is no rounding any more: other numbers are computed."""
NUMERICS = (
    "numerics_weights", "numerics_gradients", "numerics_states", "numerics_master", "numerics_compute", "numerics_loss_scaling",
    "learned_parameters",
)  # fmt: skip
"""What a training step found of itself: which dtype everything has, and how many parameters learn."""
OF_SHARDS = ("DTensor", "shards")
"""How the dtype of what ranks share ends: it is that of the copy which is updated, and what is gathered has another."""


def title(metric: str) -> str:
    """The head of a finding's column."""
    return TITLES.get(metric, metric.removesuffix("_bytes").replace("_", " "))


def found_in(cases: Iterable[CaseSummary]) -> tuple[str, ...]:
    """The findings that at least one of `cases` has."""
    names = {name for case in cases if case.usable for name in case.values}
    return tuple(name for name in FINDINGS if name in names)


def value_text(value: Spread, metric: str) -> str:
    """`0.170 %`, `1.13 GiB`; with the range where trials differ."""
    unit = units.metric_unit(metric)
    middle = units.in_unit(value.median, unit)
    between = units.range_in_unit(value.low, value.high, unit)
    return middle if value.low == value.high or between == middle else f"{middle} ({between})"


def telling(facet: Facet) -> tuple[str, ...]:
    """The findings that differ between subjects at some size: what all share says nothing in a cell."""
    names = found_in(facet.cells.values())
    return tuple(name for name in names if any(_differs(facet, x, name) for x in facet.xs))


def _differs(facet: Facet, x: float | int | None, metric: str) -> bool:
    seen = {cell.values[metric].median for label in facet.labels if (cell := facet.cells.get((label, x))) and metric in cell.values}
    return len(seen) > 1


def other_numbers(facet: Facet) -> frozenset[str]:
    """Subjects that compute something else on purpose: by their declared tolerance, in another dtype than the baseline (the first,
    where there is none), because their error is no rounding any more, or because they train in other numerics or other weights.

    Nobody, where everybody does: then they are compared with each other.
    """
    dtype = next((cell.case.dtype for label in (facet.baseline, *facet.labels) if label for cell in facet.row(label)), None)
    found = frozenset(
        label
        for label in facet.labels
        if any(
            cell.case.dtype != dtype or cell.declares_tolerance or _far_off(facet, cell, x) or _trains_otherwise(facet, cell)
            for x in facet.xs
            if (cell := facet.cells.get((label, x)))
        )
    )
    measured = {label for label in facet.labels if any(cell.usable for cell in facet.row(label))}
    return found if measured - found else frozenset()


def _far_off(facet: Facet, cell: CaseSummary, x: float | int | None) -> bool:
    beside = [other for label in facet.labels if (other := facet.cells.get((label, x))) is not None and other.usable]
    for metric in ERRORS:
        own = cell.values.get(metric)
        others = [other.values[metric].median for other in beside if metric in other.values]
        if own and own.median > LEAST_OTHER_ERROR and own.median > OTHER_ERROR * min(others, default=own.median):
            return True
    return False


def numerics_of(result: Result) -> dict[str, Scalar]:
    """What the row says of dtypes and of what learns; empty for what is no training step."""
    found = {name: result.conditions.get(name) for name in NUMERICS}
    return {name: value for name, value in found.items() if isinstance(value, str | int) and not str(value).endswith(OF_SHARDS)}


def _trains_otherwise(facet: Facet, cell: CaseSummary) -> bool:
    """Beside the baseline's steps of the same model, or the first subject's that has any; what one of two does not say tells nothing."""
    own = _numerics(cell)
    rows = (facet.row(label) for label in (facet.baseline, *facet.labels) if label is not None)
    for row in rows if own else ():
        for beside in row:
            if beside.case.params.get("model") == cell.case.params.get("model") and (other := _numerics(beside)):
                return _differ(own, other)
    return False


def otherwise(cell: CaseSummary, beside: CaseSummary) -> bool:
    """Whether one of two cases computes in other numbers than the other: by dtype, by a declared tolerance, or by what their rows say of
    numerics and of the weights that learn."""
    if cell.case.dtype != beside.case.dtype or cell.declares_tolerance != beside.declares_tolerance:
        return True
    own, other = _numerics(cell), _numerics(beside)
    return bool(own and other) and _differ(own, other)


def _differ(own: Mapping[str, Scalar], other: Mapping[str, Scalar]) -> bool:
    return any(other.get(name, value) != value for name, value in own.items())


def _numerics(cell: CaseSummary) -> dict[str, Scalar]:
    return next((found for result in cell.counted if cell.usable and (found := numerics_of(result))), {})


def error_words(case: CaseSummary, against: CaseSummary | None, *, always: bool) -> str:
    """`error 9.10 % instead of 0.170 %` where the error is the larger one; with `always` also where nothing can be compared."""
    words = []
    for metric in ERRORS:
        own = case.values.get(metric)
        other = against.values.get(metric) if against is not None else None
        if own is None:
            continue
        text = f"{title(metric)} {units.in_unit(own.median, units.metric_unit(metric))}"
        if other is not None and own.median > LARGER_ERROR * other.median:
            words.append(f"{text} instead of {units.in_unit(other.median, units.metric_unit(metric))}")
        elif other is None and always:
            words.append(text)
    return ", ".join(words)


def lines(case: CaseSummary, metrics: Sequence[str]) -> tuple[str, ...]:
    """`error 0.170 %`, one for each finding that the case has."""
    return tuple(f"{title(name)} {value_text(case.values[name], name)}" for name in metrics if case.usable and name in case.values)
