"""What differs between the environments of two sides: read before any row, since it may explain them all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bench.judge.evidence import Evidence, TrialRow
from bench.records import Environment, Scalar


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact with other values on the two sides. A side has several where its rows do not agree, none where it does not know."""

    hard: bool
    """Whether it forbids a comparison."""
    name: str
    first: tuple[Scalar, ...]
    second: tuple[Scalar, ...]


def values_words(values: Iterable[Scalar]) -> str:
    """What one side has of a fact."""
    return ", ".join(map(str, values)) or "not known"


def differences(first: Iterable[Environment], second: Iterable[Environment]) -> tuple[Difference, ...]:
    """The facts that differ, hard ones first, by name."""
    sides = [list(environments) for environments in (first, second)]
    found = []
    for hard in (True, False):
        facts = [_facts(side, hard=hard) for side in sides]
        for name in sorted(facts[0].keys() | facts[1].keys()):
            values = [tuple(sorted(side.get(name, ()), key=repr)) for side in facts]
            if values[0] != values[1]:
                found.append(Difference(hard, name, *values))
    return tuple(found)


def _facts(environments: Iterable[Environment], *, hard: bool) -> dict[str, set[Scalar]]:
    facts: dict[str, set[Scalar]] = {}
    for environment in environments:
        for name, value in (environment.hard if hard else environment.soft).items():
            facts.setdefault(name, set()).add(value)
    return facts


def compared_environments(first: Evidence, second: Evidence) -> tuple[Difference, ...]:
    """The differences between all environments of two sides."""
    return differences(first.environments.values(), second.environments.values())


def environments_of(evidence: Evidence, rows: Iterable[TrialRow]) -> list[Environment]:
    """The environments of some rows, each once."""
    return [evidence.environments[environment_id] for environment_id in {row.environment_id for row in rows}]


def gpus(evidence: Evidence) -> frozenset[str]:
    """UUIDs of the physical GPUs that its rows ran on."""
    return frozenset(row.gpu for row in evidence.trials if row.gpu is not None)
