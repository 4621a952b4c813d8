"""Each phase of a call has a peak of its own, with what is resident and what earlier phases have left."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from bench.worker.phase_peaks import MARK, peaks_of


def event(name: str, start: int, size: int = 0) -> Any:
    return SimpleNamespace(name=lambda: name, start_ns=lambda: start, nbytes=lambda: size)


def test_a_phase_begins_with_what_the_one_before_has_left() -> None:
    events = [
        event("[memory]", 0, 1000),  # before the call
        event(MARK, 1),
        event(f"{MARK}forward", 2),
        event("[memory]", 3, 50),
        event("[memory]", 4, -20),
        event(f"{MARK}loss", 5),
        event("[memory]", 6, 30),
        event(f"{MARK}backward", 7),
        event("[memory]", 8, -60),
        event("[memory]", 9, 15),
        event(f"{MARK}optimizer", 10),
        event("[memory]", 11, 5),
    ]
    assert peaks_of(events, resident=100) == {"forward_peak_bytes": 160, "backward_peak_bytes": 160, "optimizer_peak_bytes": 120}


def test_a_phase_that_comes_again_keeps_its_highest() -> None:
    events = [event(f"{MARK}forward", 0), event("[memory]", 1, 10), event(f"{MARK}backward", 2), event("[memory]", 3, -10),
              event(f"{MARK}forward", 4), event("[memory]", 5, 40)]  # fmt: skip
    assert peaks_of(events, resident=0)["forward_peak_bytes"] == 40
