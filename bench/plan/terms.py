"""What a prediction is made of: terms with their formula and source, the moments of a step, and the highest of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bench.metrics import PEAK_CAUSES

CAUSES = tuple(cause for cause, _ in PEAK_CAUSES)
"""A prediction is split as a measured peak is, so that both can stand side by side."""

PHASES = ("forward", "loss", "backward", "optimizer")

HOST, PINNED, DISK = "host", "pinned", "disk"
"""Where what has left the GPU lies: in the host's memory, page-locked in it, or in files."""


@dataclass(frozen=True, slots=True)
class Term:
    """Bytes of one kind that are alive at a moment. Raises ValueError for a category that no measured peak has."""

    name: str
    phase: str
    category: str
    size_bytes: int
    formula: str
    """In the symbols of `dims`."""
    source: str

    def __post_init__(self) -> None:
        if self.category not in CAUSES:
            raise ValueError(f"{self.category!r} is no cause of a peak; there are {', '.join(CAUSES)}")


@dataclass(frozen=True, slots=True)
class Moment:
    """A point of the step with all that is alive then."""

    name: str
    phase: str
    terms: tuple[Term, ...]

    @property
    def size_bytes(self) -> int:
        return sum(term.size_bytes for term in self.terms)

    def by_category(self) -> dict[str, int]:
        """Bytes by cause, in the order of `CAUSES`; causes of nothing left out."""
        sums: dict[str, int] = defaultdict(int)
        for term in self.terms:
            sums[term.category] += term.size_bytes
        return {cause: sums[cause] for cause in CAUSES if sums[cause]}


@dataclass(frozen=True, slots=True)
class Away:
    """Bytes of one kind that lie off a GPU for it, as whoever keeps them takes them."""

    name: str
    place: str
    size_bytes: int
    formula: str
    source: str


def away_bytes(away: Iterable[Away], *places: str) -> int:
    """Of what lies in these places."""
    return sum(kept.size_bytes for kept in away if kept.place in places)


@dataclass(frozen=True, slots=True)
class Prediction:
    """The peak of allocated bytes on one GPU in a step that is not the first, and how it comes about."""

    moments: tuple[Moment, ...]
    """The highest of each phase, in the order of the step."""
    away: tuple[Away, ...]
    """What lies off the GPU for it: offloaded states, parameters and activations, and buffers that they pass through."""
    notes: tuple[str, ...]
    """What was assumed, and what is not in it."""

    @property
    def host_bytes(self) -> int:
        """In the host's memory for this GPU, beyond what its process has there anyway (`rounding.PROCESS_BYTES`)."""
        return away_bytes(self.away, HOST, PINNED)

    @property
    def pinned_bytes(self) -> int:
        """The part of it that is page-locked."""
        return away_bytes(self.away, PINNED)

    @property
    def disk_bytes(self) -> int:
        """In files for this GPU."""
        return away_bytes(self.away, DISK)

    @property
    def peak(self) -> Moment:
        return max(self.moments, key=lambda moment: moment.size_bytes)

    @property
    def peak_bytes(self) -> int:
        return self.peak.size_bytes

    def by_phase(self) -> Mapping[str, int]:
        """Highest bytes in each phase."""
        highest: dict[str, int] = {}
        for moment in self.moments:
            highest[moment.phase] = max(highest.get(moment.phase, 0), moment.size_bytes)
        return highest
