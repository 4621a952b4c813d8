"""Commands that read: list, show, report, schema, db."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bench.metrics import METRICS
from bench.records import Json, Measurement, RevisionItem, RunState
from bench.run.locks import run_lock
from bench.store import Store
from tests import factories
from tests.cli.conftest import Bench, Filled
from tests.report.step_sample import step_run

ROOT = Path(__file__).parent.parent.parent


def test_list_shows_every_kind_and_each_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    whole = bench("list")
    assert whole.code == 0
    for word in ("attention", "sdpa_flash", "suites/attention.yaml", "llama-3-8b", "peak_bytes"):
        assert word in whole.out
    assert "peak_bytes" not in bench("list", "models").out


def test_list_as_json_holds_what_the_text_holds(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = json.loads(bench("list", "--json").out)
    assert set(found) == {"workloads", "implementations", "suites", "models", "metrics"}
    states = {(row["slot"], row["name"]): row["state"] for row in json.loads(bench("list", "implementations", "--json").out)}
    assert states["attention", "eager"] == "installed"
    assert {row["name"] for row in found["metrics"]} == set(METRICS)
    assert all(not row["problems"] for row in found["suites"])


def test_an_implementation_is_listed_with_the_passes_of_every_workload_that_has_its_slot(bench: Bench) -> None:
    passes = {(row["slot"], row["name"]): row["passes"] for row in json.loads(bench("list", "implementations", "--json").out)}
    assert {"forward", "forward_backward", "step"} <= set(passes["attention", "eager"])
    assert passes["linear", "plain"] == ["forward", "backward", "forward_backward"]
    assert passes["linear", "int8_dynamic_ao"] == ["forward", "quantize"]


def test_list_shows_what_a_plugin_adds_and_refuses_one_that_declares_nothing(bench: Bench, tmp_path: Path) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from bench.declare import implementation\n\n@implementation(workload='attention')\ndef my_kernel(spec):\n    '''Mine.'''\n"
    )
    assert "my_kernel" in bench("list", "implementations", "--plugin", plugin).out
    plugin.write_text("x = 1\n")
    said = bench("list", "implementations", "--plugin", plugin)
    assert (said.code, "mine.py" in said.err, "Traceback" in said.err) == (2, True, False)


def test_a_broken_suite_does_not_hide_the_others(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("schema: [")
    said = bench("list", "suites", "--suites", tmp_path)
    assert said.code == 0
    assert "cannot be used" in said.out


def test_a_list_of_suites_has_every_question_whole(bench: Bench) -> None:
    listed = " ".join(bench("list", "suites").out.split())
    suites = json.loads(bench("list", "suites", "--json").out)
    assert [suite["question"] for suite in suites if suite["question"] not in listed] == []
    assert max(len(suite["question"]) for suite in suites) > 100, "or none would have been cut"


def test_show_run_by_id_prefix_label_and_latest(bench: Bench, filled: Filled) -> None:
    for text in (filled.run.id, "nightly", "latest"):
        said = bench("show", text, "--db", filled.path)
        assert said.code == 0
        assert "2 ok, 2 oom" in said.out
        assert "eager" in said.out
        assert "because it is oom" in said.out


def test_the_last_column_of_a_whole_table_is_what_show_takes_of_each_case(bench: Bench, filled: Filled) -> None:
    lines = iter(bench("show", "latest", "--wide", "--db", filled.path).out.splitlines())
    assert next(line for line in lines if line.startswith("seq_len")).split()[-1] == "result"
    rows = [next(lines).split() for _ in filled.results]
    assert {row[-1] for row in rows} == {result.id for result in filled.results}
    for row in rows:
        shown = bench("show", row[-1], "--db", filled.path).out
        assert f"seq_len={row[0]}" in shown
        assert f"subject     {row[1]}" in shown


def test_a_package_that_is_not_there_is_told_so_beside_the_others(bench: Bench, tmp_path: Path) -> None:
    packages = RevisionItem("torch", "package", "2.13.0"), RevisionItem("flash-attn", "package")
    with Store.open(tmp_path / "results.db") as store:
        store.add_run(factories.run(revision=(*packages, RevisionItem("kernels", "path", commit="a" * 40, dirty=True))))
    said = bench("show", "latest", "--db", tmp_path / "results.db").out
    assert f"torch 2.13.0; flash-attn (not installed); kernels {'a' * 12}, with uncommitted changes\n" in said


def test_show_run_says_what_was_fastest_and_how_it_grows(bench: Bench, tmp_path: Path) -> None:
    path, (run, rows) = tmp_path / "steps.db", step_run(trials=1)
    with Store.open(path) as store:
        store.add_run(run)
        for row in rows:
            store.add_result(row)
    out = bench("show", "latest", "--db", path).out
    assert "fastest measured, seq len 1024–4096: attention=sdpa_flash layers=liger" in out
    assert "least memory measured, all that is resident included, seq len 1024–4096: checkpointing=full, 1.72 GiB" in out
    assert "grows: peak ∝ seq_len^(0.48 ± 0.62), defaults" in out
    assert "Unbeaten at seq len 4096: " in out
    head = next(line for line in out.splitlines() if line.startswith("seq_len"))
    assert "peak memory, residents included" in head
    assert "error of the update" in head
    assert "states" in head


def test_show_result_tells_a_peak_in_a_few_lines(bench: Bench, tmp_path: Path) -> None:
    path, (run, rows) = tmp_path / "steps.db", step_run(trials=1, sizes=(1024,))
    with Store.open(path) as store:
        store.add_run(run)
        store.add_result(rows[0])
    out = bench("show", rows[0].id, "--db", path).out
    assert "temporaries in aten::mm in modeling_llama.py(95): forward: 23.0 MiB" in out
    assert "60 moments, in the report and with --json" in out
    assert "memory_explained" not in out


def test_a_row_that_did_not_run_shows_no_number(bench: Bench, filled: Filled) -> None:
    lines = [line for line in bench("show", "latest", "--db", filled.path).out.splitlines() if "sdpa_flash" in line]
    assert len(lines) == 2
    assert all(" ms" not in line and "MiB" not in line and " 0 " not in line for line in lines)


def test_show_result_has_measurements_checks_environment_conditions_log_and_command(bench: Bench, filled: Filled) -> None:
    said = bench("show", filled.results[0].id, "--db", filled.path)
    assert said.code == 0
    for word in (
        "time_s = 1.29 ms",
        "peak_bytes",
        "limit 2.0e-07",
        "Test CPU",
        "load_1min",
        "hello from the trial",
        "bench run suites/attention.yaml",
    ):
        assert word in said.out


@pytest.mark.parametrize(
    ("bytes_", "others", "said"),
    [
        (-4.75e9, (), "no growth of this row: others gave memory of the device back meanwhile, 4.42 GiB more than it took\n"),
        (4.75e9, ({"name": "python"},), "device_used_bytes = 4.42 GiB; others had the GPU open, so that it may be theirs\n"),
        (4.75e9, (), "device_used_bytes = 4.42 GiB\n"),
    ],
)
def test_show_result_says_of_a_growth_that_is_not_its_own_what_it_is(
    bench: Bench, tmp_path: Path, bytes_: float, others: Sequence[Mapping[str, Json]], said: str
) -> None:
    path, run = tmp_path / "grown.db", factories.run()
    row = factories.result(run.id, factories.case("eager"), conditions={"other_compute_processes": list(others)})
    row = replace(row, measurements=(*row.measurements, Measurement("device_used_bytes", "byte", (bytes_,))))
    with Store.open(path) as store:
        store.add_run(run)
        store.add_result(row)
    out = bench("show", row.id, "--db", path).out
    assert said in out
    assert "-4.42" not in out


def test_show_as_json_is_the_record(bench: Bench, filled: Filled) -> None:
    result = json.loads(bench("show", filled.results[0].id, "--db", filled.path, "--json").out)
    assert result["id"] == filled.results[0].id
    run = json.loads(bench("show", "latest", "--db", filled.path, "--json").out)
    assert len(run["results"]) == 4


def test_show_of_nothing_known_says_so(bench: Bench, filled: Filled) -> None:
    said = bench("show", "zzz", "--db", filled.path)
    assert (said.code, "zzz" in said.err, "Traceback" in said.err) == (2, True, False)


def test_report_chooses_its_format_by_ending_or_option(bench: Bench, filled: Filled, tmp_path: Path) -> None:
    html = tmp_path / "deep" / "r.html"
    assert bench("report", "-o", html, "--db", filled.path).code == 0
    assert html.read_text().lstrip().lower().startswith("<!doctype html")
    assert [path.name for path in html.parent.iterdir()] == ["r.html"]
    rows = list(csv.DictReader(io.StringIO(bench("report", "--format", "csv", "-o", "-", "--db", filled.path).out)))
    assert len(rows) == 4
    assert json.loads(bench("report", "latest", "--format", "json", "-o", "-", "--db", filled.path).out)["cases"]
    markdown = tmp_path / "r.md"
    bench("report", "-o", markdown, "--db", filled.path)
    assert "| " in markdown.read_text()


def test_report_names_its_file_after_the_suite_even_if_that_is_hostile(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = factories.run(suite="../<script>'\"💥" + "x" * 280)
    with Store.open(tmp_path / "h.db") as store:
        store.add_run(run)
        store.add_result(factories.result(run.id))
    said = bench("report", "--db", "h.db")
    assert said.code == 0
    written = Path(said.out.strip())
    assert written.parent == Path("reports")
    assert len(written.name) < 100
    assert written.exists()
    assert "<script>'" not in written.read_text()


def test_schema_is_a_json_schema(bench: Bench) -> None:
    assert json.loads(bench("schema").out)["properties"]


def test_export_and_import_bring_rows_over_once(bench: Bench, filled: Filled, tmp_path: Path) -> None:
    file, other = tmp_path / "out" / "x.jsonl.gz", tmp_path / "other.db"
    assert bench("db", "export", "latest", "-o", file, "--db", filled.path).code == 0
    first = bench("db", "import", file, "--db", other)
    assert (first.code, "4 results are new" in first.out) == (0, True)
    assert json.loads(bench("db", "import", file, "--db", other, "--json").out)[0]["results_same"] == 4
    assert bench("db", "check", "--db", other).code == 0
    assert "schema already" in bench("db", "upgrade", "--db", other).out


def test_show_alone_lists_the_latest_runs(bench: Bench, filled: Filled, tmp_path: Path) -> None:
    said = bench("show", "--db", filled.path)
    assert said.code == 0
    for word in (filled.run.id, filled.run.suite, "nightly", "4/4", "finished"):
        assert word in said.out, word
    (run,) = json.loads(bench("show", "--db", filled.path, "--json").out)
    assert (run["id"], run["rows"], run["planned_trials"], run["label"]) == (filled.run.id, 4, 4, "nightly")
    Store.open(tmp_path / "empty.db").close()
    assert "no runs yet" in bench("show", "--db", tmp_path / "empty.db").out


def test_publish_writes_rows_and_summary_by_device_and_suite_and_they_can_be_imported(
    bench: Bench, filled: Filled, tmp_path: Path
) -> None:
    folder = tmp_path / "published"
    said = bench("db", "publish", "nightly", "-o", folder, "--db", filled.path)
    assert said.code == 0, said.err
    rows, summary = (folder / "test-cpu" / f"{filled.run.suite}.{kind}" for kind in ("jsonl.xz", "summary.json.gz"))
    assert said.out.split() == [str(rows), str(summary)]
    assert f"{folder} takes 0.00 MiB of 3 MiB; `make report` counts the published pages as well" in said.err
    assert len(json.loads(gzip.decompress(summary.read_bytes()))) == 4
    assert "4 results are new" in bench("db", "import", rows, "--db", tmp_path / "other.db").out


def test_a_run_that_is_being_measured_is_no_finding_of_check(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    run = factories.run(state=RunState.RUNNING, finished_at=None)
    with Store.open(path) as store:
        store.add_run(run)
    with run_lock(run.id, command="bench run"):
        assert bench("db", "check", "--db", path).code == 0
    said = bench("db", "check", "--db", path)
    assert (said.code, f"bench run --resume {run.id}" in said.out) == (2, True)


def test_a_damaged_file_is_refused_whole(bench: Bench, filled: Filled, tmp_path: Path) -> None:
    file, other = tmp_path / "x.jsonl", tmp_path / "other.db"
    bench("db", "export", "-o", file, "--db", filled.path)
    file.write_text(file.read_text().replace("hello from the trial", "hello from a forger"))
    said = bench("db", "import", file, "--db", other)
    assert (said.code, "Traceback" in said.err) == (2, False)
    with Store.open(other) as store:
        assert store.runs() == []


def test_check_lists_findings_and_fails(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "broken.db"
    path.write_bytes(b"SQLite format 3\x00" + b"\x00" * 5000)
    assert bench("db", "check", "--db", path).code == 2


def test_a_check_of_a_file_that_cannot_be_read_to_its_end_sends_nobody_back_to_the_check(bench: Bench, filled: Filled) -> None:
    whole = filled.path.read_bytes()
    filled.path.write_bytes(whole[: len(whole) // 2])
    said = bench("db", "check", "--db", filled.path)
    assert (said.code, "bench db check" in said.out + said.err) == (2, False)
    assert "is damaged and cannot be read to its end: database disk image is malformed" in said.out
    assert f"bench db export RUN -o FILE --db {filled.path}" in said.out
    found = json.loads(bench("db", "check", "--json", "--db", filled.path).out)
    assert (found["runs"], found["results"], len(found["findings"])) == (None, None, 1)
    assert "run `bench db check`" in bench("show", "--db", filled.path).err


def test_show_says_how_many_older_runs_there_are_and_which_run_nobody_measures_any_more(bench: Bench, tmp_path: Path) -> None:
    database = tmp_path / "many.db"
    with Store.open(database) as store:
        for minute in range(3):
            store.add_run(factories.run(started_at=f"2026-01-02T03:0{minute}:00+00:00", state=RunState.RUNNING))
    listed = bench("show", "--last", "2", "--db", database).out
    assert listed.count("running, by no process of this host") == 2
    assert f"1 older run not shown: bench show --last 3 --db {database}" in listed
    assert len(json.loads(bench("show", "--last", "2", "--db", database, "--json").out)) == 2
    assert "older" not in bench("show", "--db", database).out
    assert "state     running, by no process of this host, 0 of " in bench("show", "latest", "--db", database).out


def test_show_run_names_every_reason_for_which_rows_are_excluded(bench: Bench, filled: Filled) -> None:
    for result, reason in zip(filled.results, ("a neighbour was busy", "the wrong clock", "the wrong clock"), strict=False):
        assert bench("db", "exclude", result.id, "--reason", reason, "--db", filled.path).code == 0
    shown = bench("show", filled.run.id, "--db", filled.path).out
    assert "2 rows excluded: the wrong clock\n1 row excluded: a neighbour was busy\n" in shown
