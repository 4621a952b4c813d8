"""What a trial is charged for: imports that the server makes for it and later ones alike are no time of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.records import Reply, Status, canonical_json, dump
from bench.run.forkserver import Ended
from bench.run.supervisor import End, watch


class Ranks:
    """A server whose trial ends only when it is told to."""

    prepared_s = 0.0
    ended = False

    def begin(self, *_: Any) -> int:
        return 1

    def wait(self, timeout_s: float) -> Ended | None:
        return None

    def end_trial(self, grace_s: float) -> Ended:
        self.ended = True
        return Ended(-15)


def test_once_a_rank_has_failed_the_others_are_not_waited_for_until_the_time_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank that waits for a lost one over NCCL does so without an end."""
    monkeypatch.setattr("bench.run.supervisor.RANK_GRACE_S", 0.0)
    (tmp_path / "reply.1.json").write_text(canonical_json(dump(Reply(Status.FAILED, "boom", rank=1))))
    server = Ranks()
    outcome = watch(server, tmp_path, world_size=2, timeout_s=30.0, stop=lambda: False)  # type: ignore[arg-type]
    assert outcome.end is End.RANK_FAILED
    assert server.ended
    assert outcome.ended - outcome.requested < 30.0


def test_a_rank_that_did_well_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.run.supervisor.RANK_GRACE_S", 0.0)
    (tmp_path / "reply.1.json").write_text(canonical_json(dump(Reply(Status.OK, rank=1))))
    outcome = watch(Ranks(), tmp_path, world_size=2, timeout_s=0.3, stop=lambda: False)  # type: ignore[arg-type]
    assert outcome.end is End.TIMEOUT


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
