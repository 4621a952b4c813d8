"""What a trial is charged for, and when it may take its device: not before what is left of its forerunner is done."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.records import Reply, Status, canonical_json, dump, trial_folder
from bench.run.forkserver import Ended
from bench.run.supervisor import End, watch
from bench.run.traces import gone_ranks


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


def test_once_a_rank_has_left_without_a_word_the_others_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over NCCL they would wait until the time-out: the launcher takes an exit status of 0 for a success."""
    monkeypatch.setattr("bench.run.supervisor.RANK_GRACE_S", 0.0)
    living = (
        "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", living, str(tmp_path / "stack.0")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as first:
        assert first.stdout is not None
        first.stdout.readline()
        assert gone_ranks(tmp_path, 2) == ()
        (tmp_path / "stack.1").write_text("")
        outcome = watch(Ranks(), tmp_path, world_size=2, timeout_s=30.0, stop=lambda: False)  # type: ignore[arg-type]
        first.communicate()
    assert (outcome.end, outcome.gone) == (End.RANK_FAILED, (1,))
    assert gone_ranks(tmp_path, 2) == (0, 1)


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


def is_open(directory: Path) -> bool:
    """Whether the gate of a trial lets it take its device."""
    with (directory / trial_folder.GATE).open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


class Gated(Preparing):
    """A server that sees whether the gate was closed when it forked."""

    prepared_s = 0.0

    def begin(self, directory: Path, *_: Any) -> int:
        assert not is_open(directory)
        return 1


def test_the_gate_of_a_trial_opens_once_what_was_left_to_do_is_done_which_is_not_in_its_time_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    now = 0.0
    monkeypatch.setattr("bench.run.supervisor.time.monotonic", lambda: now)

    def once_begun() -> None:
        nonlocal now
        now += 0.3
        seen.append(is_open(tmp_path))

    outcome = watch(Gated(), tmp_path, world_size=1, timeout_s=0.2, stop=lambda: False, once_begun=once_begun)  # type: ignore[arg-type]
    assert seen == [False]
    assert is_open(tmp_path)
    assert outcome.end is End.BY_ITSELF


def test_a_trial_behind_its_gate_is_ended_where_we_were_asked_to_stop_meanwhile(tmp_path: Path) -> None:
    server, asked = Ranks(), []
    outcome = watch(
        server,  # type: ignore[arg-type]
        tmp_path,
        world_size=1,
        timeout_s=30.0,
        stop=lambda: bool(asked),
        once_begun=lambda: asked.append(1),
    )
    assert outcome.end is End.INTERRUPT
    assert server.ended


def test_a_gate_opens_where_what_was_left_to_do_fails(tmp_path: Path) -> None:
    """Whoever closes the server ends the trial; one that waited for a dead parent would be one too many."""

    def once_begun() -> None:
        raise KeyError("the row")

    with pytest.raises(KeyError, match="the row"):
        watch(Ranks(), tmp_path, world_size=1, timeout_s=30.0, stop=lambda: False, once_begun=once_begun)  # type: ignore[arg-type]
    assert is_open(tmp_path)
