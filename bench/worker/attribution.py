"""Splits a peak of memory into its causes: pure arithmetic on a trace of allocations, the same for every device.

A trace is what was resident when a call began, every allocation and release during it, and labels that were put on addresses while
it ran. An address is used again and again, so a label belongs to the allocation that lived there at the label's position. Of several
labels the strongest counts, in the order of `CAUSES`. An allocation without one that was made in the phase `loss` is the loss's. One
that was made in a `forward` and outlives it until the `backward` begins is saved, though no hook saw it (selective checkpointing keeps
results so). All else is a temporary, and is told with the operator that made it, or was resident from the beginning (workspaces of
libraries).

    peak = sum over causes of the bytes alive at the position where the running sum is highest       (to the byte)

What an allocator adds to a request by rounding is given to the trace as an allocation of its own, labelled as slack.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SLACK = "allocator_slack"
PARAMETERS = "parameters"
OPTIMIZER = "optimizer_states"
GRADIENTS = "gradients"
INPUTS = "inputs"
CHECKPOINTS = "checkpoints"
LOSS = "loss"
SAVED = "saved_activations"
RESIDENT = "other_residents"
TEMPORARIES = "temporaries"

LABELS = (SLACK, PARAMETERS, OPTIMIZER, GRADIENTS, INPUTS, CHECKPOINTS, LOSS, SAVED)
"""What an allocation may be called, the strongest first: a parameter that autograd saves is a parameter."""
CAUSES = (*LABELS, RESIDENT, TEMPORARIES)

FORWARD_PHASE, LOSS_PHASE, BACKWARD_PHASE = "forward", "loss", "backward"
MOST_TEMPORARIES = 12
TIMELINE_POINTS = 120


@dataclass(frozen=True, slots=True)
class Event:
    """An allocation (bytes above 0) or a release (below 0) at a position of the trace."""

    position: int
    address: int
    size: int
    where: str = ""


@dataclass(frozen=True, slots=True)
class Label:
    """From `position` on it is known what lives at `address`."""

    position: int
    address: int
    cause: str


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of the call that begins at `position`."""

    position: int
    name: str


@dataclass(frozen=True, slots=True)
class Trace:
    """One call. Positions are any numbers that grow with time; what was resident lives from before the first of them."""

    residents: Sequence[tuple[int, int]]
    """(address, bytes) of what was alive when the call began."""
    events: Sequence[Event]
    labels: Sequence[Label]
    phases: Sequence[Phase]


@dataclass(frozen=True, slots=True)
class Moment:
    """Bytes alive by cause at one position, for a timeline."""

    position: int
    phase: str
    alive: dict[str, int]


@dataclass(frozen=True, slots=True)
class Attribution:
    """A peak and its causes, in bytes."""

    peak: int
    position: int
    phase: str
    causes: dict[str, int]
    """By cause; the sum is the peak."""
    temporaries: tuple[tuple[str, int], ...]
    """The largest temporaries at the peak by operator; the last line holds the rest."""
    timeline: tuple[Moment, ...]


@dataclass(slots=True)
class _Block:
    address: int
    size: int
    begin: int
    end: int | None
    where: str
    cause: str = TEMPORARIES


def attribute(trace: Trace) -> Attribution:
    """The highest running sum of the trace, and what it consists of."""
    blocks = _blocks(trace)
    _name(blocks, trace)
    changes = sorted(
        [(block.begin, block.size, block) for block in blocks]
        + [(block.end, -block.size, block) for block in blocks if block.end is not None],
        key=lambda change: (change[0], change[1]),
    )
    live = peak = 0
    at = changes[0][0] if changes else 0
    for position, size, _ in changes:
        live += size
        if live > peak:
            peak, at = live, position
    alive = [block for block in blocks if block.begin <= at and (block.end is None or block.end > at)]
    return Attribution(
        peak=peak,
        position=at,
        phase=_phase(trace.phases, at),
        causes=_sums((block.cause, block.size) for block in alive),
        temporaries=_largest([(block.where, block.size) for block in alive if block.cause == TEMPORARIES]),
        timeline=_timeline(changes, trace.phases, at),
    )


def _blocks(trace: Trace) -> list[_Block]:
    """Allocations with the positions between which they live. A release of an address that nobody saw allocated is left out."""
    before = min((event.position for event in trace.events), default=0) - 1
    living = {address: _Block(address, size, before, None, "", RESIDENT) for address, size in trace.residents}
    blocks = list(living.values())
    for event in sorted(trace.events, key=lambda event: event.position):
        if event.size > 0:
            block = _Block(event.address, event.size, event.position, None, event.where)
            living[event.address] = block
            blocks.append(block)
        elif event.address in living:
            living.pop(event.address).end = event.position
    return blocks


def _name(blocks: list[_Block], trace: Trace) -> None:
    by_address: dict[int, list[_Block]] = defaultdict(list)
    for block in blocks:
        by_address[block.address].append(block)
    begins = {address: [block.begin for block in lived] for address, lived in by_address.items()}
    strength = {cause: rank for rank, cause in enumerate(CAUSES)}
    starts = [phase.position for phase in trace.phases]
    backwards = [phase.position for phase in trace.phases if phase.name == BACKWARD_PHASE]
    for block in blocks:
        if block.cause != TEMPORARIES:
            continue
        phase = _phase(trace.phases, block.begin, starts)
        if phase == LOSS_PHASE:
            block.cause = LOSS
        elif phase == FORWARD_PHASE and _outlives_forward(block, backwards):
            block.cause = SAVED
    for label in trace.labels:
        lived = by_address.get(label.address)
        if not lived:
            continue
        index = bisect.bisect_right(begins[label.address], label.position) - 1
        block = lived[max(0, index)]
        if block.end is not None and block.end <= label.position:
            continue
        if strength[label.cause] < strength[block.cause]:
            block.cause = label.cause


def _outlives_forward(block: _Block, backwards: Sequence[int]) -> bool:
    """Whether what was made in a forward is still there when the next backward begins."""
    following = bisect.bisect_right(backwards, block.begin)
    return following < len(backwards) and (block.end is None or block.end > backwards[following])


def _phase(phases: Sequence[Phase], position: int, starts: Sequence[int] | None = None) -> str:
    """The phase at a position; the phases are in order, and `starts` their positions. Nothing before the first."""
    index = bisect.bisect_right(starts or [phase.position for phase in phases], position) - 1
    return phases[index].name if index >= 0 else ""


def _sums(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = defaultdict(int)
    for cause, size in pairs:
        sums[cause] += size
    return {cause: sums[cause] for cause in CAUSES if cause in sums}


def _largest(temporaries: list[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    by_where: dict[str, int] = defaultdict(int)
    for where, size in temporaries:
        by_where[where] += size
    ranked = sorted(by_where.items(), key=lambda item: (-item[1], item[0]))
    rest = sum(size for _, size in ranked[MOST_TEMPORARIES:])
    return (*ranked[:MOST_TEMPORARIES], *([("all others", rest)] if rest else []))


def _timeline(changes: list[tuple[int, int, _Block]], phases: Sequence[Phase], peak: int) -> tuple[Moment, ...]:
    """Bytes by cause after evenly spaced changes, and at the peak itself."""
    if not changes:
        return ()
    wanted = {round(step * (len(changes) - 1) / (TIMELINE_POINTS - 1)) for step in range(TIMELINE_POINTS)}
    alive: dict[str, int] = defaultdict(int)
    moments = []
    for number, (position, size, block) in enumerate(changes):
        alive[block.cause] += size
        last_here = number + 1 == len(changes) or changes[number + 1][0] != position
        if number in wanted or (position == peak and last_here):
            moments.append(Moment(position, _phase(phases, position), {cause: alive[cause] for cause in CAUSES if alive[cause]}))
    return tuple(moments)
