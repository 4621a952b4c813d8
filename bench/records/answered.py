"""What is answered: numbers, comparisons, proof and work, and the reply that the worker makes of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.records.words import Json, Scalar, Status

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
