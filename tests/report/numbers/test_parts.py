"""Runs that measured parts of one suite are one run on a page; what was measured twice, or asked otherwise, stays apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.cli import main
from bench.records import EXTERNAL, Result, Run, RunState
from bench.report import render_markdown, render_page
from bench.report.numbers.parts import PARTS, told_as_one
from bench.report.numbers.summary import gather
from bench.report.recompute.verify import verify_page
from bench.store import Store
from tests import factories
from tests.report.chromium import NOW


def part(number: int, *filters: str, **more: Any) -> Run:
    options = {"profile": "quick", "sets": [], "filters": list(filters), "device": f"cuda:{number}"}
    began = {"started_at": f"2026-02-0{number + 1}T00:00:00.000+00:00", "finished_at": f"2026-02-0{number + 1}T01:00:00.000+00:00"}
    command = " ".join(("bench run suites/attention.yaml --profile quick", *(f"--filter {text}" for text in filters)))
    return factories.run(**{"options": options, "command": command, "planned_trials": 2, **began, **more})


def row(run: Run, size: int, subject: str = "sdpa_flash", **trial: Any) -> Result:
    made = factories.result(run.id, factories.case(subject, seq_len=size))
    return replace(made, trial=replace(made.trial, **trial))


def test_parts_become_the_run_that_they_make_up_and_each_block_stays_its_own() -> None:
    first, second = part(0, "seq_len=512"), part(1, "seq_len=1024")
    rows = [row(second, 1024), row(first, 512), row(first, 512, "eager", block=3)]
    (run,), results = told_as_one([second, first], rows)
    assert (run.id, run.started_at, run.finished_at) == (first.id, first.started_at, second.finished_at)
    assert run.options[PARTS] == [first.id, second.id]
    assert run.options["filters"] == ["seq_len=512,1024"]
    assert run.command.splitlines() == [first.command, second.command]
    assert run.planned_trials == 4
    assert {result.run_id for result in results} == {first.id}
    assert [result.trial.block for result in results] == [0, 3, 4]
    assert sorted(result.id for result in results) == sorted(result.id for result in rows)


@pytest.mark.parametrize(
    ("filters", "told"),
    [
        ((("a=1", "b=1"), ("a=2", "b=1")), ["a=1,2", "b=1"]),
        ((("a=1", "b=1"), ("a=2", "b=2")), []),
        ((("a=1",), ("b=2",)), []),
        ((("a=1",), ()), []),
    ],
)
def test_filters_are_told_only_where_they_would_pick_the_same(filters: tuple[tuple[str, ...], ...], told: list[str]) -> None:
    runs = [part(number, *texts) for number, texts in enumerate(filters)]
    (run,), _ = told_as_one(runs, [row(run, 512 * (number + 1)) for number, run in enumerate(runs)])
    assert run.options["filters"] == told


@pytest.mark.parametrize(
    "other",
    [
        {"harness_version": "0.1.0+other"},
        {"label": "after the change"},
        {"device": "cpu"},
        {"suite": "rope"},
        {"suite_data": {"workload": "attention", "protocol": {"trials": 9}}},
        {"parent_run_id": "01a2"},
        {"options": {"profile": "published", "filters": []}},
    ],
)
def test_what_was_asked_otherwise_stays_apart(other: dict[str, Any]) -> None:
    first, second = part(0, "seq_len=512", device="cuda"), part(1, "seq_len=1024", **{"device": "cuda", **other})
    runs, results = told_as_one([first, second], [row(first, 512), row(second, 1024)])
    assert runs == [first, second]
    assert [result.run_id for result in results] == [first.id, second.id]


def test_parts_on_other_hardware_stay_apart_and_so_do_runs_without_rows_and_audits() -> None:
    first, second = part(0, "seq_len=512"), part(1, "seq_len=1024")
    other = replace(factories.environment(), hard={"device": "cuda", "gpu_model": "another"})
    rows = [row(first, 512), replace(row(second, 1024), environment=other)]
    assert told_as_one([first, second], rows)[0] == [first, second]
    assert told_as_one([first, second], rows[:1])[0] == [first, second]
    audits = [replace(run, reason=EXTERNAL) for run in (first, second)]
    assert told_as_one(audits, [row(first, 512), row(second, 1024)])[0] == audits
    ranks = [replace(one, environment=replace(one.environment, hard={**one.environment.hard, "count": n})) for n, one in enumerate(
        (row(first, 512), row(second, 1024)), 1
    )]  # fmt: skip
    assert len(told_as_one([first, second], ranks)[0]) == 1


def test_a_part_that_began_a_point_anew_replaces_its_own_rows_alone() -> None:
    first, second = part(0, "attention=eager"), part(1, "attention=sdpa_flash")
    rows = [row(first, 512, "eager"), row(first, 512, "eager", attempt=1), row(second, 512, "sdpa_flash")]
    (run,), results = told_as_one([first, second], rows)
    assert [result.trial.attempt for result in results] == [0, 1, 1]
    cases, _ = gather(run, results)
    assert {case.label: len(case.counted) for case in cases} == {"eager": 1, "sdpa_flash": 1}


def test_a_case_that_was_measured_twice_is_a_repetition() -> None:
    first, second, third = part(0), part(1), part(2, "seq_len=1024")
    runs, results = told_as_one([first, second, third], [row(first, 512), row(second, 512), row(third, 1024)])
    assert [run.options.get(PARTS) for run in runs] == [[first.id, third.id], None]
    assert sorted(result.run_id for result in results) == sorted((first.id, first.id, second.id))


def test_each_part_may_have_measured_the_same_canary() -> None:
    data = {"workload": "attention"}
    first, second = part(0, "seq_len=512", suite_data=data), part(1, "seq_len=1024", suite_data=data)
    canary = factories.case("torch_matmul", workload="matmul", params={"m": 8192, "n": 8192, "k": 8192})
    rows = [*(factories.result(run.id, canary) for run in (first, second)), row(first, 512), row(second, 1024)]
    (run,), results = told_as_one([first, second], rows)
    assert run.options[PARTS] == [first.id, second.id]
    assert [result.trial.index for result in results if result.trial.case == canary] == [0, 1]


def test_a_run_with_a_part_that_did_not_end_has_not_ended() -> None:
    first, second = part(0, "seq_len=512"), part(1, "seq_len=1024", state=RunState.INTERRUPTED, finished_at=None)
    (run,), _ = told_as_one([first, second], [row(first, 512), row(second, 1024)])
    assert (run.state, run.finished_at) == (RunState.INTERRUPTED, None)


def test_a_page_of_parts_names_them_and_agrees_with_its_own_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [part(0, "seq_len=512"), part(1, "seq_len=1024")]
    rows = [row(run, 512 * (number + 1), subject) for number, run in enumerate(parts) for subject in ("sdpa_flash", "eager")]
    runs, results = told_as_one(parts, rows)
    page = render_page(runs, results, now=NOW)
    assert page.count("Suite attention") == render_page(runs[:1], results, now=NOW).count("Suite attention")
    assert all(run.id in page for run in parts)
    assert not verify_page(page).differences
    assert render_markdown(runs, results).count("attention, profile quick") <= render_markdown(parts, rows).count(
        "attention, profile quick"
    )
    with Store.open(str(tmp_path / "parts.db")) as store:
        for run in parts:
            store.add_run(run)
        for result in rows:
            store.add_result(result)
    asked = ["report", parts[0].id, parts[1].id, "--db", str(tmp_path / "parts.db"), "-o"]
    assert main([*asked, str(tmp_path / "page.html")]) == 0
    assert ", ".join(run.id for run in parts) in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert main([*asked, str(tmp_path / "rows.json")]) == 0
    assert all(run.id in (tmp_path / "rows.json").read_text(encoding="utf-8") for run in parts)
    capsys.readouterr()
