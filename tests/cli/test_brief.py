"""What a cron job mails: nothing where all is well, at most twenty lines where it is not, the worst of each suite among them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from bench.cli.brief import MOST_LINES, Judged, brief
from bench.judge.acceptances import acceptance_of, apply_acceptances
from bench.judge.answer import FailOn, answer
from bench.judge.compare import Comparison
from bench.judge.culprits import with_alarms
from bench.judge.nights import missed_nights
from bench.judge.regress import regress
from bench.judge.verdict import Alarm, Kind, Word
from bench.records import Status
from tests import factories
from tests.judge.sides import evidence, trials
from tests.judge.test_confirm import item, suspicious
from tests.judge.test_confirm import night as of_commit
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


def together(rows: int, *, ended: Status = Status.OK, bytes_: float = 1e8, commits: int = 0) -> Comparison:
    """A night in which so many cases ended so, or hold so much; one cause, with commits to tell."""
    cases = [factories.case(seq_len=128 * (place + 1)) for place in range(rows)]
    runs = [of_commit(number, item(number)) for number in range(4)]
    parts = []
    for run in runs:
        last = run is runs[-1]
        parts.append([
            row
            for of in cases
            for row in trials(
                of, [1e-2] * 3, run_id=run.id, status=ended if last else Status.OK, weight_bytes=bytes_ if last else 1e8
            )
        ])  # fmt: skip
    before = dataclasses.replace(evidence([row for part in parts[:-1] for row in part], cases), runs=tuple(runs[:-1]))
    found = with_alarms(regress(before, dataclasses.replace(evidence(parts[-1], cases), runs=(runs[-1],))))
    told = tuple(f"kernels: commit {place}" for place in range(commits))
    verdicts = tuple(
        dataclasses.replace(one, alarm=dataclasses.replace(one.alarm, commits=told)) if isinstance(one.alarm, Alarm) else one
        for one in found.verdicts
    )
    return dataclasses.replace(found, verdicts=verdicts)


def test_rows_with_one_cause_are_told_together_with_one_command() -> None:
    lines = brief([judged(together(7, bytes_=1e8 + 1))], None)
    assert sum(line.startswith("worse: ") for line in lines) == 5
    assert "and 2 rows more of which the same is told" in lines
    assert sum("bench bisect" in line for line in lines) == sum("last good night" in line for line in lines) == 1
    assert len(lines) <= MOST_LINES


def test_a_cause_with_more_to_tell_than_there_is_room_for_is_cut_and_not_left_out() -> None:
    lines = brief([judged(together(7, ended=Status.OOM, commits=9))], Path("files"))
    assert len(lines) <= MOST_LINES
    assert lines[1].startswith("worse: ")
    assert lines[-3].strip() == "…"
    assert "bench bisect" in lines[-2]


def test_an_alarm_says_how_a_row_ended_and_by_how_many_bytes_it_grew() -> None:
    ended = brief([judged(together(1, ended=Status.OOM))], None)
    assert ended[1].endswith("status: 3 ok → 3 oom")
    assert ended[2] == "  it ran, and no longer does: 3 oom"
    grown = brief([judged(together(1, bytes_=1e8 + 1))], None)
    assert grown[1].endswith("weight_bytes 1.000× (95.4 MiB → 95.4 MiB, +1 B)")


def test_where_the_last_good_version_does_not_run_either_there_is_nothing_to_look_through() -> None:
    found = together(1, ended=Status.OOM)
    (verdict,) = [one for one in found.verdicts if one.word is Word.WORSE]
    assert verdict.kind is Kind.STATUS
    assert verdict.alarm is not None
    assert verdict.alarm.bisect is not None
    both = dataclasses.replace(verdict, confirmed_in="run", first=dataclasses.replace(verdict.first, outcome="3 oom"))
    (again,) = with_alarms(dataclasses.replace(found, verdicts=(both,))).verdicts
    assert again.alarm is not None
    assert again.alarm.bisect is None
    (line, *_) = brief([judged(dataclasses.replace(found, verdicts=(again,)))], None)[1:]
    assert line.endswith("status: 3 oom on both sides, measured again in turn")


def test_news_is_told_where_all_is_well_and_the_last_line_names_the_run() -> None:
    quiet = dataclasses.replace(suspicious(slow_nights=0), news=("another machine",))
    lines = brief([judged(quiet)], None)
    assert (lines[0].startswith("lab: well"), lines[1]) == (True, "  another machine")
    assert lines[-1] == f"all of it: bench regress {quiet.second.runs[0].id} --no-confirm"


def test_an_alarm_that_comes_back_says_that_it_was_accepted_by_whom_and_until_when() -> None:
    found = together(1, bytes_=1.2e8)
    (worse,) = [one for one in found.verdicts if one.word is Word.WORSE]
    accepted = acceptance_of(worse, author="A", reason="more state", now="2026-01-01", expires_at="2026-02-01")
    verdicts = apply_acceptances(found.verdicts, [accepted], now="2026-03-01")
    lines = brief([judged(dataclasses.replace(found, verdicts=verdicts))], None)
    assert "  was accepted until 2026-02-01, which is over (by A on 2026-01-01: more state)" in lines
    assert (
        brief([judged(dataclasses.replace(found, verdicts=apply_acceptances(found.verdicts, [accepted], now="2026-01-15")))], None)
        == []
    )
