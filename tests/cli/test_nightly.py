"""A night, from measuring to the culprit, with real processes: a kernel becomes slower and larger in one of three commits.

Naps are long, so that a busy machine adds little to them. Where the commits are not what is looked for the memory is judged, which has no
noise at all.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.cli import main
from bench.records import RunState, Status
from bench.run.versions import VERSIONS_DIR_VARIABLE
from tests.cli.conftest import Bench
from tests.cli.nightly_lab import Lab, napping
from tests.lending import Lender

Told = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module", autouse=True)
def _one_server(lender: Lender) -> Iterator[None]:
    """What is looked at here is what a night does with trials, and not how a server lives."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bench.run.worker.ForkServer", lender.borrow)
        yield


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Twelve good nights, and three commits after them of which the second takes a longer nap."""
    folder = tmp_path_factory.mktemp("lab")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VERSIONS_DIR_VARIABLE, str(folder / "versions"))
        made = Lab(folder)
        made.commit("A norm", napping(0.02))
        made.measure("first")
        made.nights_before("first", 12)
        made.commit("Other words", napping(0.02) + "# one\n")
        made.commit("A longer nap", napping(0.08, kept_mib=2))
        made.commit("More words", napping(0.08, kept_mib=2) + "# two\n")
        yield made


@pytest.fixture(scope="module")
def night(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str, Path]:
    """Tonight, as the job runs it: exit code, output and the folder of its files."""
    files = tmp_path_factory.mktemp("files")
    out = files / "out"
    words = ("night", lab.suite, "--plugin", lab.plugin, "--device", "cpu", "--pairs", "4", "--files", files, "--db", lab.database)
    with out.open("w") as stream, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", stream)
        code = main([str(word) for word in words])
    return code, out.read_text(), files


pytestmark = pytest.mark.slow


def test_a_suspect_is_measured_again_in_turn_with_the_last_good_commit_and_fails_the_night(
    lab: Lab, night: tuple[int, str, Path]
) -> None:
    code, _, files = night
    assert code == 1
    found = json.loads((files / "lab.json").read_text())
    worse, larger = (next(row for row in found["rows"] if row["metric"] == metric) for metric in ("time_s", "peak_bytes"))
    assert (worse["word"], worse["screening"], larger["word"], larger["screening"]) == ("worse", "suspect", "worse", None)
    for row in (worse, larger):
        assert row["reason"].startswith("confirmed: measured again in turn with the version of")
        assert row["confirmed_in"] == worse["confirmed_in"]
    assert 2 < worse["ratio"]["value"] < 6
    (run,) = [run for run in lab.runs() if run.reason == "confirm"]
    assert (run.id, run.state) == (worse["confirmed_in"], RunState.FINISHED)
    rows = lab.rows(run.id)
    assert {row.status for row in rows} == {Status.OK}
    pairs = len(rows) // 2
    assert sorted((row.trial.arm, row.trial.pair_index) for row in rows) == [
        (arm, pair) for arm in ("good", "new") for pair in range(pairs)
    ]
    # A B B A: each pair begins with the version that the one before it ended with.
    in_time = [row.trial.arm for row in sorted(rows, key=lambda row: row.started_at)]
    assert in_time == (["good", "new", "new", "good"] * pairs)[: 2 * pairs]
    (good,) = run.options["arms"]["good"]
    assert (good["commit"], run.revision[0].commit) == (lab.commits[0], lab.commits[-1])


def test_the_alarm_names_the_commits_the_machine_and_the_next_command_in_twenty_lines(night: tuple[int, str, Path]) -> None:
    _, said, files = night
    assert 5 < len(said.splitlines()) <= 20
    markdown, junit = (files / "lab.md").read_text(), ElementTree.parse(files / "lab.xml").getroot()
    failure = junit.find(".//failure")
    assert failure is not None
    for text in (said, (files / "lab.txt").read_text(), markdown, failure.text or ""):
        for words in ("A longer nap", "Other words", "last good night", "canar", "bench bisect"):
            assert words in text
    assert "nights did not run since 2026-01-12" in said


def _series(bench: Bench, lab: Lab, metric: str) -> str:
    (found,) = json.loads(bench("history", "--metric", metric, "--json", "--db", lab.database).out)
    return str(found["series"])


def test_the_command_of_the_alarm_finds_the_commit(lab: Lab, night: tuple[int, str, Path], bench: Bench) -> None:
    time_key = _series(bench, lab, "time_s")
    (line,) = [line for line in (night[2] / "lab.txt").read_text().splitlines() if f"bench bisect {time_key[:12]}" in line]
    found = bench(*shlex.split(line)[1:], "--pairs", "4", "--json", "--db", lab.database)
    assert found.code == 0, found.err
    told = json.loads(found.out)
    assert [one["candidate"] for one in told["culprits"]] == [lab.commits[2]]
    assert "A longer nap" in told["culprits"][0]["words"]
    assert told["difference"]["word"] == "worse"
    assert {step["side"] for step in told["steps"]} <= {"good", "bad"}


def test_git_bisect_run_takes_a_step_at_its_word_and_what_cannot_be_judged_is_never_bad(
    lab: Lab, night: tuple[int, str, Path], bench: Bench
) -> None:
    words = (_series(bench, lab, "peak_bytes"), lab.commits[0], lab.commits[-1])
    more = ("--pairs", "3", "--db", str(lab.database))
    lab.git("bisect", "start", lab.commits[2], lab.commits[0])
    try:
        said = lab.git("bisect", "run", sys.executable, "-m", "bench", "bisect", "--step", *words, *more)
        assert f"{lab.commits[2]} is the first bad commit" in said
        assert "good: 1.000× the good one" in said
        assert bench("bisect", "--step", words[0], "nowhere", "neither", *more).code == 128
        assert bench("bisect", "--step", "zzz", *words[1:], *more).code == 128
        lab.plugin.write_text("not a plug-in")
        assert bench("bisect", "--step", *words, *more).code == 125
    finally:
        lab.git("checkout", "--quiet", "--force", "main")
        lab.git("bisect", "reset")


def test_good_and_bad_that_do_not_differ_are_told_and_nothing_is_looked_for(
    lab: Lab, night: tuple[int, str, Path], bench: Bench
) -> None:
    key = _series(bench, lab, "peak_bytes")
    found = bench("bisect", key, lab.commits[0], lab.commits[1], "--pairs", "3", "--json", "--db", lab.database)
    told = json.loads(found.out)
    assert (found.code, told["culprits"], told["steps"], told["difference"]["word"]) == (3, [], [], "same")


def test_a_run_of_several_versions_is_no_night_and_no_latest_run(lab: Lab, night: tuple[int, str, Path], bench: Bench) -> None:
    again = bench("regress", "--no-confirm", "--format", "json", "--db", lab.database)
    found = json.loads(again.out)
    (tonight,) = [run for run in lab.runs() if run.reason == "nightly" and run.started_at > "2026-02"]
    assert found["second"]["runs"] == [tonight.id]
    assert not [run for run in found["first"]["runs"] if run == night[1]]
    (series,) = json.loads(bench("history", "--metric", "time_s", "--json", "--db", lab.database).out)
    assert (series["arm"], len(series["points"])) == ("-", 14)
