"""What steps took, as a probe reports it: their time and batches, and the peak by cause and phase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Cause:
    """Part of a peak."""

    cause: str
    """As `bench.metrics.PEAK_CAUSES` names them."""
    bytes: int


@dataclass(frozen=True, slots=True)
class Place:
    where: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Memory:
    """The peak of one profiled step, and what it consisted of."""

    device: str
    """`cuda` or `cpu`."""
    peak_bytes: int
    """Live bytes at the highest moment of the step: all that is resident included. On a CPU what torch's tensors hold."""
    phase: str
    """Where it lay: `forward`, `loss`, `backward` or `optimizer`."""
    causes: tuple[Cause, ...]
    """Their sum is the peak."""
    temporaries: tuple[Place, ...]
    """The largest temporaries at the peak."""
    phase_peaks: Mapping[str, int]
    """Bytes by phase."""
    reserved_bytes: int | None = None
    """What the caching allocator holds (CUDA)."""
    since_start_bytes: int | None = None
    """Highest bytes since the process began, or since the script last reset the counter, loading included (CUDA)."""
    device_total_bytes: int | None = None
    device_used_bytes: int | None = None
    """As the driver sees it, all processes together."""
    allocator_retries: int | None = None
    """Since the process began (CUDA): times the allocator had to give its cache back and try again."""
    out_of_memories: int | None = None
    """Refusals that the script lived through."""
    pinned_bytes: int | None = None
    """Host memory that torch has page-locked."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The updates, from the end of one to the end of the next."""

    asked: int
    seen: int
    counted_by: str
    """Whose updates they are: `DeepSpeedEngine`, or the class of the optimizer that stepped first."""
    warmup_s: tuple[float, ...]
    """The ones before and between the profiled ones."""
    profiled_s: tuple[float, ...]
    timed_s: tuple[float, ...]
    """Undisturbed: on CUDA between events on the stream, on a CPU by the host's clock."""
    micro_batches: float | None
    """Forwards of the whole model in a profiled step; None where it could not be watched."""
    tokens: float | None
    """Of one update of this rank: padding included. Mean of the steps whose inputs were seen."""
    batch_shapes: tuple[tuple[int, ...], ...] = ()
    """Distinct shapes of the model's inputs (batch, sequence), the first few."""
    phases_s: Mapping[str, float] = field(default_factory=dict)
    """Device time (on a CPU wall time) by phase in the profiled step: `forward`, `loss`, `backward`, `optimizer`, `other`. Their shares
    count, not their lengths, since the profiler was on."""


@dataclass(frozen=True, slots=True)
class Data:
    """How batches come to the model."""

    wait_share: float | None
    """Share of the timed steps' time in which the training waited in a DataLoader; None where none was seen."""
    workers: int | None = None
    pin_memory: bool | None = None
    padding_share: float | None = None
    """Share of the tokens that a mask (or the padding token) excludes; None where neither is there."""
    ignored_label_share: float | None = None
    """Share of the labels that the loss leaves out (-100)."""
    batches_seen: int = 0
