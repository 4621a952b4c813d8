"""What a trial is charged for: imports that the server makes for it and later ones alike are no time of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.run.forkserver import Ended
from bench.run.supervisor import End, watch


class Preparing:
    """A server that spent a minute on imports before it forked, and whose trial ends when it is looked at for the second time."""

    prepared_s = 60.0
    looks = 0

    def begin(self, *_: Any) -> int:
        return 1

    def wait(self, timeout_s: float) -> Ended | None:
        self.looks += 1
        return Ended(0, ()) if self.looks == 2 else None


def test_imports_for_later_trials_are_neither_in_the_time_out_of_a_trial_nor_in_its_costs(tmp_path: Path) -> None:
    outcome = watch(Preparing(), tmp_path, world_size=1, timeout_s=0.0, stop=lambda: False)  # type: ignore[arg-type]
    assert outcome.end is End.BY_ITSELF
    assert outcome.ended < outcome.requested  # it only said that a minute had gone by
