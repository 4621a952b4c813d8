"""Decides how the cases of a run are laid out: which axis runs along x, which axes make panels, which merely follow.

An axis is kept only where it is needed to tell points apart: with `batch: {tokens: N}` the batch follows the sequence length, and
the heads follow the model. What follows is said once, in words, and is no panel of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.records import FIXED_AXES, MEMORY_LIMIT_PARAM, Pass, Run, Scalar
from bench.report.numbers.memory import compared_memory
from bench.report.numbers.summary import CaseSummary, is_baseline
from bench.suite.axes import MEMORY_LIMIT, spelled_axis

PREFERRED_SWEPT = ("seq_len", "tokens", "kv_len", "hidden_size", "intermediate_size", "vocab_size", "batch", "world_size")
PASS_ORDER = tuple(str(pass_) for pass_ in Pass)
LARGEST_SIZE = 1e30
"""An axis of numbers beyond makes panels instead: an imported row may hold one that is no float."""
SEVERAL = "{axis} follows from "
"""How the words begin on an axis that follows from several others together."""
MAX_LINES = 8
"""Lines that one chart carries before they cannot be told apart."""


@dataclass(frozen=True, slots=True)
class Facet:
    """The cases that share all but the subject and the swept axis."""

    values: Mapping[str, Scalar]
    """The facet axes with their values here."""
    xs: tuple[float | int | None, ...]
    """Values of the swept axis, ascending; `(None,)` where nothing is swept."""
    labels: tuple[str, ...]
    """Subjects, in the suite's order."""
    cells: Mapping[tuple[str, float | int | None], CaseSummary]
    baseline: str | None
    """The label that ratios are taken to, or None where the suite names none or it has no row here."""
    memory: str
    """The metric by which memory is compared: the same in all panels of a workload."""

    @property
    def title(self) -> str:
        return " · ".join(value_text(axis, value) for axis, value in self.values.items())

    def row(self, label: str) -> list[CaseSummary]:
        """The cells of one subject, by ascending x."""
        return [self.cells[label, x] for x in self.xs if (label, x) in self.cells]


@dataclass(frozen=True, slots=True)
class Section:
    """One workload of one run."""

    run: Run
    workload: str
    workload_version: int
    cases: tuple[CaseSummary, ...]
    swept: str | None
    facet_axes: tuple[str, ...]
    followers: Mapping[str, str]
    """Axes that vary but follow from the others, with words that say how."""
    fixed: Mapping[str, Scalar]
    facets: tuple[Facet, ...]
    labels: tuple[str, ...]
    memory: str
    """The metric by which memory is compared."""

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that a table needs as columns."""
        return (*self.facet_axes, self.swept) if self.swept else self.facet_axes

    def differing_within(self, facet: Facet) -> tuple[str, ...]:
        """Of axes that follow from several others the values at each size of one panel, in words, where they differ there."""
        found = []
        for axis in self.followers if self.swept else ():
            values = {x: {cell.axis(axis) for label in facet.labels if (cell := facet.cells.get((label, x)))} for x in facet.xs}
            one_each = all(len(own) == 1 for own in values.values())
            if one_each and len(set().union(*values.values())) > 1 and self.followers[axis].startswith(SEVERAL.format(axis=axis)):
                pairs = ", ".join(f"{x}→{_plainly(next(iter(own)))}" for x, own in values.items())
                found.append(f"{axis} follows {self.swept}: {pairs}")
        return tuple(found)

    def in_order(self) -> Iterator[CaseSummary]:
        """The cases as a reader expects them: panel by panel, size by size, subjects as the suite lists them."""
        for facet in self.facets:
            for x in facet.xs:
                yield from (facet.cells[label, x] for label in facet.labels if (label, x) in facet.cells)


SELF_EXPLAINING = frozenset({"pass", "dtype", "model", "mask", "device"})


def value_text(axis: str, value: Scalar) -> str:
    """A value as a title shows it: with the axis' name unless the value explains itself."""
    axis, value = spelled_axis(axis, value)
    if value is None:
        return f"{axis} not set"
    text = _plainly(value)
    if axis == "pass":
        return text.replace("_", " + ")
    return text if axis in SELF_EXPLAINING and isinstance(value, str) else f"{axis.replace('_', ' ')} {text}"


def _plainly(value: Scalar) -> str:
    return "not set" if value is None else ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _is_number(value: Scalar) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _order_key(value: Scalar) -> tuple[int, float, str]:
    if value in PASS_ORDER:
        return (0, float(PASS_ORDER.index(str(value))), "")
    return (0, value, "") if isinstance(value, int | float) else (1, 0.0, str(value))


def _sweep_order(run: Run) -> list[str]:
    sweep = run.suite_data.get("sweep")
    axes = [str(axis) for axis in sweep] if isinstance(sweep, Mapping) else []
    return [MEMORY_LIMIT_PARAM if axis == MEMORY_LIMIT else axis for axis in axes]


def searched_axis(run: Run) -> str | None:
    """The axis whose largest value the run's suite searches."""
    search = run.suite_data.get("search")
    axis = search.get("axis") if isinstance(search, Mapping) else None
    return axis if isinstance(axis, str) else None


def _swept_axis(columns: Mapping[str, list[Scalar]], sweep: Sequence[str], searched: str | None) -> str | None:
    """The searched one if there is one. A cap on memory makes panels: what fits grows with it, and the time does not."""

    def rank(axis: str) -> tuple[bool, int, int, int, str]:
        preferred = PREFERRED_SWEPT.index(axis) if axis in PREFERRED_SWEPT else len(PREFERRED_SWEPT)
        listed = sweep.index(axis) if axis in sweep else len(sweep)
        return (axis != searched, -len(set(columns[axis])), preferred, listed, axis)

    # A logarithmic axis has no zero, so an axis such as dropout makes panels instead.
    numeric = [
        axis
        for axis, values in columns.items()
        if axis != MEMORY_LIMIT_PARAM
        and len(set(values)) > 1
        and all(_is_number(v) and isinstance(v, int | float) and 0 < v < LARGEST_SIZE for v in values)
    ]
    return min(numeric, key=rank, default=None)


def _follows(axis: str, kept: Sequence[str], columns: Mapping[str, list[Scalar]]) -> bool:
    known: dict[tuple[Scalar, ...], Scalar] = {}
    for position, value in enumerate(columns[axis]):
        where = tuple(columns[other][position] for other in kept)
        if known.setdefault(where, value) != value:
            return False
    return True


def _follower_text(axis: str, kept: Sequence[str], columns: Mapping[str, list[Scalar]]) -> str:
    leader = next((other for other in kept if _follows(axis, [other], columns)), None)
    if leader is None:
        return f"{SEVERAL.format(axis=axis)}{', '.join(kept)}"
    if columns[leader] == columns[axis]:
        return f"{axis} equals {leader}"
    pairs = sorted(set(zip(columns[leader], columns[axis], strict=True)), key=lambda pair: _order_key(pair[0]))
    shown = ", ".join(f"{_plainly(a)}→{_plainly(b)}" for a, b in pairs[:8])
    return f"{axis} follows {leader}: {shown}{' …' if len(pairs) > 8 else ''}"


def _facet(run: Run, values: Mapping[str, Scalar], cases: Sequence[CaseSummary], swept: str | None, memory: str) -> Facet:
    cells: dict[tuple[str, float | int | None], CaseSummary] = {}
    for summary in cases:
        x = summary.axis(swept) if swept else None
        cells[summary.label, x if isinstance(x, int | float) else None] = summary
    xs = sorted({x for _, x in cells}, key=lambda x: -1.0 if x is None else x)
    labels = tuple(dict.fromkeys(summary.label for summary in cases))
    baseline = next((s.label for s in cases if is_baseline(run, s.case)), None)
    return Facet(dict(values), tuple(xs), labels, cells, baseline, memory)


def _dtype_of_subject(run: Run, cases: Sequence[CaseSummary]) -> bool:
    """Whether a slot of the subject says the dtype: then it tells no points apart, and subjects of several dtypes stand side by side."""
    if not isinstance(run.suite_data.get("defaults"), Mapping):
        return False
    by_label: dict[str, set[str]] = {}
    for case in cases:
        by_label.setdefault(case.label, set()).add(case.case.dtype)
    return len(set().union(*by_label.values())) > 1 and all(len(dtypes) == 1 for dtypes in by_label.values())


def _section(run: Run, workload: str, cases: list[CaseSummary]) -> Section:
    sweep = _sweep_order(run)
    params = sorted({name for summary in cases for name in summary.case.params})
    params.sort(key=lambda name: (sweep.index(name) if name in sweep else len(sweep), name))
    strings_first = sorted(params, key=lambda name: not any(isinstance(s.axis(name), str) for s in cases))
    columns = {axis: [summary.axis(axis) for summary in cases] for axis in (*FIXED_AXES, *strings_first)}
    of_subject = ("dtype",) if _dtype_of_subject(run, cases) else ()
    varying = [axis for axis, values in columns.items() if len(set(values)) > 1 and axis not in of_subject]
    searched = searched_axis(run)
    swept = _swept_axis(columns, sweep, searched)
    kept = [swept] if swept else []
    for axis in varying:
        # A search asks each subject at each point for values of its own: that one value was asked under one cap alone is chance.
        leaders = [other for other in kept if other != searched] if axis in sweep else kept
        if axis != swept and not _follows(axis, leaders, columns):
            kept.append(axis)
    facet_axes = tuple(axis for axis in kept if axis != swept)
    followers = {axis: _follower_text(axis, kept, columns) for axis in varying if axis not in kept}
    followers |= {axis: f"{axis} follows from the subject" for axis in of_subject}
    groups: dict[tuple[Scalar, ...], list[CaseSummary]] = {}
    for summary in cases:
        groups.setdefault(tuple(summary.axis(axis) for axis in facet_axes), []).append(summary)
    ordered = sorted(groups.items(), key=lambda group: [_order_key(value) for value in group[0]])
    memory = compared_memory(cases)
    return Section(
        run=run,
        workload=workload,
        workload_version=max(summary.case.workload_version for summary in cases),
        cases=tuple(cases),
        swept=swept,
        facet_axes=facet_axes,
        followers=followers,
        fixed={axis: values[0] for axis, values in columns.items() if len(set(values)) == 1},
        facets=tuple(_facet(run, dict(zip(facet_axes, values, strict=True)), group, swept, memory) for values, group in ordered),
        labels=tuple(dict.fromkeys(summary.label for summary in cases)),
        memory=memory,
    )


def sections(run: Run, cases: Sequence[CaseSummary]) -> list[Section]:
    """The workloads of one run, each laid out by itself."""
    by_workload: dict[str, list[CaseSummary]] = {}
    for summary in cases:
        by_workload.setdefault(summary.case.workload, []).append(summary)
    return [_section(run, workload, group) for workload, group in by_workload.items()]
