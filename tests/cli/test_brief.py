"""What a cron job mails: nothing where all is well, at most twenty lines where it is not, the worst of each suite among them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from bench.cli.brief import MOST_LINES, Judged, brief
from bench.judge.answer import FailOn, answer
from bench.judge.compare import Comparison
from bench.judge.culprits import with_alarms
from bench.judge.nights import missed_nights
from tests.judge.test_confirm import suspicious
from tests.judge.test_nights import DAY_S, night


def judged(found: Comparison, suite: str = "lab") -> Judged:
    told = answer(found)
    return Judged(suite, told.exit_code, (), found, told)


def test_where_nothing_is_worse_nothing_is_said() -> None:
    quiet = suspicious(slow_nights=0)
    assert brief([judged(quiet), Judged("new", 0)], Path("files")) == []


def test_what_is_worse_is_told_with_whom_to_ask_and_where_the_rest_lies() -> None:
    lines = brief([judged(with_alarms(suspicious(slow_nights=2)))], Path("files"))
    assert lines[0].startswith("lab: worse: 1 worse")
    assert any("bench bisect" in line for line in lines)
    assert lines[-1] == "all of it: files"
    assert len(lines) <= MOST_LINES


def test_however_much_is_worse_there_are_twenty_lines_and_every_suite_is_named() -> None:
    many = [judged(with_alarms(suspicious(slow_nights=2)), f"suite {place}") for place in range(9)]
    lines = brief([*many, Judged("broken", 2, ("no torch",))], Path("files"))
    assert len(lines) <= MOST_LINES
    assert all(any(line.startswith(f"suite {place}: worse") for line in lines) for place in range(9))
    assert any("broken: trouble" in line for line in lines)
    assert any("parts more" in line for line in lines)


def test_who_asks_never_to_fail_is_told_all_the_same() -> None:
    found = with_alarms(suspicious(slow_nights=2))
    told = answer(found, FailOn.NEVER)
    lines = brief([Judged("lab", told.exit_code, (), found, told)], None)
    assert told.exit_code == 0
    assert lines[0].startswith("lab: worse: 1 worse")


def test_a_missed_night_is_told_even_where_nothing_is_worse() -> None:
    missed = missed_nights([night(0), night(3)], night(3), every_s=DAY_S)
    found = suspicious(slow_nights=0)
    lines = brief([judged(dataclasses.replace(found, banners=(*missed, *found.banners)))], None)
    assert any("2 nights did not run since 2026-01-01" in line for line in lines)
    assert brief([Judged("first", 0, ("1 night did not run since 2026-01-01",))], None)[0] == "first: well"
