"""What is kept: a trial as one row, the run that it belongs to, and what both were measured on and of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.records.answered import Check, Cost, Measurement, Proof
from bench.records.asked import Case, Trial
from bench.records.json_form import fingerprint
from bench.records.words import MANUAL, METHOD_VERSION, Json, RunState, Scalar, Status


@dataclass(frozen=True, slots=True)
class Environment:
    """Two sets of facts. Different `hard` facts: incomparable. Different `soft` facts: comparable, with a banner."""

    hard: Mapping[str, Scalar]
    soft: Mapping[str, Scalar]

    @property
    def hard_hash(self) -> str:
        return fingerprint(dict(self.hard))

    @property
    def soft_hash(self) -> str:
        return fingerprint(dict(self.soft))


@dataclass(frozen=True, slots=True)
class RevisionItem:
    """Version and commit of one package or path under test."""

    name: str
    kind: str
    """`package` or `path`."""
    version: str | None = None
    commit: str | None = None
    dirty: bool | None = None
    diff_hash: str | None = None
    """SHA-256 of the uncommitted difference, so that two dirty trees can be told apart."""


@dataclass(frozen=True, slots=True)
class Result:
    """One row: a trial with its answer, its evidence and its surroundings."""

    id: str
    run_id: str
    trial: Trial
    status: Status
    reason: str | None
    environment: Environment
    started_at: str
    """UTC, ISO 8601."""
    duration_s: float | None
    """None where an imported source does not tell."""
    seed: int | None
    """None where an imported source does not tell."""
    command: str
    """What a stranger types to measure this row again."""
    error_type: str | None = None
    phase: str | None = None
    rank: int | None = None
    """The rank that decided the status, where there are several."""
    measurements: tuple[Measurement, ...] = ()
    checks: tuple[Check, ...] = ()
    proof: Proof | None = None
    cost: Cost | None = None
    conditions: Mapping[str, Json] = field(default_factory=dict)
    log: str = ""
    method_version: int = METHOD_VERSION
    harness_version: str = ""
    excluded_reason: str | None = None

    def __post_init__(self) -> None:
        if (self.status is Status.OK) == bool(self.reason):
            raise ValueError("a status other than ok needs a reason, and ok has none")

    @property
    def case(self) -> Case:
        return self.trial.case

    def measurement(self, metric: str, scope: str = "trial") -> Measurement | None:
        """The measurement of `metric`, or None where this row has none."""
        return next((m for m in self.measurements if m.metric == metric and m.scope == scope), None)


@dataclass(frozen=True, slots=True)
class Run:
    """One invocation: what was asked, of which revision, and how far it came."""

    id: str
    suite: str
    suite_file: str | None
    suite_data: Mapping[str, Json]
    """The suite after profile and --set, as it was expanded: enough to expand it again."""
    options: Mapping[str, Json]
    """Filters, shard, budget, device, plug-ins: what `--resume` needs."""
    question: str
    seed: int | None
    """None where an imported source does not tell."""
    command: str
    device: str
    started_at: str
    state: RunState
    planned_trials: int
    revision: tuple[RevisionItem, ...] = ()
    label: str | None = None
    finished_at: str | None = None
    reason: str = MANUAL
    harness_version: str = ""
    parent_run_id: str | None = None
