"""From which size of a model each stage of sharding holds less than the one before it, as measured and as planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from bench.plan.pays import LEAST_SAVING, LOOKED_AT, layers_from
from bench.plan.predict import specs
from bench.plan.spec import ModelSpec, PlanError
from bench.plan.stored import TARGETS
from bench.plan.weights import parameters
from bench.records import Status
from bench.report.drawing.figures import case_word
from bench.report.numbers import units
from bench.report.numbers.layout import Section
from bench.report.numbers.sharded import (
    SHAPE,
    WORLD_SIZE,
    alike,
    model_weights,
    model_words,
    places,
    rank_word,
    ranks_words,
    stage,
    weights_words,
)
from bench.report.numbers.summary import CaseSummary
from bench.report.views.tables import Cell, Head, Table
from bench.report.views.why_no_less import why_no_less

WHOLE = ("ddp", "zero0")
"""Who shares out the batch alone; the first that is there is what the first stage is held against."""
STAGES = ("zero1", "zero2", "zero3")
OTHERS = ("fsdp2",)
"""Held against what shares out the batch alone."""
MORE_RANKS = (4, 8, 16, 64)
MOST_GROUPS = 4


@dataclass(frozen=True, slots=True)
class Size:
    """The cases of one model, by what fills the slot."""

    where: str
    weights: int
    cases: Mapping[str, CaseSummary]

    @property
    def words(self) -> str:
        """`layers 8 (2.80 G weights)`."""
        return f"{self.where} ({weights_words(self.weights)})"


@dataclass(frozen=True, slots=True)
class Group:
    """What differs in the model and in the sharding alone, on several ranks."""

    at: str
    sizes: tuple[Size, ...]
    """The smallest first."""

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """What is held against what: each stage against the one before it."""
        there = {name for size in self.sizes for name in size.cases}
        whole = next((name for name in WHOLE if name in there), None)
        chain = [name for name in (whole, *STAGES) if name in there]
        beside = [(whole, name) for name in OTHERS if whole is not None and name in there]
        return (*pairwise(chain), *beside)


def groups(section: Section) -> list[Group]:
    """Those in which stages can be held against each other."""
    found: dict[tuple[object, ...], dict[tuple[object, ...], list[CaseSummary]]] = {}
    for case in section.in_order():
        if case.case.world_size > 1 and model_weights(case) is not None:
            shape = tuple((name, case.case.params.get(name)) for name in sorted(SHAPE))
            found.setdefault(alike(case, SHAPE), {}).setdefault(shape, []).append(case)
    made = [_group(section, list(shapes.values())) for shapes in found.values()]
    return [group for group in made if group.pairs]


def _group(section: Section, shapes: Sequence[Sequence[CaseSummary]]) -> Group:
    sizes = [
        Size(
            model_words(section, cases[0]) or str(cases[0].axis("model")),
            model_weights(cases[0]) or 0,
            {stage(case): case for case in cases},
        )
        for cases in shapes
    ]
    at = places(section, shapes[0][0], {*SHAPE, WORLD_SIZE})
    ranks = ranks_words(shapes[0][0])
    return Group(f"{ranks} · {at}" if at else ranks, tuple(sorted(sizes, key=lambda size: (size.weights, size.where))))


# --- who holds less --------------------------------------------------------------------------------------------------------------


def pays(other: CaseSummary, own: CaseSummary, metric: str) -> bool | None:
    """Whether `own` holds less; None where that is not known. What runs where the other is out of memory holds less."""
    if own.usable and other.status is Status.OOM:
        return True
    if own.status is Status.OOM and other.usable:
        return False
    ratio = _ratio(other, own, metric)
    return None if ratio is None else ratio < 1 - LEAST_SAVING


def _ratio(other: CaseSummary, own: CaseSummary, metric: str) -> float | None:
    first, second = other.values.get(metric), own.values.get(metric)
    if first is None or second is None or not (other.usable and own.usable) or first.median <= 0:
        return None
    return second.median / first.median


def stage_tables(section: Section, row_ids: Mapping[tuple[str, str], str]) -> list[Table]:
    """One for each group of cases."""
    return [_table(group, section.memory, row_ids) for group in groups(section)[:MOST_GROUPS]]


def _table(group: Group, metric: str, row_ids: Mapping[tuple[str, str], str]) -> Table:
    before = {own: other for other, own in group.pairs}
    names = list(dict.fromkeys(name for pair in group.pairs for name in pair))
    most = max((c.values[metric].median for size in group.sizes for c in size.cases.values() if metric in c.values), default=0.0)
    heads = (Head("model"), *(Head(name, f"below: × of {before[name]}" if name in before else "") for name in names))
    lines = tuple(
        (
            Cell(size.where, weights_words(size.weights)),
            *(_cell(size, name, before.get(name), metric, most, row_ids) for name in names),
        )
        for size in group.sizes
    )
    words = [text for pair in group.pairs for text in _words(group, *pair, metric)]
    caption = (
        f"Highest peak of any rank, and below it × of the stage before. Less by {units.percent(LEAST_SAVING)} or more is tinted. "
        "Bars begin at zero; shorter is better."
    )
    return Table(f"From which size each stage pays, on {group.at}", caption, heads, lines, words=tuple(words), kind="stages")


def _cell(size: Size, name: str, before: str | None, metric: str, most: float, row_ids: Mapping[tuple[str, str], str]) -> Cell:
    case = size.cases.get(name)
    if case is None:
        return Cell("not run", tint="none")
    link = row_ids.get((case.case.key, case.arm))
    value = case.values.get(metric)
    if not case.usable or value is None:
        return Cell(case_word(case), tint="word", link=link)
    other = size.cases.get(before) if before else None
    ratio = None if other is None else _ratio(other, case, metric)
    less = None if other is None else pays(other, case, metric)
    note = "" if ratio is None else f"{units.ratio(ratio)} of {before}"
    tint = "" if less is None else "faster" if less else "slower" if ratio is not None and ratio > 1 + LEAST_SAVING else ""
    return Cell(units.size(value.median), note, tint, value.median / most if most > 0 else None, link)


# --- sentences -------------------------------------------------------------------------------------------------------------------


def _words(group: Group, other: str, own: str, metric: str) -> list[str]:
    known = [
        (size, found)
        for size in group.sizes
        if other in size.cases and own in size.cases and (found := pays(size.cases[other], size.cases[own], metric)) is not None
    ]
    if not known:
        return []
    paying = [size for size, found in known if found]
    not_paying = [size for size, found in known if not found]
    first = next((size for place, (size, found) in enumerate(known) if found and all(later for _, later in known[place:])), None)
    if len(known) == 1:
        measured = f"holds {'less' if paying else 'no less'} than {other} at {known[0][0].words}"
    elif not not_paying:
        measured = f"holds less than {other} at every size measured, from {known[0][0].words} on"
    elif first is not None:
        measured = f"holds less than {other} from {first.words} on, and no less at {not_paying[-1].words}"
    elif paying:
        measured = f"holds less than {other} at {', '.join(size.words for size in paying)}, and no less at {not_paying[-1].words}"
    else:
        measured = f"holds no less than {other} at any size measured, up to {not_paying[-1].words}"
    at = not_paying[-1] if not_paying else known[0][0]
    words = [f"{own} {measured}{_planned(at, other, own)}."]
    if not_paying:
        words += why_no_less(at.cases[other], at.cases[own], at.words, metric)
    return words


def _planned(size: Size, other: str, own: str) -> str:
    """What the memory model says of more and fewer layers of such a model, and on more ranks where it never pays on these."""
    first, second = size.cases[other], size.cases[own]
    try:
        model, one = specs({**first.case.params, WORLD_SIZE: first.case.world_size}, first.case.subject)
        _, two = specs({**second.case.params, WORLD_SIZE: second.case.world_size}, second.case.subject)
        target = TARGETS[first.case.device]
        layers = layers_from(model, one, two, target)
        if layers is None:
            more = (ranks for ranks in MORE_RANKS if ranks > one.world_size)
            found = ((ranks, layers_from(model, *(replace(way, world_size=ranks) for way in (one, two)), target)) for ranks in more)
            ranks, layers = next((entry for entry in found if entry[1] is not None), (0, None))
            words = f"; bench plan: with layers like these not up to {LOOKED_AT[-1]}"
            return words if layers is None else f"{words}; on {ranks} {rank_word(first)}s from {_layers(model, layers)}"
    except (PlanError, KeyError, TypeError, ValueError):
        return ""  # no formulas; TypeError, ValueError: an imported row may lack sizes, or hold what is none
    if layers == LOOKED_AT[0]:
        return "; bench plan: with layers like these from the first on"
    return f"; bench plan: with layers like these from {_layers(model, layers)}"


def _layers(model: ModelSpec, layers: int) -> str:
    """`27 on (6.94 G weights)`."""
    return f"{layers} on ({weights_words(parameters(replace(model, layers=layers)))})"
