"""The nouns, frozen: what a suite expands to, what a trial answers, and where it was measured.

Everything here is plain data that crosses a process or a database boundary. `dump` and `load` turn any record into
JSON-ready data and back; keys are SHA-256 of canonical JSON, so two machines that never met agree on them.

Units: seconds, bytes, and counts. GiB and ms exist only in the report.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

RECORD_VERSION = 1
"""Raised when the meaning of a stored record changes."""

METHOD_VERSION = 2
"""Raised when the way of measuring changes, so that old and new numbers never share a series.

1: the device was kept busy for at most 5 ms until the host had enqueued a call. 2: for at most 20 ms, so that calls which enqueue
for longer than 5 ms are timed without launch gaps too.
"""

NO_METHOD_OF_OURS = 0
"""The version in rows that another tool measured, or an audit: they are never held against what suites measured."""

Scalar = str | int | float | bool | None
Json = Any

TrialKey = tuple[str, str, int, int]
"""(case key, arm, index, attempt): unique within a run."""

MEMORY_LIMIT_PARAM = "memory_limit_bytes"
"""The parameter of a case with a cap on what it may allocate on its device; a case without one lacks it."""

FIXED_AXES = ("pass", "dtype", "device", "cache", "timer", "world_size")
"""Axes that every case has, beside its workload, subject and parameters."""


EXTERNAL = "external"
"""The reason of a run of somebody's own script: an audit, which is never compared with what suites measured."""


def utc_now(timespec: str = "milliseconds") -> str:
    """The time now as records hold it: ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec=timespec)


class Status(StrEnum):
    """How a trial ended. All but `OK` carry a reason, and all are rows."""

    OK = "ok"
    UNAVAILABLE = "unavailable"
    UNSUPPORTED = "unsupported"
    INCORRECT = "incorrect"
    OOM = "oom"
    FAILED = "failed"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    INVALID = "invalid"


class Pass(StrEnum):
    """Which part of the computation is timed.

    FORWARD runs without autograd. BACKWARD times the backward alone, after an untimed forward. FORWARD_BACKWARD times both, as in
    training. STEP is one update of an optimizer, QUANTIZE the conversion of a layer: neither runs under autograd.
    """

    FORWARD = "forward"
    BACKWARD = "backward"
    FORWARD_BACKWARD = "forward_backward"
    STEP = "step"
    QUANTIZE = "quantize"

    @property
    def differentiates(self) -> bool:
        return self in (Pass.BACKWARD, Pass.FORWARD_BACKWARD)


def canonical_json(data: Json) -> str:
    """JSON with sorted keys and no spaces. Raises ValueError on NaN and infinities."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def fingerprint(data: Json) -> str:
    """SHA-256, in hex, of the canonical JSON of `data`."""
    return hashlib.sha256(canonical_json(data).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Case:
    """One cell of the matrix: what is computed, by whom, and in which regime. Nothing that only changes precision."""

    workload: str
    workload_version: int
    subject: Mapping[str, str]
    """Slot to implementation."""
    pass_: Pass
    dtype: str
    device: str
    """`cpu`, `cuda`, or `cpu-interpreter` (correctness and memory only, never speed)."""
    cache: str
    """`warm` or `cold`: whether the caches are flushed before each sample."""
    timer: str
    """`wall` on a CPU; `events`, `cuda_graph` or `wall` on CUDA."""
    params: Mapping[str, Scalar]
    """The workload's parameters with the dimensions of the model shape, all resolved."""
    world_size: int = 1

    def point_data(self) -> dict[str, Json]:
        """The case without its subject: subjects are compared within it."""
        return {
            "workload": self.workload,
            "workload_version": self.workload_version,
            "pass": str(self.pass_),
            "dtype": self.dtype,
            "device": self.device,
            "cache": self.cache,
            "timer": self.timer,
            "params": dict(self.params),
            "world_size": self.world_size,
        }

    @property
    def point_key(self) -> str:
        return fingerprint(self.point_data())

    @property
    def key(self) -> str:
        return fingerprint({**self.point_data(), "subject": dict(self.subject)})

    @property
    def subject_label(self) -> str:
        """The implementation's name, or `slot=name` for each slot when there are several."""
        if len(self.subject) == 1:
            return next(iter(self.subject.values()))
        return " ".join(f"{slot}={name}" for slot, name in sorted(self.subject.items()))

    def axis_value(self, axis: str) -> Scalar:
        """The value of an axis as suites and filters name it; raises KeyError for a name that this case lacks."""
        fixed: dict[str, Scalar] = {
            "workload": self.workload,
            "pass": str(self.pass_),
            "dtype": self.dtype,
            "device": self.device,
            "cache": self.cache,
            "timer": self.timer,
            "world_size": self.world_size,
        }
        if axis in fixed:
            return fixed[axis]
        if axis in self.subject:
            return self.subject[axis]
        return self.params[axis]

    def axis_or_none(self, axis: str) -> Scalar:
        """`axis_value`, or None for a name that this case lacks."""
        try:
            return self.axis_value(axis)
        except KeyError:
            return None


@dataclass(frozen=True, slots=True)
class Protocol:
    """What only changes precision. Never part of a key."""

    trials: int = 5
    timeout_s: float = 120.0
    min_samples: int = 30
    max_samples: int = 10_000
    target_relative_noise: float = 0.005
    """Stop sampling when the standard error of the mean, relative to the mean, is below this."""
    min_sampling_s: float = 0.1
    max_sampling_s: float = 3.0
    max_warmup_s: float = 2.0
    host_memory_limit_bytes: int | None = None
    """Cap on the private memory of a CPU trial, all its ranks together; None means 90 % of what is available when it starts."""
    probe: bool = False
    """Whether a case fits is all that is asked: the small check, a first call, and one that is timed while its peak is counted."""

    def __post_init__(self) -> None:
        if self.trials < 1 or self.min_samples < 1 or self.max_samples < self.min_samples:
            raise ValueError("protocol needs trials >= 1 and 1 <= min_samples <= max_samples")
        if min(self.timeout_s, self.max_sampling_s, self.max_warmup_s) <= 0:
            raise ValueError("protocol times must be positive")


_NEVER_NEGATIVE = frozenset({"s", "byte", "cycle", "Hz", "count", "ratio", "J"})
_SIGNED_METRICS = frozenset({"device_used_bytes"})
"""A growth as the driver sees it: other processes may give memory back meanwhile."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Raw numbers of one metric in one trial, in the order in which they were taken."""

    metric: str
    unit: str
    samples: tuple[float, ...]
    scope: str = "trial"
    """`trial`, or `rank:0`, `rank:1` ... where ranks differ."""
    calls_per_sample: int = 1
    """A sample is the mean of this many back-to-back calls (1 unless one call is near the timer's resolution)."""
    note: str | None = None
    """What this number cannot see, if anything."""

    def __post_init__(self) -> None:
        if not self.samples:
            raise ValueError(f"{self.metric}: a measurement without samples; store a status instead")
        if not all(math.isfinite(sample) for sample in self.samples):
            raise ValueError(f"{self.metric}: samples must be finite; store a status instead")
        if self.unit in _NEVER_NEGATIVE and self.metric not in _SIGNED_METRICS and min(self.samples) < 0:
            raise ValueError(f"{self.metric}: a sample of {min(self.samples):g} {self.unit} is negative, which nothing can be")


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison with the reference. The three numbers are kept whether it passed or not.

    A tensor passes when `error <= limit`, with limit = 2 x plain_error + 8 ulp of the reference's root mean square
    + 32 eps of the accumulator (fp32; fp64 for fp64) x the reference's largest value. Where the implementation declares a tolerance
    (it computes something else on purpose, as quantization does), errors are relative root mean squares and the limit is that.
    """

    tensor: str
    """`out`, `grad_q` ...; or the name of a property, such as `dropout_rate`."""
    at: str
    """`small` (whole, small shape), `measured` (a slice of the measured shape), `isolated` (all else taken out of it) or `finite`."""
    error: float | None
    """Largest absolute difference to the float64 reference, or the relative root mean square; None where it is not finite."""
    plain_error: float | None
    """The same for plain PyTorch in the case's dtype: the larger of two, as given and with each input's last bit flipped at random."""
    limit: float | None
    passed: bool
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """What ran, against what the implementation declares."""

    verdict: str
    """`proved`, `disproved`, `unknown` (no profiler works here) or `not_declared`."""
    observed: tuple[str, ...] = ()
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """Work of one call by the workload's formulas, whatever the implementation really does."""

    flops: int | None = None
    bytes: int | None = None
    """Fewest bytes that must move: each input read once, each output written once."""
    tokens: int | None = None


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
class Trial:
    """Where a result belongs in its run: the natural key of a row is (run, case, arm, index, attempt)."""

    case: Case
    index: int
    block: int
    """A block is a point: all its subjects and trials are interleaved."""
    position: int
    """Order inside the block, from 0."""
    arm: str = "-"
    pair_index: int | None = None
    attempt: int = 0
    """Raised when a block is started anew on another device."""

    @property
    def key(self) -> TrialKey:
        """Its natural key within a run. Hashes the case: keep it where it is asked for often."""
        return self.case.key, self.arm, self.index, self.attempt


@dataclass(frozen=True, slots=True)
class Request:
    """What the parent asks of the worker. Read from `request.json` in the trial's directory."""

    case: Case
    protocol: Protocol
    seed: int
    threads: int
    plugins: tuple[str, ...] = ()
    """Absolute paths of lone-file plug-ins."""
    cold_caches: bool = True
    """True for a case's first trial of a run: its compile time is the cold one."""
    verify: bool = True
    """True for a case's first trial of a run: compare with the reference and prove what ran. The others only look for finiteness."""
    device_index: int = 0
    device_uuid: str | None = None
    """Of the GPU whose lock the parent holds: the worker refuses another one. None on a CPU."""
    weights: str | None = None
    """Absolute path of a folder of real weights; the case names them by their content."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the worker answers, in `reply.json` of the trial's directory (one file a rank, `reply.<rank>.json`, above one rank)."""

    status: Status
    reason: str | None = None
    error_type: str | None = None
    traceback: str | None = None
    phase: str | None = None
    """The phase in which it stopped, where it did not finish."""
    measurements: tuple[Measurement, ...] = ()
    checks: tuple[Check, ...] = ()
    proof: Proof | None = None
    cost: Cost | None = None
    runtime: Mapping[str, Scalar] = field(default_factory=dict)
    """Facts that only the worker can know (versions of loaded libraries, device properties); they join `soft`."""
    conditions: Mapping[str, Json] = field(default_factory=dict)
    """What was read beside the samples, inside the worker (clock blocks, flags such as `launch_bound`)."""
    rank: int = 0


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


class RunState(StrEnum):
    """How far a run came. FINISHED and BUDGET are at rest; all but FINISHED can be resumed."""

    RUNNING = "running"
    FINISHED = "finished"
    BUDGET = "budget"
    INTERRUPTED = "interrupted"
    BROKEN = "broken"


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
    reason: str = "manual"
    harness_version: str = ""
    parent_run_id: str | None = None


R = TypeVar("R")


_ADAPTERS: dict[Any, Any] = {}


def _adapter(cls: Any) -> Any:
    """pydantic's validator of a record; building one costs some ten milliseconds, so each is kept."""
    from pydantic import TypeAdapter

    if cls not in _ADAPTERS:
        _ADAPTERS[cls] = TypeAdapter(cls)
    return _ADAPTERS[cls]


def dump(record: Any) -> Json:
    """JSON-ready data of a record; raises ValueError on NaN and infinities."""
    return _adapter(type(record)).dump_python(record, mode="json")


def load(cls: type[R], data: Json) -> R:
    """The record of `cls` in `data`; raises pydantic's ValidationError (a ValueError) where it does not fit."""
    record: R = _adapter(cls).validate_python(data)
    return record


def load_json(cls: type[R], text: str | bytes) -> R:
    """`load` from JSON text."""
    record: R = _adapter(cls).validate_json(text)
    return record
