"""From a suite to its cases: the product of all axes, less what rules exclude and filters leave out.

Order: axes vary as the file declares them, the first one slowest; the subjects of a point come last, so a point's cases are
neighbours. A case that would be there twice is there once. Where the suite searches an axis, its cases are those of the first probes:
the lowest value. A filter on that axis asks for values instead, and nothing is searched.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.catalogue import Catalogue
from bench.catalogue.names import listed
from bench.declare import Workload
from bench.errors import Problem, SelectionError, SuiteError
from bench.records import MEMORY_LIMIT_PARAM, Case, Pass, Scalar
from bench.suite.arms import arms_of
from bench.suite.axes import (
    MEMORY_LIMIT,
    TIMERS,
    WHOLE,
    Axis,
    BadValue,
    axis_value,
    selection_axes,
    sweep_axes,
    unknown_word,
)
from bench.suite.check import OPERATORS, collected, shape_dims
from bench.suite.check_arms import dtype_of
from bench.suite.filters import Filter
from bench.suite.model import Search, Suite
from bench.suite.sizes import parse_size

MAX_CASES = 100_000


@dataclass(frozen=True, slots=True)
class Expansion:
    """The cases in declared order, and how many cases rules excluded and filters left out."""

    cases: tuple[Case, ...]
    excluded: int
    filtered: int
    search: Search | None = None
    """What is searched, starting from these cases."""


def expand(suite: Suite, catalogue: Catalogue, *, device: str, filters: Sequence[Filter] = ()) -> Expansion:
    """All cases of the suite on `device` (`cpu`, `cuda` or `cpu-interpreter`).

    Raises SuiteError for cells that cannot be (a batch that does not divide, what the workload's spec refuses, a timer of another
    device) and for filters that are not understood; SelectionError where a filter's value, or all filters together, match no case.
    """
    workload = catalogue.workload(suite.workload)
    wanted = _typed_filters(filters, selection_axes(workload, catalogue))
    search, searched = _searched(suite, wanted)
    cells = _cells(suite, workload, catalogue, device, searched)
    kept: dict[str, Case] = {}
    present: dict[str, dict[Scalar, None]] = {axis: {} for axis in wanted}
    excluded = filtered = 0
    mistakes: dict[str, list[str]] = {}
    for cell in cells:
        asked: list[Case] = []
        for case in cell.cases:
            if any(_holds(rule, case) for rule in suite.exclude):
                excluded += 1
                continue
            for axis in wanted:
                present[axis][axis_value(case, axis)] = None
            if all(axis_value(case, axis) in values for axis, values in wanted.items()):
                asked.append(case)
            else:
                filtered += 1
        mistake = _mistake(cell, asked, workload, search) if asked else None
        if mistake:
            mistakes.setdefault(mistake, []).append(cell.label)
        kept.update((case.key, case) for case in asked)
    if mistakes:
        raise collected([_cell_problem(suite, mistake, labels) for mistake, labels in mistakes.items()])
    if not kept and not wanted:
        raise SuiteError([suite.problem("exclude", "the rules exclude every case")])
    for axis, values in wanted.items():
        absent = [value for value in values if value not in present[axis]]
        if absent:
            there = [value for value in present[axis] if value is not None]
            raise SelectionError(
                f"no case has {axis}={absent[0]}; there are: {listed(there)} (a row of an older suite is measured again with that suite: "
                "`git checkout` of the commit that the row names)"
            )
    if not kept:
        raise SelectionError("no case answers to all filters together")
    return Expansion(tuple(kept.values()), excluded, filtered, search)


def _searched(suite: Suite, wanted: Mapping[str, Sequence[Scalar]]) -> tuple[Search | None, dict[str, list[Any]]]:
    """What is searched, and the values that the searched axis has to begin with: the lowest, or those that a filter asks for."""
    search = suite.search
    if search is None:
        return None, {}
    if search.axis not in wanted:
        return search, {search.axis: [search.start]}
    values = [value for value in wanted[search.axis] if isinstance(value, int)]
    outside = [value for value in values if not search.start <= value <= search.stop]
    if outside:
        raise SelectionError(f"{search.axis}={outside[0]} is outside the search, which goes from {search.start} to {search.stop}")
    return None, {search.axis: values}


@dataclass(frozen=True, slots=True)
class _Cell:
    """One point with all its subjects. `mistake`: why it cannot be, if that is known already."""

    cases: tuple[Case, ...]
    label: str
    mistake: str | None


def _cells(
    suite: Suite, workload: Workload, catalogue: Catalogue, device: str, searched: Mapping[str, list[Any]]
) -> Iterator[_Cell]:
    axes = sweep_axes(workload, catalogue)
    by_dtype = _subjects(suite, workload, catalogue)
    choices: dict[str, list[Any]] = {name: list(values) for name, values in suite.sweep.items()}
    if "model" in choices:
        choices["model"] = [shape for value in choices["model"] for shape in _shapes(value, workload, catalogue)]
    choices |= searched
    count = math.prod(map(len, choices.values())) * sum(map(len, by_dtype.values()))
    if count > MAX_CASES:
        raise SuiteError([suite.problem("sweep", f"gives {count} cases; {MAX_CASES} at most")])
    timers = TIMERS["cuda" if device == "cuda" else "cpu"]
    for values in itertools.product(*choices.values()):
        chosen = dict(zip(choices, values, strict=True))
        label = " ".join(f"{name}={_name(value)}" for name, value in chosen.items())
        mistake = _resolve_batch(chosen, axes)
        timer = str(chosen.get("timer", timers[0]))
        if timer not in timers:
            mistake = mistake or f"the timer {timer} does not work on {device}; there: {listed(timers)}"
        for dtype, subjects in by_dtype.items():
            first = Case(
                workload=workload.name,
                workload_version=workload.version,
                subject=subjects[0],
                pass_=Pass(chosen["pass"]),
                dtype=dtype or chosen["dtype"],
                device=device,
                cache=str(chosen.get("cache", "cold" if device == "cuda" else "warm")),
                timer=timer,
                params=_params(chosen, workload, axes),
                world_size=int(chosen.get("world_size", 1)),
            )
            cases = tuple(dataclasses.replace(first, subject=subject) for subject in subjects)
            yield _Cell(cases, f"{label} dtype={dtype}" if dtype else label, mistake)


def _subjects(suite: Suite, workload: Workload, catalogue: Catalogue) -> dict[str | None, list[dict[str, str]]]:
    """The subjects, whole and in the workload's order of slots, by the dtype that they decide (None: the sweep says it)."""
    found: dict[str | None, list[dict[str, str]]] = {}
    for arm in arms_of(suite.to_data()):
        subject = {slot: arm.subject[slot] for slot in workload.slots}
        try:
            found.setdefault(dtype_of(workload, catalogue, subject), []).append(subject)
        except BadValue as error:
            raise SuiteError([Problem(str(error), suite.file, key=workload.dtype_slot)]) from error
    return found


@dataclass(frozen=True, slots=True)
class _Shape:
    label: str
    dims: Mapping[str, Scalar]


def _shapes(value: Any, workload: Workload, catalogue: Catalogue) -> Iterator[_Shape]:
    """`llama-3-8b`, or each of the shapes that `{from: llama-3-8b, head_dim: [64, 128]}` means."""
    if isinstance(value, str):
        yield _Shape(value, shape_dims(catalogue.models[value], workload))
        return
    shape = catalogue.models[value["from"]]
    varied = {field: numbers for field, numbers in value.items() if field != "from"}
    for numbers in itertools.product(*varied.values()):
        changes = dict(zip(varied, numbers, strict=True))
        label = f"{shape.name}({','.join(f'{field}={number}' for field, number in changes.items())})"
        yield _Shape(label, shape_dims(dataclasses.replace(shape, **changes), workload))


def _resolve_batch(chosen: dict[str, Any], axes: Mapping[str, Axis]) -> str | None:
    """Replaces `{"tokens": N}` by N / seq_len; says why where that is no whole number."""
    batch = chosen.get("batch")
    if not isinstance(batch, Mapping):
        return None
    tokens, seq_len = batch["tokens"], chosen.get("seq_len", axes["seq_len"].default)
    if isinstance(seq_len, int) and tokens % seq_len == 0:
        chosen["batch"] = tokens // seq_len
        return None
    chosen["batch"] = None
    return f"{tokens} tokens do not divide into sequences of {seq_len}"


def _params(chosen: Mapping[str, Any], workload: Workload, axes: Mapping[str, Axis]) -> dict[str, Scalar]:
    params: dict[str, Scalar] = {}
    shape = chosen.get("model")
    if isinstance(shape, _Shape):
        searched = {name: chosen[name] for name in shape.dims if name in chosen}
        params |= {"model": shape.label, **shape.dims, **searched}
    for param in workload.params:
        if param.only_where and params.get(param.only_where[0]) != param.only_where[1]:
            continue
        default = axes[param.name].default
        value = chosen.get(param.name, default if default is None else axes[param.name].convert(default))
        if param.untold is None or value != param.untold:
            params[param.name] = value
    limit = chosen.get(MEMORY_LIMIT, WHOLE)
    if limit != WHOLE:  # a case without a cap lacks the parameter, as those that were stored before there was one
        params[MEMORY_LIMIT_PARAM] = parse_size(limit)
    return params


def _name(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{value['tokens']} tokens"
    return value.label if isinstance(value, _Shape) else str(value)


def _holds(rule: Mapping[str, Any], case: Case) -> bool:
    """Whether every condition of the rule holds; one about a value that the cell has not got (a batch) does not."""
    return all(_condition_holds(condition, axis_value(case, axis)) for axis, condition in rule.items())


def _condition_holds(condition: Any, value: Scalar) -> bool:
    if value is None:
        return False
    if isinstance(condition, Mapping):
        return all(OPERATORS[operator](value, operand) for operator, operand in condition.items())
    if isinstance(condition, list | tuple):
        return value in condition
    return bool(value == condition)


def _mistake(cell: _Cell, asked: Sequence[Case], workload: Workload, search: Search | None) -> str | None:
    if cell.mistake:
        return cell.mistake
    cases = [asked[0]]
    if search is not None:
        cases.append(dataclasses.replace(asked[0], params={**asked[0].params, search.axis: search.stop}))
    try:
        for case in cases:
            workload.spec(case)
    except ValueError as error:
        return str(error) or "the workload refuses it"
    return None


def _cell_problem(suite: Suite, mistake: str, labels: Sequence[str]) -> Problem:
    more = f" and in {len(labels) - 1} more" if len(labels) > 1 else ""
    return suite.problem("sweep", f"{mistake} (in the cell {labels[0]}{more})")


def _typed_filters(filters: Sequence[Filter], axes: Mapping[str, Axis]) -> dict[str, tuple[Scalar, ...]]:
    wanted = {}
    problems = []
    for entry in filters:
        if entry.axis not in axes:
            bad = unknown_word("axis", entry.axis, list(axes))
            problems.append(Problem(str(bad), "--filter", key=entry.axis[:200], suggestion=bad.suggestion))
            continue
        values = []
        for text in entry.values:
            try:
                values.append(axes[entry.axis].parse(text))
            except BadValue as error:
                problems.append(Problem(str(error), "--filter", key=entry.axis, suggestion=error.suggestion))
        wanted[entry.axis] = tuple(values)
    if problems:
        raise SuiteError(problems)
    return wanted
