"""All that one audit saw: the reports of its processes put together, and how the command ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from bench.audited import AUDIT_VERSION, AttentionKernel, Audited, Steps
from bench.records import Json, dump, load
from bench.stats import median

CONDITION = "audit"
"""The condition of a stored row that holds the reports."""


@dataclass(frozen=True)
class Audit:
    """One audit. Not slotted, since what follows from the reports is computed once and kept."""

    command: str
    """As it was typed, without secrets."""
    ranks: tuple[Audited, ...]
    """Of the training that is told: a report for each rank, by rank; empty where no process reported."""
    status: int
    """Exit status of the command."""
    ended: str
    """`exit status 0`, `SIGSEGV`."""
    steps_asked: int
    earlier: int = 0
    """Other trainings that the command made, and that are not told."""
    left_over: int = 0
    """Processes that outlived the command and were ended."""
    silent_ranks: tuple[int, ...] = field(default=())
    """Ranks of the world that left no report."""

    @property
    def first(self) -> Audited | None:
        """The report of the lowest rank: what ranks have in common is told from it."""
        return self.ranks[0] if self.ranks else None

    @property
    def failed(self) -> Audited | None:
        """Of the ranks that raised or were interrupted the first to do so: the others' errors mostly follow from its."""
        bad = [one for one in self.ranks if one.ended.how in ("raised", "interrupted")]
        return min(bad, key=lambda one: one.ended.at_s, default=None)

    @property
    def trained(self) -> bool:
        """Whether an update was seen."""
        return self.steps is not None and self.steps.seen > 0

    @property
    def steps(self) -> Steps | None:
        return self.first.steps if self.first is not None else None

    @property
    def script(self) -> str:
        """The script's file name, else the first word of the command."""
        if self.first is not None and self.first.script:
            return self.first.script
        return self.command.split(" ", 1)[0].rsplit("/", 1)[-1] or "command"

    @property
    def on_cuda(self) -> bool:
        return self.first is not None and self.first.device is not None and self.first.device.kind == "cuda"

    @property
    def gpu(self) -> str | None:
        """The GPU's model; None on a CPU."""
        device = self.first.device if self.first is not None else None
        return device.name if device is not None and device.kind == "cuda" else None

    @cached_property
    def step_s(self) -> tuple[float, ...]:
        """Each timed update: the slowest rank of each, since all wait for it."""
        timed = [one.steps.timed_s for one in self.ranks if one.steps is not None and one.steps.timed_s]
        return tuple(max(of_ranks) for of_ranks in zip(*timed, strict=False)) if timed else ()

    @property
    def median_step_s(self) -> float | None:
        return median(self.step_s) if self.step_s else None

    @property
    def tokens_per_s(self) -> float | None:
        """Of all ranks that see data of their own, padding included."""
        found = [one.steps.tokens for one in self.ranks if one.steps is not None and one.steps.tokens]
        if not found or self.median_step_s is None or len(found) < len(self.ranks):
            return None
        return sum(found) / self.median_step_s

    @cached_property
    def fullest(self) -> Audited | None:
        """The report of the rank with the highest peak; None where no peak was seen."""
        known = [one for one in self.ranks if one.memory is not None]
        return max(known, key=lambda one: one.memory.peak_bytes if one.memory else 0) if known else None

    @property
    def peak_bytes(self) -> int | None:
        return self.fullest.memory.peak_bytes if self.fullest is not None and self.fullest.memory is not None else None

    @property
    def attention(self) -> AttentionKernel | None:
        """What computed most of the attention."""
        kernels = self.first.attention if self.first is not None else ()
        return max(kernels, key=lambda one: (one.modules, one.calls), default=None)

    def asked(self, name: str) -> Any:
        """What the trainer's arguments say of `name`; None where they say nothing."""
        return self.first.asked.get(name) if self.first is not None else None

    def configured(self, name: str) -> Any:
        """What the model's configuration says of `name`; None where it says nothing."""
        model = self.first.model if self.first is not None else None
        return model.config.get(name) if model is not None else None

    def data(self) -> dict[str, Json]:
        """As it is stored; `from_data` reads it."""
        return {
            "version": AUDIT_VERSION,
            "command": self.command,
            "status": self.status,
            "ended": self.ended,
            "steps_asked": self.steps_asked,
            "earlier": self.earlier,
            "left_over": self.left_over,
            "silent_ranks": list(self.silent_ranks),
            "ranks": [dump(one) for one in self.ranks],
        }


def put_together(
    reports: Sequence[Audited], *, command: str, status: int, ended: str, steps_asked: int, left_over: int = 0
) -> Audit:
    """One audit of what the processes of a command reported, in any order.

    Launchers and others that updated nothing are left out where another process did. Where none did, those that a launcher started tell
    more than it does. Of several trainings one after the other the one with most updates is told, the later of equals.
    """
    active = [one for one in reports if _updates(one)] or [one for one in reports if one.launched_by] or list(reports[:1])
    by_rank: dict[int, list[Audited]] = {}
    for one in active:
        by_rank.setdefault(one.rank, []).append(one)
    chosen = tuple(max(enumerate(by_rank[rank]), key=lambda found: (_updates(found[1]), found[0]))[1] for rank in sorted(by_rank))
    world = max((one.world_size for one in chosen), default=0)
    return Audit(
        command=command,
        ranks=chosen,
        status=status,
        ended=ended,
        steps_asked=steps_asked,
        earlier=max((len(found) for found in by_rank.values()), default=1) - 1,
        left_over=left_over,
        silent_ranks=tuple(rank for rank in range(world) if rank not in by_rank) if any(map(_updates, chosen)) else (),
    )


def _updates(one: Audited) -> int:
    return one.steps.seen if one.steps is not None else 0


def from_data(data: Json) -> Audit:
    """The audit in a row's conditions. Raises ValueError for what is none, or is of a later version."""
    if not isinstance(data, Mapping) or not isinstance(data.get("ranks"), list):
        raise ValueError("no audit")
    if int(data.get("version", 0)) > AUDIT_VERSION:
        raise ValueError(f"an audit of version {data['version']}, and this bench knows {AUDIT_VERSION}: install a newer bench")
    return Audit(
        command=str(data["command"]),
        ranks=tuple(load(Audited, one) for one in data["ranks"]),
        status=int(data["status"]),
        ended=str(data["ended"]),
        steps_asked=int(data["steps_asked"]),
        earlier=int(data["earlier"]),
        left_over=int(data["left_over"]),
        silent_ranks=tuple(data["silent_ranks"]),
    )
