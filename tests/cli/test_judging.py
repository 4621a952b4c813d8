"""Commands that judge, as typed: what they print in each format, and the exit codes that a nightly job rests on."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench.cli import alarms
from bench.cli.alarms import show_alarms
from bench.errors import SelectionError
from bench.judge import resampled
from bench.records import Case, Environment, RevisionItem, Run, RunState, Status
from bench.store import Store
from tests import factories
from tests.cli.conftest import Bench
from tests.judge.sides import H200

CASES = tuple(factories.case(subject, seq_len=size) for subject in ("eager", "sdpa_flash") for size in (128, 256))

Make = Callable[[Run, Case], Sequence[Mapping[str, Any]]]


def five(factor: float = 1.0, seed: int = 0, **changes: Any) -> Make:
    """Five trials a case, 0.3 % apart."""

    def make(run: Run, case: Case) -> list[dict[str, Any]]:
        rng = random.Random(f"{seed} {run.label} {case.key}")
        return [{"time_s": 1e-3 * factor * math.exp(rng.gauss(0, 0.003)), **changes} for _ in range(5)]

    return make


def stored(path: Path, label: str, make: Make, cases: Sequence[Case] = CASES, **changes: Any) -> Run:
    """A run of that label in the database, each trial of each case as `make` gives it."""
    with Store.open(path) as store:
        return added(store, label, make, cases, **changes)


def added(store: Store, label: str, make: Make, cases: Sequence[Case], **changes: Any) -> Run:
    run = factories.run(label=label, **changes)
    store.add_run(run)
    store.add_results(
        factories.result(run.id, case, index=index, **row) for case in cases for index, row in enumerate(make(run, case))
    )
    return run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "results.db"
    stored(found, "good", five(), started_at="2026-01-01T03:00:00+00:00")
    return found


def test_equal_sides_are_the_same_and_exit_with_0(bench: Bench, path: Path) -> None:
    stored(path, "again", five(seed=1))
    said = bench("compare", "good", "again", "--db", path)
    assert said.code == 0
    assert "12 same: nothing is worse among 12 judged rows" in said.out
    assert "worse" not in said.out.replace("nothing is worse", "")


def test_a_slower_side_exits_with_1_unless_asked_never_to(bench: Bench, path: Path) -> None:
    stored(path, "slow", lambda run, case: five(1.2 if case == CASES[0] else 1.0)(run, case))
    said = bench("compare", "good", "slow", "--db", path)
    assert said.code == 1
    (line,) = [line for line in said.out.splitlines() if line.startswith("worse")]
    for word in ("eager", "seq_len=128", "time_s", "1.20", "5/5", "±2 %"):
        assert word in line
    # The change that would have been seen, and the effect: every process of the second side is above all of the first.
    assert re.search(r"±2 % +[23]\.\d % +5/5 +\+1\.00 ", line)
    assert bench("compare", "good", "slow", "--fail-on", "never", "--db", path).code == 0
    assert bench("compare", "slow", "good", "--db", path).code == 0


def test_what_stopped_running_is_worse_and_what_runs_now_is_better(bench: Bench, path: Path) -> None:
    stored(path, "oom", lambda run, case: five(**({"status": Status.OOM} if case == CASES[1] else {}))(run, case))
    gone = bench("compare", "good", "oom", "--db", path)
    assert gone.code == 1
    assert "5 oom" in gone.out
    back = bench("compare", "oom", "good", "--db", path)
    assert (back.code, "1 better" in back.out) == (0, True)


def test_a_row_that_went_missing_exits_with_1_and_one_that_was_filtered_away_does_not(bench: Bench, path: Path) -> None:
    stored(path, "lost", five(), CASES[1:])
    stored(path, "filtered", five(), CASES[1:], options={"filters": ["seq_len=256"]})
    assert bench("compare", "good", "lost", "--db", path).code == 1
    said = bench("compare", "good", "filtered", "--db", path)
    assert (said.code, "not asked for it" in said.out) == (0, True)


def test_other_hardware_cannot_be_judged(bench: Bench, path: Path) -> None:
    stored(path, "elsewhere", five(environment=Environment(H200, {})))
    said = bench("compare", "good", "elsewhere", "--db", path)
    assert said.code == 3
    assert "gpu_model: not known → NVIDIA H200" in said.out
    assert "no row could be judged: 4 incomparable" in said.out


def test_a_run_that_is_going_cannot_be_judged(bench: Bench, path: Path) -> None:
    run = stored(path, "going", five(), state=RunState.RUNNING)
    said = bench("compare", "good", "going", "--db", path)
    assert (said.code, f"--resume {run.id}" in said.err) == (3, True)


def test_a_run_that_was_cut_off_is_judged_where_it_came_to_and_never_called_fine(bench: Bench, path: Path) -> None:
    stored(path, "cut", five(), CASES[:2], state=RunState.INTERRUPTED)
    said = bench("compare", "good", "cut", "--db", path)
    assert said.code == 3
    assert "2 rows are missing because the run is not whole" in said.out


def test_runs_without_rows_and_filters_without_cases_cannot_be_judged(bench: Bench, path: Path) -> None:
    stored(path, "empty", five(), ())
    nothing = bench("compare", "empty", "empty2", "--db", path)
    assert nothing.code == 2
    stored(path, "empty2", five(), ())
    assert bench("compare", "empty", "empty2", "--db", path).code == 3
    stored(path, "again", five())
    assert bench("compare", "good", "again", "--filter", "seq_len=4096", "--db", path).code == 3
    assert bench("compare", "good", "again", "--filter", "seqlen=128", "--db", path).code == 2


def test_excluded_rows_are_no_evidence_and_are_counted(bench: Bench, path: Path) -> None:
    run = stored(path, "excluded", five())
    with Store.open(path) as store:
        store.exclude_run(run.id, "the fan was broken")
    said = bench("compare", "good", "excluded", "--db", path)
    assert (said.code, "20 rows of the second side are excluded" in said.out) == (3, True)


def test_a_case_whose_rows_somebody_excluded_is_missing_and_not_worse(bench: Bench, path: Path) -> None:
    run = stored(path, "one less", five())
    with Store.open(path) as store:
        for row in store.results([run.id]):
            if row.case.key == CASES[0].key:
                store.exclude(row.id, "the machine was busy")
    said = bench("compare", "good", "one less", "--all", "--db", path)
    assert said.code == 0, said.out
    assert "its rows on the second side are excluded: the machine was busy" in said.out


def test_a_run_is_not_compared_with_itself_nor_with_what_is_not_there(bench: Bench, path: Path) -> None:
    run = stored(path, "again", five())
    for pair in (("again", run.id), ("good", "nowhere")):
        said = bench("compare", *pair, "--db", path)
        assert (said.code, said.out, "Traceback" in said.err) == (2, "", False)


def test_what_looked_again_at_some_rows_lacks_none_and_several_versions_in_one_run_are_no_side(bench: Bench, path: Path) -> None:
    stored(path, "again", five(), CASES[:1], reason="rerun", started_at="2026-01-02T03:00:00+00:00")
    stored(path, "in turn", five(), CASES[:1], reason="confirm", started_at="2026-01-03T03:00:00+00:00")
    for words in (("compare", "good", "again"), ("regress", "again")):
        found = bench(*words, "--all", "--db", path)
        assert (found.code, "not asked for it" in found.out) == (0, True)
    for words in (("compare", "good", "in turn"), ("compare", "in turn", "good"), ("regress", "in turn")):
        refused = bench(*words, "--db", path)
        assert (refused.code, "measured several versions of some rows in turn" in refused.err) == (2, True)


def test_a_revision_is_found_by_its_commit_and_its_version(bench: Bench, path: Path) -> None:
    revision = (RevisionItem("kernels", "path", commit="abcdef0123456789"), RevisionItem("flash-attn", "package", "2.8.3"))
    stored(path, "x", five(1.2), revision=revision, state=RunState.BROKEN)
    stored(path, "y", five(1.2), revision=revision)
    for word in ("abcdef0", "flash-attn==2.8.3"):
        said = bench("compare", "good", word, "--format", "json", "--db", path)
        assert (said.code, json.loads(said.out)["second"]["name"]) == (1, "y")


def test_the_shards_of_one_run_are_one_side_and_two_runs_of_one_label_are_none(bench: Bench, path: Path) -> None:
    for part in (1, 2):
        stored(path, "night", five(seed=part), CASES[part - 1 :: 2], options={"shard": [part, 2]})
    said = bench("compare", "good", "night", "--format", "json", "--db", path)
    found = json.loads(said.out)
    assert (len(found["second"]["runs"]), found["second"]["trials"], found["words"]) == (2, 20, {"same": 12})
    for _ in range(2):
        stored(path, "twice", five())
    assert bench("compare", "good", "twice", "--db", path).code == 2


def test_ambiguous_rows_fail_a_job_that_asks_for_it(bench: Bench, path: Path) -> None:
    stored(path, "one trial", lambda run, case: [{"time_s": 1e-3}])
    assert bench("compare", "good", "one trial", "--db", path).code == 0
    assert bench("compare", "good", "one trial", "--fail-on", "ambiguous", "--db", path).code == 1
    said = bench("compare", "good", "one trial", "--db", path)
    assert "can't tell (insufficient)" in said.out
    assert "--trials 5" in said.out


def test_all_times_moving_with_the_driver_is_the_machine_and_no_finding_against_the_code(bench: Bench, path: Path) -> None:
    stored(path, "driver", five(1.2, environment=factories.environment(driver="581")))
    said = bench("compare", "good", "driver", "--db", path)
    assert said.code == 3
    assert "environment: driver: not known → 581" in said.out
    assert "4 of 4 times are worse together" in said.out
    stored(path, "code", five(1.2))
    assert bench("compare", "good", "code", "--db", path).code == 1


def test_json_holds_every_row_with_what_explains_it(bench: Bench, path: Path) -> None:
    stored(path, "slow", five(1.2))
    found = json.loads(bench("compare", "good", "slow", "--format", "json", "--db", path).out)
    assert (found["schema"], found["exit_code"], found["verdicts"]) == (1, 1, {"worse": 4, "same": 8})
    row = next(row for row in found["rows"] if row["metric"] == "time_s")
    assert row["ratio"]["interval"]["low"] < 1.2 < row["ratio"]["interval"]["high"]
    assert row["threshold"]["source"]
    assert {"p_adjusted", "effect", "smallest_detectable", "series", "judging_version", "settle"} <= row.keys()


def test_junit_has_a_test_case_a_row_and_what_cannot_be_judged_is_an_error(bench: Bench, path: Path) -> None:
    def make(run: Run, case: Case) -> Sequence[Mapping[str, Any]]:
        kinds: dict[int, Make] = {0: five(1.2), 1: five(status=Status.CRASHED), 2: lambda r, c: [{"time_s": 1e-3}], 3: five()}
        return kinds[CASES.index(case)](run, case)

    stored(path, "mixed", make)
    said = bench("compare", "good", "mixed", "--format", "junit", "--db", path)
    root = ElementTree.fromstring(said.out)
    assert (said.code, root.get("failures"), root.get("errors"), root.get("skipped")) == (1, "1", "1", "1")
    assert int(root.get("tests", "0")) == len(root.findall("testcase")) == 10
    stored(path, "elsewhere", five(environment=Environment(H200, {})))
    said = bench("compare", "good", "elsewhere", "--format", "junit", "--db", path)
    assert ElementTree.fromstring(said.out).get("errors") == "1"


def test_markdown_stays_below_sixty_kilobytes_and_hostile_names_stay_text(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "hostile.db"
    name = "<img src=x onerror=alert(1)>|`\x1b[31m"
    cases = [dataclasses.replace(factories.case(), subject={"attention": f"{name}{place}"}) for place in range(400)]
    stored(path, "a", lambda run, case: [{"time_s": 1e-3}] * 3, cases)
    stored(path, "b", lambda run, case: [{"time_s": 2e-3}] * 3, cases)
    text = bench("compare", "a", "b", "--format", "markdown", "--db", path).out
    assert len(text.encode()) <= 60_000
    assert "rows more do not fit here" in text
    for format_ in ("markdown", "text", "json", "junit", "html"):
        out = bench("compare", "a", "b", "--format", format_, "--db", path).out
        assert "\x1b" not in out
        assert "<img" not in out or format_ in ("text", "json")
    assert "| worse | " in text


def test_a_file_is_written_in_one_step_and_its_name_is_told(bench: Bench, path: Path, tmp_path: Path) -> None:
    stored(path, "again", five())
    target = tmp_path / "verdicts.json"
    said = bench("compare", "good", "again", "--format", "json", "-o", target, "--db", path)
    assert (said.code, said.out.strip()) == (0, str(target))
    assert json.loads(target.read_text())["exit_code"] == 0


@pytest.mark.slow
def test_five_thousand_series_are_compared_in_about_the_time_that_showing_one_of_the_runs_takes(tmp_path: Path) -> None:
    """By CPU time and as a ratio, since other work may share the machine."""
    path = tmp_path / "large.db"
    cases = [factories.case("eager", seq_len=16 * size) for size in range(1, 1001)]
    for label in ("a", "b"):
        measured = {metric: factories.measurement(metric, (1e8,)) for metric in ("peak_bytes", "peak_total_bytes", "saved_bytes")}

        def make(run: Run, case: Case, measured: Mapping[str, Any] = measured) -> list[dict[str, Any]]:
            times = five()(run, case)
            return [{"measurements": (factories.measurement("time_s", (row["time_s"],)), *measured.values())} for row in times]

        stored(path, label, make, cases)

    def cpu_s(*arguments: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-m", "bench", *arguments, "--db", str(path)], capture_output=True, text=True, check=False
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.returncode == 0, done.stderr
        return after.ru_utime - before.ru_utime

    compared = min(cpu_s("compare", "a", "b") for _ in range(2))
    shown = min(cpu_s("show", "a") for _ in range(2))
    assert compared < 1.5 * shown, (compared, shown)


def nights(path: Path, factors: Sequence[float], environments: Mapping[int, Environment] | None = None) -> None:
    with Store.open(path) as store:
        for night, factor in enumerate(factors):
            changes = {"environment": environments[night]} if environments and night in environments else {}
            added(
                store,
                f"night {night}",
                five(factor, seed=night, **changes),
                CASES[:1],
                started_at=f"2026-02-{night + 1:02}T03:00:00+00:00",
                revision=(RevisionItem("kernels", "path", commit=f"{night:02}" * 20),),
            )


def key_of(bench: Bench, path: Path, metric: str = "time_s") -> str:
    (found,) = json.loads(bench("history", "--metric", metric, "--json", "--db", path).out)
    return str(found["series"])


def test_history_dates_a_step_to_its_revision_and_says_what_else_changed_there(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "nights.db"
    newer = factories.environment(driver="581")
    nights(path, [1.0] * 12 + [1.1] * 12, dict.fromkeys(range(12, 24), newer))
    said = bench("history", key_of(bench, path)[:12], "--db", path)
    assert said.code == 0
    (line,) = [line for line in said.out.splitlines() if line.startswith("step at")]
    for word in ("2026-02-13", "121212121", "1.099×", "worse, firm", "driver changed at that point too"):
        assert word in line
    (found,) = json.loads(bench("history", "--metric", "time_s", "--json", "--db", path).out)
    assert [step["event"] for step in found["steps"]] == [True]
    assert (len(found["points"]), found["drift"]) == (24, pytest.approx(1.1, rel=0.01))
    against = bench("history", found["series"], "--reference", "night 0", "--db", path)
    assert "the latest level is 1.099× the reference night 0" in against.out
    assert "× the best one\n" in against.out
    (row,) = [line for line in bench("history", "--metric", "time_s", "--db", path).out.splitlines() if "worse, firm" in line]
    assert " 1.100× " in row or " 1.099× " in row


def test_a_pinned_reference_is_held_against_however_old_it_is_and_may_be_a_baseline(bench: Bench, tmp_path: Path) -> None:
    """A window of nights forgets what 0.3 % a week add up to."""
    path = tmp_path / "nights.db"
    nights(path, [1.003 ** (night / 7) for night in range(28)])
    assert bench("baseline", "set", "release", "night 0", "--reason", "1.0", "--db", path).code == 0
    said = bench("history", "--metric", "time_s", "--last", "5", "--reference", "release", "--db", path)
    (row,) = [line for line in said.out.splitlines() if "time_s" in line]
    assert re.search(r"  5 .* – +1\.01\d×", row)
    (found,) = json.loads(
        bench("history", "--metric", "time_s", "--last", "5", "--reference", "release", "--json", "--db", path).out
    )
    assert found["against_reference"] == pytest.approx(1.003 ** (27 / 7), abs=0.004)
    stored(path, "of another case", five(), CASES[1:2])
    key = found["series"]
    assert (
        "of another case has no number of this series" in bench("history", key, "--reference", "of another case", "--db", path).out
    )


def test_a_step_that_later_nights_took_away_is_told_as_retracted(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "nights.db"
    nights(path, [1.0] * 14 + [1.06] * 4 + [1.0] * 9)
    said = bench("history", key_of(bench, path), "--db", path)
    (line,) = [line for line in said.out.splitlines() if line.startswith("retracted")]
    for word in ("step at 2026-02-15", "worse, told from 2026-02-1", "is none by what came after"):
        assert word in line
    assert "step at 2026-02-15" not in said.out.replace(line, "")


def test_a_step_that_was_repaired_is_no_event_any_more(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "nights.db"
    nights(path, [1.0] * 9 + [1.1] * 9 + [1.0] * 9)
    (found,) = json.loads(bench("history", "--metric", "time_s", "--json", "--db", path).out)
    assert [(step["worse"], step["recovered"], step["event"]) for step in found["steps"]] == [
        (True, True, False),
        (False, False, False),
    ]


def test_a_level_that_a_series_has_left_before_is_told_as_such(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "nights.db"
    nights(path, [1.0] * 9 + [1.1] * 6 + [1.0] * 6 + [1.1] * 6)
    said = bench("history", key_of(bench, path), "--db", path).out
    assert "× the best one, and the series has left it before" in said


def test_a_short_history_is_still_learning_and_memory_has_one_as_well(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "nights.db"
    nights(path, [1.0] * 3)
    said = bench("history", key_of(bench, path), "--db", path)
    assert "3 of the 10 points" in said.out
    assert "still learning: point 3 of 11" in said.out
    assert "1.00 MiB" in bench("history", key_of(bench, path, "peak_bytes"), "--db", path).out


def test_series_of_one_name_say_by_which_method_and_on_what_they_were_measured(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "ways.db"
    first = {"method_version": 1}
    for place, way in enumerate((first, {"method_version": 2}, first | {"environment": Environment(hard=H200, soft={})})):
        stored(path, f"way {place}", five(**way), CASES[:1])
    listed = bench("history", "--metric", "time_s", "--db", path).out
    for words in ("eager method 1 Test CPU", "eager method 2 Test CPU", "eager method 1 device=cuda NVIDIA H200"):
        assert words in " ".join(listed.replace("threads=1", "").replace("count=1", "").split())
    series = json.loads(bench("history", "--metric", "time_s", "--json", "--db", path).out)
    assert sorted((one["method_version"], one["hardware"]["device"]) for one in series) == [(1, "cpu"), (1, "cuda"), (2, "cpu")]
    (key,) = [one["series"] for one in series if one["method_version"] == 2]
    in_full = bench("history", key, "--db", path).out
    assert ("method 2" in in_full, "Test CPU" in in_full) == (True, True)
    assert "method" not in bench("history", "--metric", "time_s", "--last", "1", "--db", path).out


def test_history_lists_series_and_refuses_what_names_none(bench: Bench, path: Path) -> None:
    said = bench("history", "--db", path)
    assert said.code == 0
    assert said.out.count("time_s") == 4
    for arguments in (["zzz"], [""], ["--metric", "speed"], ["--filter", "seqlen=1"], ["--suite", "none"]):
        refused = bench("history", *arguments, "--db", path)
        assert (refused.code, "Traceback" in refused.err) == (2, False)


PLUGIN = '''"""A way to normalise, of known slowness."""
from bench.declare import implementation


@implementation(workload="rms_norm", dtypes=["fp32"])
def mine(spec):
    """The plain module, after a nap."""
    import time

    def replace(module):
        plain = module.forward

        def forward(x):
            time.sleep(NAP_S)
            return plain(x)

        module.forward = forward
        return module

    return replace
'''


@pytest.mark.slow
@pytest.mark.usefixtures("shared_server")
def test_a_kernel_that_really_became_slower_is_worse_than_itself_and_the_revision_says_which_edit(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real processes: the plug-in is edited between two runs."""
    monkeypatch.chdir(tmp_path)
    plugin, database = tmp_path / "mine.py", tmp_path / "bench.db"
    suite = Path(__file__).parent.parent.parent / "suites" / "rms_norm.yaml"
    for label, nap_s in (("before", 0.02), ("after", 0.08), ("again", 0.08)):
        plugin.write_text(PLUGIN.replace("NAP_S", str(nap_s)))
        said = bench(
            "run", suite, "--profile", "cpu", "--device", "cpu", "--set", "subjects.rms_norm=[mine]", "--set", "baseline.rms_norm=mine",
            "--filter", "seq_len=256", "--filter", "pass=forward", "--set", "protocol.min_samples=3", "--set", "protocol.max_samples=3",
            "--trials", "4", "--plugin", plugin, "--label", label,
            "--db", database,
        )  # fmt: skip
        assert said.code == 0, said.err
    slower = bench("compare", "before", "after", "--format", "json", "--db", database)
    found = json.loads(slower.out)
    (time,) = [row for row in found["rows"] if row["metric"] == "time_s"]
    assert (slower.code, time["word"], time["first"]["n"]) == (1, "worse", 4)
    assert 2 < time["ratio"]["value"] < 6  # naps are long, so that a busy machine adds little to them
    sides = [found[side]["revision"] for side in ("first", "second")]
    assert sides[0] != sides[1]
    # How long a nap lasts hangs on who else computes here; bytes do not.
    same = json.loads(bench("compare", "after", "again", "--format", "json", "--db", database).out)
    assert {row["word"] for row in same["rows"] if row["metric"] == "peak_bytes"} == {"same"}
    assert same["first"]["revision"] == same["second"]["revision"]


def decide(bench: Bench, *arguments: str | Path) -> None:
    said = bench(*arguments)
    assert said.code == 0, said.err


def test_a_baseline_is_compared_by_its_name_and_its_run_is_kept_whole(bench: Bench, path: Path) -> None:
    stored(path, "again", five())
    run = stored(path, "slow", five(1.2))
    assert "no baselines yet" in bench("baseline", "list", "--db", path).out
    decide(bench, "baseline", "set", "release", "good", "--reason", "version 1.0", "--author", "a person", "--db", path)
    assert bench("compare", "release", "slow", "--db", path).code == 1
    decide(bench, "baseline", "set", "release", run.id, "--reason", "slower on purpose", "--author", "a person", "--db", path)
    assert bench("compare", "release", "again", "--db", path).code == 0
    (found,) = json.loads(bench("baseline", "list", "--json", "--db", path).out)
    assert (found["run_id"], found["reason"], found["author"]) == (run.id, "slower on purpose", "a person")
    with Store.open(path) as store:
        assert run.id in [pin.run_id for pin in store.pins()]
    decide(bench, "baseline", "remove", "release", "--reason", "done", "--db", path)
    assert bench("compare", "release", "again", "--db", path).code == 2


def test_what_is_no_baseline_is_refused_in_words(bench: Bench, path: Path) -> None:
    stored(path, "cut", five(), state=RunState.INTERRUPTED)
    for arguments in (
        ["set", "release", "nowhere", "--reason", "x"],
        ["set", "release", "cut", "--reason", "x"],
        ["set", "latest", "good", "--reason", "x"],
        ["set", "a name", "good", "--reason", "x"],
        ["set", "release", "good"],
        ["set", "release", "good", "--reason", "x", "--until", "tomorrow"],
        ["remove", "release", "--reason", "x"],
    ):
        said = bench("baseline", *arguments, "--db", path)
        assert (said.code, "Traceback" in said.err) == (2, False), arguments
    assert json.loads(bench("baseline", "list", "--json", "--db", path).out) == []


def test_an_ended_baseline_is_refused_and_not_silently_something_else(bench: Bench, path: Path) -> None:
    stored(path, "old", five())
    stored(path, "new", five())
    decide(bench, "baseline", "set", "old", "good", "--reason", "x", "--until", "2020-01-01", "--db", path)
    said = bench("compare", "old", "new", "--db", path)
    assert (said.code, "ended on 2020-01-01" in said.err) == (2, True)


def test_an_accepted_change_fails_no_job_until_it_ends_or_grows(bench: Bench, path: Path) -> None:
    stored(path, "slow", five(1.2))
    stored(path, "slower", five(1.4))
    rows = json.loads(bench("compare", "good", "slow", "--format", "json", "--db", path).out)["rows"]
    worse = [row["series"] for row in rows if row["word"] == "worse"]
    accept = ("accept", "good", "slow", "--reason", "safer", "--until", "30d", "--author", "a person", "--db", path)
    decide(bench, *accept, "--series", worse[0][:16])
    assert bench("compare", "good", "slow", "--db", path).code == 1
    decide(bench, *accept, "--every")
    said = bench("compare", "good", "slow", "--db", path)
    assert (said.code, "(4 accepted)" in said.out) == (0, True)
    assert "by a person" in said.out
    assert ElementTree.fromstring(bench("compare", "good", "slow", "--format", "junit", "--db", path).out).get("failures") == "0"
    assert bench("compare", "good", "slower", "--db", path).code == 1


def test_what_only_the_second_look_of_a_night_showed_can_be_accepted(bench: Bench, path: Path) -> None:
    started = "2026-02-20T03:00:00+00:00"
    night = stored(path, "night", five(1.015), CASES[:1], started_at=started, reason="nightly")
    again = factories.run(reason="confirm", parent_run_id=night.id, started_at=started)
    rows = [
        factories.result(again.id, CASES[0], index=pair, time_s=1e-3 * factor * (1 + 0.001 * (pair % 3)))
        for arm, factor in (("good", 1.0), ("new", 1.03))
        for pair in range(8)
    ]
    in_arms = [
        dataclasses.replace(row, trial=dataclasses.replace(row.trial, arm="good" if place < 8 else "new", pair_index=place % 8))
        for place, row in enumerate(rows)
    ]
    compared = json.loads(bench("compare", "good", "night", "--format", "json", "--db", path).out)
    (key,) = [row["series"] for row in compared["rows"] if row["metric"] == "time_s"]
    words = (
        "accept",
        "good",
        "night",
        "--series",
        key[:12],
        "--reason",
        "wanted",
        "--until",
        "30d",
        "--author",
        "me",
        "--db",
        path,
    )
    assert bench(*words).code == 2
    with Store.open(path) as store:
        store.add_run(again)
        store.add_results(in_arms)
    accepted = bench(*words)
    assert (accepted.code, accepted.out.startswith("1 row is accepted until ")) == (0, True)
    with Store.open(path) as store:
        assert {(one.series_key, round(one.ratio or 0, 3)) for one in store.acceptances()} == {(key, 1.03)}


def test_an_acceptance_needs_rows_a_reason_and_an_end(bench: Bench, path: Path) -> None:
    stored(path, "slow", five(1.2))
    stored(path, "same", five())
    for arguments in (
        ["slow", "--reason", "x", "--until", "30d"],
        ["slow", "--reason", "x", "--every"],
        ["slow", "--until", "30d", "--every"],
        ["slow", "--reason", "x", "--until", "2020-01-01", "--every"],
        ["slow", "--reason", "x", "--until", "30d", "--series", "zzz"],
        ["slow", "--reason", "x", "--until", "99999999999d", "--every"],
    ):
        said = bench("accept", "good", *arguments, "--db", path)
        assert (said.code, "Traceback" in said.err) == (2, False), arguments
    nothing = bench("accept", "good", "same", "--reason", "x", "--until", "30d", "--every", "--db", path)
    assert (nothing.code, "nothing to accept" in nothing.err) == (0, True)
    assert bench("compare", "good", "slow", "--db", path).code == 1


def test_regress_judges_the_latest_night_against_those_before(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "nights.db"
    nights(path, [1.0] * 12 + [1.1])
    first = bench("regress", "--db", path)
    assert first.code == 0
    assert "suspect" in first.out
    run = factories.run(label="night 13", started_at="2026-02-20T03:00:00+00:00")
    with Store.open(path) as store:
        store.add_run(run)
        store.add_results(
            factories.result(run.id, CASES[0], index=index, **row) for index, row in enumerate(five(1.1)(run, CASES[0]))
        )
    second = bench("regress", "--format", "json", "--db", path)
    found = json.loads(second.out)
    assert (second.code, found["second"]["name"], found["verdicts"]["worse"]) == (1, "night 13", 1)
    assert bench("regress", "night 12", "--db", path).code == 0
    said = bench("regress", "--format", "junit", "--db", path)
    assert ElementTree.fromstring(said.out).get("failures") == "1"


def test_the_first_nights_are_learning_and_exit_with_0(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "nights.db"
    nights(path, [1.0])
    said = bench("regress", "--db", path)
    assert (said.code, "all is learning" in said.err) == (0, True)
    stored(path, "night 1", five(2.0), CASES[:1], started_at="2026-02-20T03:00:00+00:00")
    said = bench("regress", "--db", path)
    assert (said.code, "still learning" in said.out) == (0, True)


def test_a_program_that_waits_for_json_gets_it_where_there_is_nothing_to_judge(bench: Bench, tmp_path: Path) -> None:
    path, written = tmp_path / "nights.db", tmp_path / "night.json"
    nights(path, [1.0])
    said = bench("regress", "latest", "--json", "--db", path)
    found = json.loads(said.out)
    assert (said.code, found["exit_code"], found["rows"], found["first"]) == (0, 0, [], None)
    assert found["why"].endswith("is the first night of suite attention: all is learning, nothing can be judged")
    assert bench("regress", "--json", "-o", written, "--db", path).code == 0
    assert json.loads(written.read_text()) == found
    stored(path, "next", five(), CASES[:1], started_at="2026-02-20T03:00:00+00:00")
    judged = bench("regress", "latest", "--json", "--db", path)
    assert json.loads(judged.out).keys() == found.keys()
    stored(path, "going", five(), state=RunState.RUNNING, started_at="2026-02-21T03:00:00+00:00")
    for command in (["regress", "going"], ["compare", "next", "going"]):
        said = bench(*command, "--json", "--db", path)
        told = json.loads(said.out)
        assert (said.code, told["exit_code"], told.keys()) == (3, 3, found.keys()), command
        assert told["why"] in said.err


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"state": RunState.INTERRUPTED}, "was interrupted, so it is none itself until it is finished: bench run --resume "),
        ({"state": RunState.BROKEN}, "is broken, so it is none itself until it is finished: bench run --resume "),
        ({"state": RunState.BUDGET}, "ended with its budget, so it is none itself until it is finished: bench run --resume "),
        ({"reason": "rerun"}, "only looked at some rows again, so it is none itself: bench run measures a suite"),
    ],
)
def test_a_first_run_that_is_no_night_is_never_called_finished_and_says_how_it_becomes_one(
    bench: Bench, tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    path = tmp_path / "nights.db"
    run = stored(path, "cut", five(), CASES[:1], **changes)
    said = bench("regress", "--db", path)
    assert (said.code, "is learning" in said.err, said.out) == (3, False, "")
    assert f"no night of suite attention before run {run.id}, and that one {why}" in said.err
    again = f"bench run --resume {run.id} --db {path}"
    assert (again in said.err) is ("--resume" in why)


def test_a_night_without_rows_or_without_an_end_cannot_be_judged(bench: Bench, path: Path) -> None:
    stored(path, "nothing", five(), (), started_at="2026-02-20T03:00:00+00:00")
    stored(path, "going", five(), state=RunState.RUNNING, started_at="2026-02-21T03:00:00+00:00")
    assert bench("regress", "nothing", "--db", path).code == 3
    assert bench("regress", "going", "--db", path).code == 3
    assert bench("regress", "nowhere", "--db", path).code == 2


def test_alarms_are_counted_on_runs_of_one_revision_and_refused_on_others(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def ten(run: Run, case: Case) -> list[dict[str, Any]]:
        return [row for seed in (1, 2) for row in five(seed=seed)(run, case)]

    for number in (1, 2):
        stored(path, f"aa {number}", ten, started_at=f"2026-01-0{number}T00:00:00+00:00")
    assert show_alarms(["aa 1", "aa 2"], str(path), as_json=True) == 0
    within, _, between, each = json.loads(capsys.readouterr().out)
    assert (within["rows"], within["processes"], within["alarms"], between["rounds"]) == (160, 5, 0, 1)
    assert [(one["processes"], one["runs"]) for one in each["series"]] == [(20, 2)] * len(CASES)
    assert all(0.001 < one["spread_of_processes"] < 0.01 and one["can_show"] > 0.02 for one in each["series"])
    assert show_alarms(["aa 1"], str(path), as_json=False) == 0
    text = capsys.readouterr().out
    assert "within run" in text
    assert "alarms in 480 judged rows of all metrics, at most" in text
    assert re.search(r"eager seq_len=128 +10 +1 +0\.\d+ % +– +\d\.\d %\n", text)
    stored(path, "five", five(seed=9), started_at="2026-01-03T00:00:00+00:00")
    assert show_alarms(["good", "five"], str(path), as_json=True) == 0
    said = capsys.readouterr()
    assert [one["way"] for one in json.loads(said.out)] == ["between", "spreads"]
    assert "only compared with the others" in said.err
    stored(path, "other", ten, revision=())
    with pytest.raises(SelectionError, match="revisions"):
        show_alarms(["aa 1", "other"], str(path), as_json=True)
    with pytest.raises(SelectionError, match="--trials 16"):
        show_alarms(["good"], str(path), as_json=True)


def test_whole_nights_are_drawn_from_forty_processes_and_more_alarms_than_are_granted_fail(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forty(run: Run, case: Case) -> list[dict[str, Any]]:
        return [row for seed in range(8) for row in five(seed=seed)(run, case)]

    stored(path, "forty", forty, CASES[:2])
    monkeypatch.setattr(alarms, "NIGHTS", 500)
    assert show_alarms(["forty"], str(path), as_json=False) == 0
    said = capsys.readouterr().out
    assert "of each of 2 series: of 500 series-nights without a change" in said
    assert "(0.00 per 1 000, at most 5.99; 5 granted)" in said
    assert re.search(r"confirmed \+2 %: .*, \+5 %: (100|9\d)\.\d%", said)
    real = resampled.nightly
    monkeypatch.setattr(resampled, "nightly", lambda *given, **named: dataclasses.replace(real(*given, **named), alarms=20))
    assert show_alarms(["forty"], str(path), as_json=False) == 1
