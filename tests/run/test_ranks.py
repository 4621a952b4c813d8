"""Trials of two ranks through torchrun: one answer, the rank at fault named, and no rank left alive."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench.records import Measurement, Reply, Result, Status
from bench.run import RunSummary
from bench.run.forkserver import Ended
from bench.run.ranks import combine, culprit, read_stack
from bench.run.supervisor import End, Outcome
from bench.run.traces import Phase, RankFailure
from tests.run.laboratory import QUICK, Laboratory, marked

SUBJECTS = [
    "right",
    "second_rank_raises_first_hangs",
    "second_rank_raises_first_meets",
    "second_rank_leaves_first_hangs",
    "second_rank_is_killed",
    "second_rank_hangs",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def summary(folder: Path) -> RunSummary:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr("tempfile.tempdir", None)
        patch.setattr("bench.run.supervisor.RANK_GRACE_S", 1.5)
        # To write down where it stands, which a rank on a busy machine does not come to within a second.
        patch.setattr("bench.run.supervisor._GRACE_S", 10.0)
        protocol = QUICK.replace("timeout_s: 60", "timeout_s: 40")
        return Laboratory(folder, SUBJECTS, plugins=SUBJECTS, protocol=protocol, sweep="seq_len: [16], world_size: [2]").run()


@pytest.fixture(scope="module")
def rows(summary: RunSummary) -> dict[str, Result]:
    return {row.case.subject_label: row for row in summary.results}


@pytest.mark.slow
def test_two_ranks_give_one_time_the_slower_rank_of_each_call_and_keep_both(rows: dict[str, Result]) -> None:
    row = rows["right"]
    assert row.status is Status.OK, row.reason
    assert row.rank is None
    together, first, second = (row.measurement("time_s", scope) for scope in ("trial", "rank:0", "rank:1"))
    assert together is not None
    assert first is not None
    assert second is not None
    assert together.samples == tuple(max(pair) for pair in zip(first.samples, second.samples, strict=True))
    assert row.environment.hard["count"] == 2


@pytest.mark.slow
def test_a_rank_that_raises_is_failed_and_named_and_ends_the_trial_although_the_other_does_not_notice(
    rows: dict[str, Result],
) -> None:
    row = rows["second_rank_raises_first_hangs"]
    assert (row.status, row.rank, row.reason) == (Status.FAILED, 1, "rank 1: ArithmeticError: not on my rank")
    assert row.duration_s < 40.0  # the time-out
    first, second = row.log.partition("[rank 0]\n")[2].split("[rank 1]\n")
    assert ("here is rank 0" in first, "here is rank 1" in second) == (True, True)


@pytest.mark.slow
def test_a_rank_that_raises_is_named_beside_one_that_fails_in_its_own_collective_because_of_it(rows: dict[str, Result]) -> None:
    row = rows["second_rank_raises_first_meets"]
    assert (row.status, row.rank, row.reason) == (Status.FAILED, 1, "rank 1: ArithmeticError: not on my rank")


@pytest.mark.slow
def test_a_rank_that_leaves_without_a_word_ends_the_trial_although_the_other_waits_for_it(rows: dict[str, Result]) -> None:
    row = rows["second_rank_leaves_first_hangs"]
    assert (row.status, row.rank) == (Status.CRASHED, 1), row.reason
    assert row.reason == "rank 1: ended with status 0 in phase first_call without a reply"
    assert row.duration_s < 40.0


@pytest.mark.slow
def test_a_rank_that_is_killed_is_crashed_and_named(rows: dict[str, Result]) -> None:
    row = rows["second_rank_is_killed"]
    assert (row.status, row.rank) == (Status.CRASHED, 1), row.reason
    assert row.reason == "rank 1: killed by SIGKILL in phase build"


@pytest.mark.slow
def test_a_rank_that_hangs_is_a_timeout_and_named(rows: dict[str, Result]) -> None:
    """The first one waits for it in a collective, in the same phase: where each stood tells which of them keeps the other."""
    row = rows["second_rank_hangs"]
    assert (row.status, row.rank) == (Status.TIMEOUT, 1), row.reason
    assert "rank 1 was in phase first_call, at " in (row.reason or "")
    assert (row.reason or "").endswith("in attention")


@pytest.mark.slow
def test_no_rank_is_left_alive(folder: Path, summary: RunSummary) -> None:
    assert summary.planned == len(summary.results) == len(SUBJECTS)
    assert marked(str(folder)) == []


def _outcome(end: End = End.BY_ITSELF) -> Outcome:
    return Outcome(end, Ended(0), 0.0, 1.0)


def _reached(*names: str) -> tuple[Phase, ...]:
    return tuple(Phase(name, float(number)) for number, name in enumerate(names))


def test_of_two_ranks_each_call_counts_as_its_slower_one_and_what_has_no_worse_direction_stays_per_rank() -> None:
    def reply(*samples: float) -> Reply:
        return Reply(Status.OK, measurements=(Measurement("time_s", "s", samples), Measurement("sm_clock_hz", "Hz", (1e9,))))

    answer = combine({0: reply(1.0, 5.0, 2.0), 1: reply(3.0, 4.0, 2.5)}, {0: (), 1: ()})
    scopes = {(m.metric, m.scope): m.samples for m in answer.reply.measurements}
    assert scopes["time_s", "trial"] == (3.0, 5.0, 2.5)
    assert scopes["time_s", "rank:1"] == (3.0, 4.0, 2.5)
    assert ("sm_clock_hz", "trial") not in scopes


def test_what_a_peak_consists_of_is_told_of_the_fullest_rank_so_that_it_adds_up() -> None:
    def reply(total: float, gradients: float, temporaries: float) -> Reply:
        sizes = {"peak_total_bytes": total, "peak_gradients_bytes": gradients, "peak_temporaries_bytes": temporaries}
        return Reply(Status.OK, measurements=tuple(Measurement(name, "byte", (size,)) for name, size in sizes.items()))

    answer = combine({0: reply(9.0, 8.0, 1.0), 1: reply(10.0, 3.0, 7.0)}, {0: (), 1: ()})
    scopes = {(m.metric, m.scope): m.samples for m in answer.reply.measurements}
    told = [scopes[f"peak_{name}_bytes", "trial"] for name in ("total", "gradients", "temporaries")]
    assert told == [(10.0,), (3.0,), (7.0,)]
    assert scopes["peak_gradients_bytes", "rank:0"] == (8.0,)


def test_a_rank_that_died_outweighs_what_the_others_say_of_their_broken_connection() -> None:
    lost = Reply(Status.FAILED, "connection closed", error_type="PeerLostError")
    phases = {0: _reached("started"), 1: _reached("started", "handover")}
    assert culprit(_outcome(), {0: lost, 1: None}, phases, [RankFailure(1, -9)]) == (1, -9)


def test_a_rank_that_lost_its_peer_is_never_the_culprit_beside_one_that_has_a_reason_of_its_own() -> None:
    lost = Reply(Status.FAILED, "connection closed", error_type="bench.worker.team.PeerLostError")
    own = Reply(Status.FAILED, "boom", error_type="ValueError")
    phases = {0: _reached("a"), 1: _reached("a", "b", "c")}
    assert culprit(_outcome(), {0: lost, 1: own}, phases, [])[0] == 1
    oom = dataclasses.replace(own, status=Status.OOM)
    assert culprit(_outcome(), {0: own, 1: oom}, phases, [])[0] == 1


def test_the_words_of_a_broken_connection_do_not_make_a_rank_the_culprit() -> None:
    lost = Reply(Status.FAILED, "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1234")
    own = Reply(Status.FAILED, "ArithmeticError: not on my rank", error_type="ArithmeticError")
    phases = {0: _reached("a"), 1: _reached("a", "b", "c")}
    assert culprit(_outcome(), {0: lost, 1: own}, phases, [])[0] == 1
    assert culprit(_outcome(), {0: lost, 1: lost}, phases, [])[0] == 0


def test_a_rank_that_left_without_a_word_outweighs_those_that_lost_it() -> None:
    lost = Reply(Status.FAILED, "connection closed", error_type="bench.worker.team.PeerLostError")
    phases = {0: _reached("a", "b"), 1: _reached("a", "b")}
    assert culprit(_outcome(), {0: lost, 1: None}, phases, []) == (1, 0)


def test_a_rank_that_was_gone_before_the_others_were_ended_is_the_culprit_and_left_by_itself() -> None:
    phases = {0: _reached("a"), 1: _reached("a", "b")}
    ended = dataclasses.replace(_outcome(End.RANK_FAILED), ended_as=Ended(-15), gone=(1,))
    assert culprit(ended, {0: None, 1: None}, phases, []) == (1, 0)
    lost = Reply(Status.FAILED, "connection closed", error_type="bench.worker.team.PeerLostError")
    assert culprit(ended, {0: lost, 1: None}, phases, []) == (1, 0)


def test_a_rank_that_the_watchdog_aborted_is_not_the_culprit_beside_one_that_has_a_reason() -> None:
    own = Reply(Status.OOM, "CUDA out of memory")
    phases = {0: _reached("a", "b"), 1: _reached("a", "b")}
    assert culprit(_outcome(), {0: None, 1: own}, phases, [RankFailure(0, -6)])[0] == 1
    assert culprit(_outcome(), {0: None, 1: None}, phases, [RankFailure(0, -6)]) == (0, -6)


def test_a_rank_that_waits_for_its_device_is_taken_to_wait_for_the_others() -> None:
    phases = dict.fromkeys(range(2), _reached("started", "handover", "first_call"))
    stacks = {0: ("/site-packages/torch/cuda/__init__.py:1058 in synchronize",), 1: ("/somewhere/plugin.py:7 in attention",)}
    assert culprit(_outcome(End.TIMEOUT), {0: None, 1: None}, phases, [], stacks)[0] == 1


def test_of_ranks_in_one_phase_the_one_outside_a_collective_is_the_culprit(tmp_path: Path) -> None:
    text = """Thread 0x00007f01 (most recent call first):
  File "/lib/threading.py", line 10 in wait

Current thread 0x00007f02 (most recent call first):
  File "/site-packages/torch/distributed/distributed_c10d.py", line 3004 in all_reduce
  File "/somewhere/plugin.py", line 7 in attention
"""
    (tmp_path / "stack.0").write_text(text)
    (tmp_path / "stack.1").write_text(text.replace("/site-packages/torch/distributed/distributed_c10d.py", "/somewhere/slow.py"))
    stacks = {rank: read_stack(tmp_path, rank) for rank in range(3)}
    assert stacks[0][0] == "/site-packages/torch/distributed/distributed_c10d.py:3004 in all_reduce"
    assert stacks[2] == ()
    phases = dict.fromkeys(range(2), _reached("started", "handover", "first_call"))
    assert culprit(_outcome(End.TIMEOUT), {0: None, 1: None}, phases, [], stacks)[0] == 1


def test_on_a_timeout_the_rank_that_lags_behind_is_the_culprit() -> None:
    phases = {0: _reached("started", "handover", "build", "warmup"), 1: _reached("started", "handover", "build")}
    assert culprit(_outcome(End.TIMEOUT), {0: None, 1: None}, phases, [])[0] == 1
