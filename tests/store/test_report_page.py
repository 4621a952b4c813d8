"""The rows of a report that was mailed come into a database: once, with what the page tells and nothing more."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.errors import SelectionError, StoreError
from bench.judge.shared_gpu import computed_beside
from bench.records import IMPORTED, METHOD_VERSION, Check, Cost, Result, Run, Status
from bench.report import render_page
from bench.report.numbers.summary import TOLERANCE_WORDS, summarize
from bench.run import rerun, resume
from bench.store import Store, publish
from bench.store.page_data import BEGINNING, TOLERATED, NoPage, read_page_data
from tests import factories

NOW = "2026-01-02T04:00:00+00:00"
GPU = "GPU-60850100-ca60-f302-b118-74ae106ea6a8"


def measured() -> tuple[Run, list[Result]]:
    run = factories.run(
        id="run-a", suite_data={"schema": 1, "name": "attention", "workload": "attention", "baseline": {"attention": "eager"}},
        options={"filters": ["dtype=fp32"], "suite_folder": "/srv/secret"},
    )  # fmt: skip
    busy = {"gpu_uuid": GPU, "machine_busy_share": 0.97, "busy_processes": [{"name": "game"}]}
    rows = [
        factories.result(
            run.id, factories.case(name), id=f"row-{name}-{index}", index=index, time_s=1e-3 * (1 + index / 100), conditions=busy
        )
        for name in ("eager", "flex")
        for index in range(3)
    ]
    oom = factories.result(run.id, factories.case("math"), id="row-oom", status=Status.OOM, reason="no memory left")
    return run, [*rows, oom]


@pytest.fixture(scope="module")
def page() -> str:
    run, rows = measured()
    return render_page([run], rows, now=NOW)


@pytest.fixture
def mailed(tmp_path: Path, page: str) -> Path:
    path = tmp_path / "mailed.html"
    path.write_text(page, encoding="utf-8")
    return path


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "here.db") as store:
        yield store


def with_data(page: str, change: Callable[[Any], object]) -> str:
    """The page with its data changed by a function."""
    before, rest = page.split(BEGINNING)
    text, after = rest.split("</script>", 1)
    data = json.loads(text)
    change(data)
    return before + BEGINNING + json.dumps(data) + "</script>" + after


def test_rows_come_with_their_case_medians_hardware_and_source(store: Store, mailed: Path) -> None:
    report = store.import_file(mailed)
    assert (report.runs_new, report.results_new, report.conflicts) == (1, 7, ())
    (run,) = store.runs()
    _, rows = measured()
    found = {row.conditions["source"]["result"]: row for row in store.results([run.id])}
    first, told = rows[1], found["row-eager-1"]
    assert told.case == first.case
    assert told.environment == first.environment
    assert told.measurement("time_s").samples == (pytest.approx(1.0201e-3, rel=1e-12),)  # type: ignore[union-attr]
    assert "median of 3 samples" in told.measurement("time_s").note  # type: ignore[union-attr,operator]
    assert (told.cost, told.proof.verdict, told.command) == (first.cost, "proved", first.command)  # type: ignore[union-attr]
    assert told.method_version == METHOD_VERSION
    assert (found["row-oom"].status, found["row-oom"].reason) == (Status.OOM, "no memory left")
    assert told.conditions["gpu_uuid"] == GPU
    source = told.conditions["source"]
    assert (source["format"], source["file"], source["run"]) == ("report", "mailed.html", "run-a")
    assert store.check() == []


def test_a_page_that_travels_light_brings_the_same_rows_though_its_data_are_packed(here: Store, mailed: Path) -> None:
    run, rows = measured()
    light = mailed.with_name("light.html")
    light.write_text(render_page([run], rows, now=NOW, light=True), encoding="utf-8")
    assert here.import_file(light).results_new == 7
    again = here.import_file(mailed)
    assert (again.runs_new, again.results_new, again.results_same, again.conflicts) == (0, 0, 7, ())


def test_what_a_page_does_not_tell_stays_unknown(here: Store, mailed: Path) -> None:
    here.import_file(mailed)
    (run,) = here.runs()
    row = here.results([run.id])[0]
    assert (row.seed, row.duration_s, row.log) == (None, None, "")
    assert {"seed", "log", "duration_s"} <= set(row.conditions["source"]["not_told"])
    assert (run.reason, run.label, run.options["filters"]) == (IMPORTED, "run-a", ["dtype=fp32"])
    assert "suite_folder" not in run.options
    assert "game" not in str(row.conditions)


CHECKS = (
    Check("out", "small", 0.011, 0.001, 0.1, True, f"relative root mean square, {TOLERATED}"),
    Check("grad_x", "small", 0.02, None, 0.1, True, f"relative root mean square, {TOLERATED}"),
    Check("out", "measured", None, 2e-3, 0.1, False, "not finite"),
)


def with_checks() -> tuple[Run, list[Result]]:
    run, rows = measured()
    held = [dataclasses.replace(row, checks=CHECKS[:2]) if row.id == "row-flex-0" else row for row in rows]
    case = factories.case("sdpa_math")
    wrong = factories.result(run.id, case, id="row-wrong", status=Status.INCORRECT, reason="out is not finite", checks=CHECKS)
    return run, [*held, wrong]


@pytest.mark.parametrize("light", [False, True])
def test_every_check_comes_with_the_page_and_a_page_of_those_rows_tells_it_again(here: Store, tmp_path: Path, light: bool) -> None:
    run, rows = with_checks()
    (tmp_path / "page.html").write_text(render_page([run], rows, now=NOW, light=light), encoding="utf-8")
    here.import_file(tmp_path / "page.html")
    (came,) = here.runs()
    found = here.results([came.id])
    told = {row.conditions["source"]["result"]: row for row in found}
    assert told["row-flex-0"].checks == CHECKS[:2]
    assert (told["row-wrong"].status, told["row-wrong"].reason, told["row-wrong"].checks) == (
        Status.INCORRECT,
        "out is not finite",
        CHECKS,
    )
    assert TOLERANCE_WORDS in TOLERATED
    tolerant = {case.case.subject_label: case.declares_tolerance for case in summarize(came, found)}
    assert tolerant == {case.case.subject_label: case.declares_tolerance for case in summarize(run, rows)}
    assert [name for name, tolerated in tolerant.items() if tolerated] == ["flex", "sdpa_math"]
    first, again = (read_page_data(render_page([one], of, now=NOW)) for one, of in ((run, rows), (came, found)))
    assert {trial.checks for trial in first.trials} == {trial.checks for trial in again.trials}
    assert here.check() == []


def test_of_a_page_of_an_older_version_the_nearest_checks_come_and_whether_a_tolerance_was_declared(
    here: Store, tmp_path: Path
) -> None:
    run, rows = with_checks()

    def older(data: Any) -> None:
        data["checks"] = [[9, tolerated, *(check[:6] for check in told[:1])] for _, tolerated, *told in data["checks"]]

    (tmp_path / "page.html").write_text(with_data(render_page([run], rows, now=NOW), older), encoding="utf-8")
    here.import_file(tmp_path / "page.html")
    (came,) = here.runs()
    told = {row.conditions["source"]["result"]: row for row in here.results([came.id])}
    assert told["row-flex-0"].checks == (dataclasses.replace(CHECKS[0], detail=TOLERATED),)
    assert "checks but the nearest" in told["row-flex-0"].conditions["source"]["not_told"]
    assert told["row-flex-1"].checks[0].detail is None


def test_what_speaks_against_a_time_and_for_a_comparison_comes_with_the_page(here: Store, tmp_path: Path) -> None:
    run, rows = measured()
    beside = {"busy_processes": [{"name": "game"}], "other_compute_processes": ["game"], "machine_busy_share": 0.97}
    rows = [dataclasses.replace(row, conditions={**row.conditions, **beside}) if row.status is Status.OK else row for row in rows]
    (tmp_path / "beside.html").write_text(render_page([run], rows, now=NOW), encoding="utf-8")
    here.import_file(tmp_path / "beside.html")
    found = here.results([here.runs()[0].id])
    assert {computed_beside(row.conditions) for row in found if row.status is Status.OK} == {True}
    assert "game" not in str([row.conditions for row in found])


def test_what_asks_for_a_measured_run_says_that_it_came_with_a_page_and_which_command_measures_it(
    here: Store, mailed: Path
) -> None:
    here.import_file(mailed)
    (run,) = here.runs()
    row = here.results([run.id])[0]
    assert row.command != run.command
    with pytest.raises(SelectionError, match=f"result {row.id} came with a report page, .*measures it here: {row.command}$"):
        rerun(row.id, here)
    with pytest.raises(SelectionError, match=f"run {run.id} came with a report page, .*measures it here: {run.command}$"):
        resume(run.id, here)
    with pytest.raises(SelectionError, match="came with a report page: only what was measured here is published"):
        publish(here, [run], mailed.parent / "published")


def test_a_second_import_adds_nothing_and_neither_does_a_later_page_of_the_same_rows(here: Store, mailed: Path) -> None:
    here.import_file(mailed)
    again = here.import_file(mailed)
    assert (again.runs_new, again.results_new, again.results_same, again.conflicts) == (0, 0, 7, ())
    run, rows = measured()
    later = mailed.with_name("later.html")
    more = factories.result(run.id, factories.case("late"), id="row-late")
    later.write_text(render_page([dataclasses.replace(run, finished_at=None)], [*rows, more], now="2026-05-01T00:00:00+00:00"))
    grown = here.import_file(later)
    assert (grown.runs_new, grown.runs_same, grown.results_new, grown.results_same, grown.conflicts) == (0, 1, 1, 7, ())


def test_a_page_and_the_rows_that_it_was_made_of_live_side_by_side(here: Store, mailed: Path) -> None:
    run, rows = measured()
    here.add_run(run)
    here.add_results(rows)
    told = here.import_file(mailed)
    assert (told.runs_new, told.results_new, told.conflicts) == (1, 7, ())
    assert len(here.runs()) == 2


def test_a_page_whose_numbers_were_changed_conflicts_with_the_one_before(here: Store, mailed: Path, page: str) -> None:
    here.import_file(mailed)

    def faster(data: Any) -> None:
        trials = data["trials"]
        trials["rows"][0][trials["columns"].index("time_s")] /= 2

    mailed.write_text(with_data(page, faster), encoding="utf-8")
    report = here.import_file(mailed)
    assert (report.results_new, len(report.conflicts)) == (0, 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data.update(schema=1), "older bench.*render it again"),
        (lambda data: data.update(schema=99), "install a newer bench"),
        (lambda data: data.pop("points"), "do not fit together"),
        (lambda data: data["cases"].update(same={}), "do not fit together"),
        (lambda data: data["trials"]["rows"][0].append(1), "more or fewer values"),
        (
            lambda data: data["trials"]["same"].update({"case": 10**30}) or data["trials"]["columns"].__setitem__(0, "nothing"),
            "no metric|not there",
        ),
        (lambda data: data["subjects"].clear(), "subject 0 is not there"),
        (lambda data: data.update(runs=[{"id": 1}]), "do not fit together"),
        (lambda data: data["environments"].__setitem__(0, {"hard": {"a": []}, "soft": {}}), "no plain values"),
    ],
)
def test_data_that_do_not_fit_together_are_refused_in_a_sentence(page: str, change: Callable[[Any], object], words: str) -> None:
    with pytest.raises(NoPage, match=words):
        read_page_data(with_data(page, change))


def test_more_rows_than_anybody_measures_are_refused(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.store.page_data.MAX_ROWS", 5)
    with pytest.raises(NoPage, match="more than 5 trials"):
        read_page_data(page)


def test_of_a_page_that_is_refused_nothing_is_kept(here: Store, mailed: Path, page: str) -> None:
    for change in (lambda data: data["trials"].update(rows=[]), lambda data: data["works"].clear()):
        mailed.write_text(with_data(page, change), encoding="utf-8")
        with pytest.raises(StoreError, match=r"mailed.html.*(holds no results|not there).*Nothing was imported"):
            here.import_file(mailed)
        assert here.runs() == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<!doctype html><title>news</title>", "no report page of bench"),
        (f"<!doctype html>{BEGINNING}{{", "cut off"),
        (f"<!doctype html>{BEGINNING}{{}}</script>{BEGINNING}{{}}</script>", "there twice"),
        (f"<!doctype html>{BEGINNING}{'[' * 100_000}</script>", "nested too deep"),
        (f"<!doctype html>{BEGINNING}NaN</script>", "NaN is no number"),
        (f"<!doctype html>{BEGINNING}[]</script>", "no object"),
    ],
)
def test_other_pages_are_no_reports(text: str, words: str) -> None:
    with pytest.raises(NoPage, match=words):
        read_page_data(text)


def test_the_data_give_back_the_cases_and_their_work() -> None:
    run, rows = measured()
    lacking = dataclasses.replace(rows[0].case, params={"model": "tiny", "causal": True, "scale": 1.0})
    rows.append(factories.result(run.id, lacking, cost=Cost(1, None, 2)))
    page = render_page([run], rows, now=NOW)
    assert re.search(r"data-q=", page)
    data = read_page_data(page)
    assert {case.case.key for case in data.cases} == {row.case.key for row in rows}
    assert next(case.cost for case in data.cases if case.case == lacking) == Cost(1, None, 2)
    flex = next(case for case in data.cases if case.case.subject_label == "flex")
    assert flex.compared
    assert flex.baseline is not None
    assert data.cases[flex.baseline].case.subject_label == "eager"


def test_the_order_of_a_suites_axes_and_subjects_stays_since_it_lays_a_page_out() -> None:
    run, rows = measured()
    run = dataclasses.replace(run, suite_data={**run.suite_data, "sweep": {"tokens": [1], "batch": [2], "seq_len": [3]}})
    told = read_page_data(render_page([run], rows, now=NOW)).runs[0]
    assert list(told.suite_data["sweep"]) == ["tokens", "batch", "seq_len"]
    assert told.suite_data == run.suite_data
