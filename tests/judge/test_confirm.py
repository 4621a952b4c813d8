"""What a second look makes of a suspect, and that one which cannot be had is said and never passed over."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import pytest

from bench.cli.verdicts import alarm_lines
from bench.judge import confirm as confirming
from bench.judge.answer import answer
from bench.judge.compare import Comparison
from bench.judge.confirm import confirm, suspects
from bench.judge.culprits import with_alarms
from bench.judge.place import CannotConfirm, Place
from bench.judge.verdict import Word
from bench.machine import find_device
from bench.machine.revision import UnderTest
from bench.records import RevisionItem, Run
from bench.run import RunOptions, versions
from bench.run.locks import device_lock
from bench.run.versions import CannotRebuild
from bench.store import Store
from tests import factories
from tests.judge.sides import noisy
from tests.judge.test_regress import split, trials

CASE = factories.case()


def commit(number: int) -> str:
    return f"{number:02x}" * 20


def item(number: int) -> RevisionItem:
    return RevisionItem("kernels", "path", commit=commit(number), dirty=False)


def night(number: int, revision: RevisionItem) -> Run:
    return factories.run(started_at=f"2026-03-{number + 1:02}T03:00:00+00:00", reason="nightly", revision=(revision,))


def suspicious(*, slow_nights: int = 1, last: RevisionItem | None = None) -> Comparison:
    """Fifteen nights, the last ones 20 % slower; each of another commit."""
    rng = random.Random(2)
    runs = [night(number, item(number)) for number in range(15)]
    if last is not None:
        runs[-1] = dataclasses.replace(runs[-1], revision=(last,))
    rows = []
    for number, run in enumerate(runs):
        level = 1.2e-2 if number >= 15 - slow_nights else 1e-2
        rows += trials(CASE, noisy(rng, level, 0.003, 5), run_id=run.id, peak_bytes=1e8)
    return split(runs, rows, [CASE])


def looked_at(found: Comparison, tmp_path: Path, **changes: float) -> tuple[Word, str]:
    with Store.open(tmp_path / "bench.db") as store:
        again = confirm(found, store, **changes)  # type: ignore[arg-type]
    (verdict,) = [verdict for verdict in again.verdicts if verdict.series.metric == "time_s"]
    assert verdict.confirmed_in is None
    return verdict.word, " ".join(verdict.notes)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if tonight had been measured on this very machine, from what lies here."""

    def place_of(run: Run, **_: object) -> Place:
        now = tuple(UnderTest(found) for found in run.revision)
        suite = type("Suite", (), {"threads": 1, "name": "lab"})()
        return Place(suite, find_device("cpu"), None, RunOptions(), now)  # type: ignore[arg-type]

    monkeypatch.setattr(confirming, "place_of", place_of)
    monkeypatch.setattr(Place, "has", lambda *_: True)


def test_where_nothing_is_suspect_nothing_is_measured(tmp_path: Path) -> None:
    found = suspicious(slow_nights=0)
    assert suspects(found) == []
    with Store.open(tmp_path / "bench.db") as store:
        assert confirm(found, store) is found


def test_a_run_from_elsewhere_stays_provisional_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*_: object, **__: object) -> Place:
        raise CannotConfirm("it was measured on a machine that is not this one")

    monkeypatch.setattr(confirming, "place_of", nowhere)
    for slow_nights, word in ((1, Word.AMBIGUOUS), (2, Word.WORSE)):
        found = looked_at(suspicious(slow_nights=slow_nights), tmp_path)
        assert found[0] is word
        assert "provisional, not measured beside the last good version: it was measured on a machine" in found[1]


def test_an_alarm_says_in_a_line_why_it_was_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def another_bench(*_: object, **__: object) -> Place:
        raise CannotConfirm("its suite does not fit this version of bench: lab.yaml:3\n  sweep: is missing")

    monkeypatch.setattr(confirming, "place_of", another_bench)
    with Store.open(tmp_path / "bench.db") as store:
        found = with_alarms(confirm(suspicious(), store))
    (verdict,) = [verdict for verdict in found.verdicts if verdict.alarm]
    said = "its suite does not fit this version of bench: lab.yaml:3; sweep: is missing"
    assert f"  provisional, not measured beside the last good version: {said}" in alarm_lines(verdict, "eager")


def test_a_version_that_nobody_has_any_more_stays_provisional_and_says_why(tmp_path: Path, here: None) -> None:
    word, notes = looked_at(suspicious(), tmp_path)
    assert word is Word.AMBIGUOUS
    assert "the last good version cannot be rebuilt" in notes


def test_where_nothing_under_test_has_changed_it_is_said_to_be_the_machine(tmp_path: Path, here: None) -> None:
    word, notes = looked_at(suspicious(last=item(13)), tmp_path)
    assert word is Word.AMBIGUOUS
    assert "nothing under test has changed since the last good night (2026-03-14T03:00), and no package" in notes


def test_where_only_a_package_of_the_environment_has_moved_that_package_is_what_would_be_measured_as_it_was(
    tmp_path: Path, here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def installed(wanted: RevisionItem) -> str:
        asked.append(f"{wanted.name}=={wanted.version}")
        raise CannotRebuild("there is no index here")

    monkeypatch.setattr(versions, "_installed", installed)
    old, new = (factories.environment(**{"package:triton": release}) for release in ("3.5.0", "3.6.0"))
    rng = random.Random(2)
    runs = [dataclasses.replace(night(number, item(0))) for number in range(15)]
    rows = []
    for number, run in enumerate(runs):
        last = number == 14
        rows += trials(CASE, noisy(rng, 1.2e-2 if last else 1e-2, 0.003, 5), run_id=run.id, environment=new if last else old)
    found = split(runs, rows, [CASE], [old, new])
    found = dataclasses.replace(found, second=dataclasses.replace(found.second, environments={new.hard_hash + new.soft_hash: new}))
    word, notes = looked_at(found, tmp_path)
    assert (word, asked) == (Word.AMBIGUOUS, ["triton==3.5.0"])
    assert "there is no index here" in notes


def test_an_alarm_names_versions_facts_and_the_command_and_has_no_command_without_two_commits() -> None:
    (verdict,) = [v for v in with_alarms(suspicious(), words=" --db x.db").verdicts if v.series.metric == "time_s"]
    alarm = verdict.alarm
    assert alarm is not None
    assert alarm.since.startswith("2026-03-14")
    assert alarm.versions == (f"kernels: {commit(13)[:12]} → {commit(14)[:12]}",)
    assert alarm.bisect == f"bench bisect {verdict.series.key[:12]} {commit(13)[:12]} {commit(14)[:12]} --db x.db"
    assert alarm.machine == "no canary has a number to go by"
    loose = with_alarms(suspicious(last=RevisionItem("kernels", "path", diff_hash="f" * 64)))
    assert [v.alarm.bisect for v in loose.verdicts if v.alarm] == [None]


def test_alarms_are_for_what_is_worse_or_suspect_and_not_for_what_is_faster() -> None:
    rng = random.Random(4)
    runs = [night(number, item(number)) for number in range(15)]
    rows = []
    for number, run in enumerate(runs):
        rows += trials(CASE, noisy(rng, 0.8e-2 if number == 14 else 1e-2, 0.003, 5), run_id=run.id)
    found = split(runs, rows, [CASE])
    assert len(suspects(found)) == 1
    assert not [verdict for verdict in with_alarms(found).verdicts if verdict.alarm]
    assert answer(found).exit_code == 0


def test_of_very_many_suspects_only_the_largest_are_measured_again_and_the_others_say_so(
    tmp_path: Path, here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirming, "MOST_SUSPECTS", 2)
    cases = [factories.case("eager", seq_len=128 * place) for place in range(1, 5)]
    rng = random.Random(6)
    runs = [night(number, item(number)) for number in range(15)]
    rows = [
        row
        for number, run in enumerate(runs)
        for place, case in enumerate(cases)
        for row in trials(case, noisy(rng, 1e-2 * (1.1 + 0.1 * place if number == 14 else 1), 0.003, 5), run_id=run.id)
    ]
    with Store.open(tmp_path / "bench.db") as store:
        found = confirm(split(runs, rows, cases), store)
    told = {verdict.series.case.params["seq_len"]: " ".join(verdict.notes) for verdict in found.verdicts}
    assert {size: "2 largest changes" in notes for size, notes in told.items()} == {128: True, 256: True, 384: False, 512: False}
    assert all("provisional" in notes for notes in told.values())


def test_a_device_that_was_held_until_the_budget_was_over_leaves_what_the_screen_says(
    tmp_path: Path, here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_LOCK_DIR", str(tmp_path / "locks"))
    monkeypatch.setattr(confirming, "rebuilt", lambda name, *_: versions.Version(name, (), ()))
    monkeypatch.setattr(confirming, "current", lambda name, *_: versions.Version(name, (), ()))
    monkeypatch.setattr("bench.run.in_turn.run_command", lambda _options: "bench night")
    with device_lock("cpu", run_id="other", command="bench run other.yaml"):
        word, notes = looked_at(suspicious(), tmp_path, budget_s=0.1)
    assert word is Word.AMBIGUOUS
    assert "the budget was spent before it could be measured again: cpu was held" in notes
    assert "other.yaml" in notes
