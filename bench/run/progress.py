"""What a run says: a line while it goes on, and at the end how it came out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.records import Result, RunState, Status


@dataclass(frozen=True, slots=True)
class Progress:
    """What a run has to say: a row that was stored, or a remark (`result` is None)."""

    text: str
    """One line, ready to be shown."""
    done: int
    planned: int
    left_s: float
    result: Result | None = None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """How a run came out. Counts are of rows stored by this call; `before` are those that earlier calls had stored.

    `ok` and `ok_before` leave canaries out: they show the machine and answer no question.
    """

    run_id: str
    state: RunState
    planned: int
    counts: Mapping[Status, int]
    before: int = 0
    ok: int = 0
    ok_before: int = 0
    duration_s: float = 0.0
    results: tuple[Result, ...] = field(default=(), repr=False)
    lost: Mapping[str, str] = field(default_factory=dict)
    """GPUs of several that did not come to the end of their part, and why."""

    @property
    def exit_code(self) -> int:
        """0 done (a spent budget included) · 2 a GPU of several was lost · 3 no row is ok · 130 interrupted."""
        if self.state is RunState.INTERRUPTED:
            return 130
        if self.lost:
            return 2
        return 0 if self.ok or self.ok_before else 3


def silent(_progress: Progress) -> None:
    """Says nothing."""
