"""How trials ended decides before any number does."""

from __future__ import annotations

import pytest

from bench.judge.statuses import judge_statuses, leading, outcome
from bench.judge.verdict import Word
from bench.records import Status

OK, OOM, FAILED, CRASHED = Status.OK, Status.OOM, Status.FAILED, Status.CRASHED
WRONG, INVALID, ABSENT, CANNOT = Status.INCORRECT, Status.INVALID, Status.UNAVAILABLE, Status.UNSUPPORTED


@pytest.mark.parametrize(
    ("first", "second", "word"),
    [
        ({OK: 5}, {OK: 5}, None),
        ({OK: 5}, {OOM: 5}, Word.WORSE),
        ({OK: 5}, {FAILED: 5}, Word.WORSE),
        ({OK: 5}, {ABSENT: 5}, Word.WORSE),
        ({OK: 5}, {CANNOT: 5}, Word.WORSE),
        ({OK: 5}, {OK: 4, CRASHED: 1}, Word.WORSE),
        ({OK: 5}, {OK: 4, WRONG: 1}, Word.WORSE),
        ({OK: 5}, {OK: 4, INVALID: 1}, None),
        ({OK: 4, CRASHED: 1}, {OK: 5}, None),
        ({OK: 4, CRASHED: 1}, {OK: 3, OOM: 2}, None),
        ({OOM: 5}, {OK: 5}, Word.BETTER),
        ({WRONG: 5}, {OK: 5}, Word.BETTER),
        ({OOM: 5}, {OOM: 5}, Word.SAME),
        ({OOM: 5}, {WRONG: 5}, Word.WORSE),
        ({WRONG: 5}, {WRONG: 5}, Word.SAME),
        ({WRONG: 5}, {OOM: 5}, Word.SAME),
        ({OK: 5}, {INVALID: 5}, Word.INVALID),
        ({INVALID: 5}, {OK: 5}, Word.INVALID),
        ({INVALID: 5}, {OOM: 5}, Word.INVALID),
    ],
)
def test_what_ends_of_trials_say(first: dict[Status, int], second: dict[Status, int], word: Word | None) -> None:
    found = judge_statuses(first, second)
    assert (found.word if found else None) is word
    assert found is None or found.reason


def test_wrong_numbers_lead_and_else_what_ran() -> None:
    assert leading({OK: 4, WRONG: 1}) is WRONG
    assert leading({OK: 1, OOM: 4}) is OK
    assert leading({OOM: 1, FAILED: 2}) is FAILED
    assert outcome({OOM: 1, OK: 3}) == "3 ok, 1 oom"
    assert outcome({}) == "no rows"
