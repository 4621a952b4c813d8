"""What is asked: a case, how precisely, its place in a run, and the request that goes to the worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench.records.json_form import fingerprint
from bench.records.words import INTERPRETER, Json, Pass, Scalar, TrialKey


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
    """One of `DEVICES`."""
    cache: str
    """`warm` or `cold`: whether the caches are flushed before each sample."""
    timer: str
    """`wall` on a CPU; `events`, `cuda_graph` or `wall` on CUDA."""
    params: Mapping[str, Scalar]
    """The workload's parameters with the dimensions of the model shape, all resolved."""
    world_size: int = 1

    @property
    def interpreted(self) -> bool:
        """Whether a device's kernels are interpreted: then no time means anything."""
        return self.device == INTERPRETER

    @property
    def hardware(self) -> str:
        """One of `HARDWARE`: what computes."""
        return "cpu" if self.interpreted else self.device

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
