"""What a row of `train_step` stores of the prediction that was made before it ran, and reading it again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.plan.moments import Target
from bench.plan.predict import predict
from bench.plan.spec import PlanError
from bench.plan.terms import CAUSES, PHASES
from bench.records import Case, Json

PREDICTED = "predicted"
"""Under this name it lies among the row's conditions."""
WORKLOAD = "train_step"
AWAY = ("host", "host_pinned", "disk")
"""In host memory, the page-locked part of it, in files."""
TARGETS: Mapping[str, Target] = {"cuda": Target(), "cpu": Target(cuda=False)}
"""Kind of device to the kernels that are predicted for."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A prediction as a row has it."""

    peak_bytes: int
    phase: str
    causes: Mapping[str, int]
    phases: Mapping[str, int] = field(default_factory=dict)
    """The highest of each phase; empty in rows of older versions."""
    away: Mapping[str, int] = field(default_factory=dict)
    """By `AWAY`, only where something lies there; empty in rows of older versions too."""


def foretold_of(case: Case) -> dict[str, Json]:
    """A condition for the row: peak, phase, bytes by cause, what lies away, the highest of each phase, notes; or `refused`, with why.

    Nothing for a case that the memory model does not speak of.
    """
    target = TARGETS.get(case.device)
    if case.workload != WORKLOAD or target is None:
        return {}
    try:
        found = predict({**case.params, "world_size": case.world_size}, case.subject, target)
    except PlanError as error:
        return {PREDICTED: {"refused": str(error)}}
    peak = found.peak
    causes: dict[str, Json] = dict(peak.by_category())
    told: dict[str, Json] = {"peak_bytes": peak.size_bytes, "phase": peak.phase, "moment": peak.name, "causes": causes}
    away: dict[str, Json] = {
        name: size for name, size in zip(AWAY, (found.host_bytes, found.pinned_bytes, found.disk_bytes), strict=True) if size
    }
    kept: dict[str, Json] = {"away": away} if away else {}
    return {PREDICTED: {**told, **kept, "phases": dict(found.by_phase()), "notes": list(found.notes)}}


def foretold_bytes(case: Case) -> int | None:
    """The peak alone; None for a case that the memory model does not speak of. Raises PlanError for one that it refuses."""
    target = TARGETS.get(case.device)
    if case.workload != WORKLOAD or target is None:
        return None
    return predict({**case.params, "world_size": case.world_size}, case.subject, target).peak.size_bytes


def stored(conditions: Mapping[str, Any]) -> Stored | None:
    """What a row's conditions have of it; None where there is none, it was refused, or it is of another form."""
    kept = conditions.get(PREDICTED)
    if not isinstance(kept, Mapping) or not isinstance(kept.get("causes"), Mapping):
        return None
    peak, phase, causes = kept.get("peak_bytes"), kept.get("phase"), kept["causes"]
    phases, away = kept.get("phases", {}), kept.get("away", {})
    if not isinstance(peak, int) or not isinstance(phase, str) or not isinstance(phases, Mapping) or not isinstance(away, Mapping):
        return None
    if not all(isinstance(size, int) for size in (*causes.values(), *phases.values(), *away.values())):
        return None
    return Stored(peak, phase, _in_order(causes, CAUSES), _in_order(phases, PHASES), _in_order(away, AWAY))


def _in_order(sizes: Mapping[str, int], names: Iterable[str]) -> dict[str, int]:
    return {name: sizes[name] for name in names if name in sizes}
