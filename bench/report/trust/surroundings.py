"""Where rows were measured: the environment most of them share, and only what differs between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bench.records import Result, Scalar, canonical_json
from bench.report.numbers import units
from bench.report.numbers.units import shorten

DEVICES = "count"
"""How many devices a row took: cases on another number of ranks are other cases, and no other machine."""


def machine(hard: Mapping[str, Scalar]) -> frozenset[tuple[str, Scalar]]:
    """The hard facts of a row's machine, by which one is told from another."""
    return frozenset((name, fact) for name, fact in hard.items() if name != DEVICES)


@dataclass(frozen=True, slots=True)
class Difference:
    """An item with more than one value: each value with the number of rows that have it, the most frequent first."""

    name: str
    hard: bool
    values: tuple[tuple[str, int], ...]

    @property
    def forbids(self) -> bool:
        """Whether rows with other values may not be compared."""
        return self.hard and self.name != DEVICES

    @property
    def means(self) -> str:
        """The same in words."""
        if self.name == DEVICES:
            return "devices of a trial: those of another number are other cases"
        return "hard: rows are not comparable" if self.forbids else "soft: comparable with care"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The environments of one run's rows."""

    hard: tuple[tuple[str, str], ...]
    soft: tuple[tuple[str, str], ...]
    differences: tuple[Difference, ...]
    partly_known: tuple[str, ...]
    """Items that only some rows could tell, since a trial that ended early never asked."""
    usual: Mapping[str, Scalar]

    def beyond(self, first: Surroundings) -> Surroundings:
        """Without the items that another run has too, with the same value."""
        hard = tuple(item for item in self.hard if item not in first.hard)
        soft = tuple(item for item in self.soft if item not in first.soft)
        return replace(self, hard=hard, soft=soft)

    def without(self, first: Surroundings) -> tuple[str, ...]:
        """Items that those of another run have, and these do not."""
        own = {name for name, _ in (*self.hard, *self.soft)}
        return tuple(name for name, _ in (*first.hard, *first.soft) if name not in own)


def _items(results: Sequence[Result], hard: bool) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for result in results:
        for name, value in (result.environment.hard if hard else result.environment.soft).items():
            found.setdefault(name, Counter())[canonical_json(value)] += 1
    return found


def _most_frequent(counts: Counter[str]) -> str:
    return min(counts, key=lambda text: (-counts[text], text))


def surroundings(results: Sequence[Result]) -> Surroundings:
    """Gathers the environments of `results`."""
    import json

    shown: list[tuple[tuple[str, str], ...]] = []
    differences: list[Difference] = []
    partly: list[str] = []
    usual: dict[str, Scalar] = {}
    for hard in (True, False):
        items = _items(results, hard)
        lines = []
        for name, counts in sorted(items.items()):
            usual[name] = json.loads(_most_frequent(counts))
            lines.append((name, shorten(units.fact(name, usual[name]))))
            if len(counts) > 1:
                ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
                values = tuple((shorten(units.fact(name, json.loads(text))), n) for text, n in ordered)
                differences.append(Difference(name, hard, values))
            if counts.total() < len(results):
                partly.append(name)
        shown.append(tuple(lines))
    return Surroundings(shown[0], shown[1], tuple(differences), tuple(partly), usual)
