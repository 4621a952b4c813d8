"""A dry run lists the arms of a suite readably, and says what a search may take."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from bench.store import Store
from tests.cli.conftest import Bench
from tests.suite.many_slots import SUITE, plugin_in


def planned(bench: Bench, folder: Path, *options: str, **changes: Any) -> str:
    suite = folder / "steps.yaml"
    suite.write_text(json.dumps({**SUITE, **changes}))
    said = bench("run", suite, "--plugin", plugin_in(folder), "--device", "cpu", "--dry-run", "--db", folder / "none.db", *options)
    assert said.code == 0, said.err
    return said.out


def test_a_plan_lists_each_arm_once_by_its_label_with_what_it_fills_and_where_the_suite_names_it(
    bench: Bench, tmp_path: Path
) -> None:
    out = planned(
        bench,
        tmp_path,
        arms=[{"name": "best", "step": "flash", "layers": "liger"}],
        ladder=[{"step": "flash"}, {"layers": "liger"}],
        pairs={"liger": {"layers": "liger"}, "compiled": {"step_norm": "compiled"}},
        leave_one_out={"liger": {"layers": "liger"}, "flash": {"step": "flash"}},
    )
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "defaults: step=plain step_norm=plain step_rope=plain step_precision=plain" in lines
    assert "best step=flash layers=liger ladder 2: + layers=liger, all" in lines
    assert "defaults ladder 0: start, pairs: none" in lines
    assert "step=flash ladder 1: + step=flash, all but liger" in lines
    assert "no pairs, because they fill one slot in two ways: liger + compiled" in lines
    assert "5 cases, 25 trials in 1 block" in out


def test_a_dry_run_is_refused_where_the_run_would_be_and_takes_an_empty_database_for_none(bench: Bench, tmp_path: Path) -> None:
    database = tmp_path / "bench.db"
    words = ("run", "rms_norm", "--profile", "cpu", "--device", "cpu", "--dry-run", "--db", database)
    database.touch()
    assert bench(*words).code == 0
    with Store.open(database), sqlite3.connect(database) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'of_tomorrow'")
    said = bench(*words)
    assert (said.code, said.out) == (2, "")
    assert "newer than this bench" in said.err
    database.write_text("no database")
    assert bench(*words).code == 2


def test_a_plan_with_filters_lists_only_the_arms_that_are_left(bench: Bench, tmp_path: Path) -> None:
    out = planned(bench, tmp_path, "--filter", "step=flash", arms=[{}, {"step": "flash"}])
    assert "    step=flash" in out
    assert "    defaults" not in out


def test_the_plan_of_a_search_says_from_where_to_where_how_finely_and_how_many_trials_at_most(bench: Bench, tmp_path: Path) -> None:
    sweep = {"pass": "forward"}
    search = {"axis": "size", "until": "oom", "from": 4, "to": 64}
    out = planned(bench, tmp_path, arms=[{}, {"step": "flash"}], sweep=sweep, search=search)
    assert "2 searches of size from 4 to 64 until oom, down to an eighth of what fits; at most 16 trials" in out
    assert "in steps of 4" in planned(bench, tmp_path, arms=[{}], sweep=sweep, search={**search, "step": 4})


def test_a_suite_of_one_slot_is_planned_in_the_words_of_before(bench: Bench, tmp_path: Path) -> None:
    sweep = {"model": "tiny", "seq_len": 16, "batch": 1, "dtype": "fp32", "pass": "forward"}
    out = planned(bench, tmp_path, workload="attention", subjects={"attention": ["eager", "sdpa_math"]}, sweep=sweep)
    assert "2 cases, 10 trials in 1 block" in out
    assert "eager" not in out
    assert "defaults" not in out


def test_a_plan_as_json_names_arms_and_search_for_programs(bench: Bench, tmp_path: Path) -> None:
    search = {"axis": "size", "until": "oom", "from": 4, "to": 64}
    out = planned(bench, tmp_path, "--json", ladder=[{"layers": "liger"}], sweep={"pass": "forward"}, search=search)
    (suite,) = json.loads(out)["suites"]
    assert suite["search"] == {**search, "step": None}
    assert [arm["label"] for arm in suite["arms"]] == ["defaults", "layers=liger"]
    assert suite["arms"][1]["places"] == [{"key": "ladder", "position": 1, "parts": ["layers=liger"], "left_out": None}]
    assert (suite["trials"], suite["most_trials"]) == (2, 16)


def test_a_bare_name_that_no_suite_has_is_answered_with_the_nearest_one(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = bench("run", "rms_nrm", "attentoin", "zzz", "--dry-run")
    assert said.code == 2
    for words in (
        "did you mean 'rms_norm'?",
        "did you mean 'attention'?",
        "zzz: suites/ has no suite of this name (`bench list suites`",
    ):
        assert words in said.err
    twice = bench(
        "run", "rope", "suites/rope.yaml", "--profile", "cpu", "--device", "cpu", "--dry-run", "--db", tmp_path / "no.db"
    ).out
    assert twice.count("\nrope: ") == 1
    monkeypatch.chdir(tmp_path)
    assert "no suites/ that could hold it" in bench("run", "rope", "--dry-run").err
