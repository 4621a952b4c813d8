"""Which rank is to blame."""

from __future__ import annotations

from bench.worker.launch import culprits_first


def test_a_rank_that_was_ended_because_another_failed_is_not_the_culprit() -> None:
    ended, killed, later = (
        {"rank": rank, "returncode": code, "t": t} for rank, code, t in [(0, -15, 100), (1, -9, 100), (2, 1, 101)]
    )
    assert culprits_first([ended, later, killed]) == [killed, later, ended]


def test_a_rank_that_nccls_watchdog_aborted_is_not_the_culprit_beside_one_that_died_in_the_same_second() -> None:
    aborted, killed = ({"rank": rank, "returncode": code, "t": 100} for rank, code in [(0, -6), (1, -9)])
    assert culprits_first([aborted, killed]) == [killed, aborted]
