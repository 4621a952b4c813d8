"""`bench report` in all its forms, `bench verify`, and two mailed reports compared."""

from __future__ import annotations

import csv
import io
import json
import re
import webbrowser
from pathlib import Path

import pytest

from bench.cli import report as command
from bench.records import RunState, Status
from bench.store import Store
from tests import factories
from tests.cli.conftest import Bench, Filled


@pytest.fixture
def page(bench: Bench, filled: Filled, tmp_path: Path) -> Path:
    assert bench("report", "-o", tmp_path / "a.html", "--db", filled.path).code == 0
    return tmp_path / "a.html"


def test_verify_says_how_many_numbers_agree_and_ends_with_0(bench: Bench, page: Path) -> None:
    said = bench("verify", page)
    assert said.code == 0
    assert re.search(r"(\d+) of \1 values agree", said.out)
    assert "all of these agree with the 4 trials inside the page" in said.out
    assert "not looked at: what opens below a row" in said.out
    told = json.loads(bench("verify", page, "--json").out)
    assert (told["exit_code"], told["differences"]) == (0, [])
    assert told["agreed"] == told["stated"]


def test_verify_names_an_edited_row_and_ends_with_1(bench: Bench, page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert ">1.29 ms<" in text
    page.write_text(text.replace(">1.29 ms<", ">1.09 ms<", 1), encoding="utf-8")
    said = bench("verify", page)
    assert said.code == 1
    assert "eager seq_len=128: printed '1.09 ms', recomputed '1.29 ms'" in said.out


def test_verify_of_another_file_ends_with_2_and_of_a_page_that_states_nothing_with_3(
    bench: Bench, page: Path, tmp_path: Path
) -> None:
    (tmp_path / "other.html").write_text("<!doctype html><title>news</title>")
    (tmp_path / "bytes.html").write_bytes(b"\xff\xfe\x00")
    for name in ("other.html", "bytes.html"):
        said = bench("verify", tmp_path / name)
        assert (said.code, "no report page of bench" in said.err, "Traceback" in said.err) == (2, True, False)
    page.write_text(re.sub(r" data-q=[^\s>]+", "", page.read_text(encoding="utf-8")), encoding="utf-8")
    said = bench("verify", page)
    assert (said.code, "nothing to verify" in said.out) == (3, True)


def test_a_light_page_is_packed_verifies_in_either_language_and_is_itself_a_file_to_report_openly(
    bench: Bench, filled: Filled, tmp_path: Path
) -> None:
    page, chinese, again = (tmp_path / f"{name}.html" for name in ("light", "chinese", "again"))
    assert bench("report", "--light", "-o", page, "--db", filled.path).code == 0
    assert bench("report", "--light", "--lang", "zh-TW", "-o", chinese, "--db", filled.path).code == 0
    assert (bench("verify", page).code, bench("verify", chinese).code) == (0, 0)
    assert '<tbody id="r-' not in page.read_text(encoding="utf-8") + chinese.read_text(encoding="utf-8")
    assert bench("report", "--from-file", page, "-o", again).code == 0
    assert '<tbody id="r-' in again.read_text(encoding="utf-8")
    page.write_text(page.read_text(encoding="utf-8").replace("<i class=packed>", "<i>", 1), encoding="utf-8")
    said = bench("verify", page)
    assert (said.code, "places for packed parts" in said.err, "Traceback" in said.err) == (2, True, False)


def test_two_mailed_reports_are_imported_and_compared_by_the_ids_that_they_print(bench: Bench, tmp_path: Path) -> None:
    ids = []
    for name, factor in (("before", 1.0), ("after", 1.5)):
        with Store.open(tmp_path / f"{name}.db") as store:
            run = factories.run(state=RunState.FINISHED, label=None)
            store.add_run(run)
            store.add_results(
                [factories.result(run.id, factories.case(seq_len=size), index=index, time_s=factor * size * (1 + index / 1000) * 1e-5)
                 for size in (128, 256) for index in range(5)]
            )  # fmt: skip
        assert bench("report", "-o", tmp_path / f"{name}.html", "--db", tmp_path / f"{name}.db").code == 0
        ids.append(run.id)
    mine = tmp_path / "mine.db"
    said = bench("db", "import", tmp_path / "before.html", tmp_path / "after.html", "--db", mine)
    assert (said.code, said.out.count("1 run and 10 results are new")) == (0, 2)
    assert bench("db", "import", tmp_path / "before.html", "--db", mine).out.count("0 runs and 0 results are new") == 1
    compared = bench("compare", *ids, "--db", mine, "--format", "json")
    found = json.loads(compared.out)
    assert compared.code == 1
    assert found["verdicts"]["worse"] == 2
    assert [row["ratio"]["value"] for row in found["rows"] if row["metric"] == "time_s"] == [pytest.approx(1.5)] * 2


def test_a_mail_is_written_with_the_headers_that_were_given_and_figures_beside_it(
    bench: Bench, filled: Filled, tmp_path: Path
) -> None:
    said = bench("report", "-o", tmp_path / "a.eml", "--to", "x@y.example", "--figures", tmp_path / "figures", "--db", filled.path)
    assert said.code == 0, said.err
    text = (tmp_path / "a.eml").read_text()
    assert "\nTo: x@y.example\n" in text
    assert 'filename="a.html"' in text
    assert text.count("Content-Type: image/png") == 1
    made = sorted(path.suffix for path in (tmp_path / "figures" / "attention" / "attention").iterdir())
    assert made
    assert made.count(".png") == made.count(".svg")
    bad = bench("report", "-o", tmp_path / "b.eml", "--to", "nobody", "--db", filled.path)
    assert (bad.code, "is no address" in bad.err, (tmp_path / "b.eml").exists()) == (2, True, False)
    assert bench("report", "-o", tmp_path / "b.html", "--to", "x@y.example", "--db", filled.path).code == 2


def test_figures_of_a_page_without_any_make_no_folder_and_are_not_said_to_lie_there(bench: Bench, tmp_path: Path) -> None:
    run, folder = factories.run(), tmp_path / "figures"
    with Store.open(tmp_path / "results.db") as store:
        store.add_run(run)
        store.add_result(factories.result(run.id, status=Status.OOM))
    said = bench("report", "-o", tmp_path / "a.html", "--figures", folder, "--db", tmp_path / "results.db")
    assert (said.code, folder.exists()) == (0, False)
    assert f"the page has no figure: nothing is written to {folder}" in said.err


@pytest.mark.parametrize("kind", ["html", "json", "csv", "markdown", "eml"])
def test_redact_takes_ids_and_labels_out_of_every_format(bench: Bench, filled: Filled, tmp_path: Path, kind: str) -> None:
    said = bench("report", "-o", tmp_path / "out", "--format", kind, "--redact", "--db", filled.path)
    assert said.code == 0, said.err
    text = (tmp_path / "out").read_text(encoding="utf-8")
    assert "nightly" not in text
    assert ("label-1" in text) == (kind in ("html", "json", "markdown"))


def test_a_browser_is_opened_where_there_is_one_and_else_a_line_says_so(
    bench: Bench, filled: Filled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    class Browser:
        def open(self, address: str) -> bool:
            opened.append(address)
            return True

    monkeypatch.setattr(command.webbrowser, "get", Browser)
    said = bench("report", "--format", "csv", "-o", tmp_path / "a b.csv", "--open", "--db", filled.path)
    assert (said.code, opened) == (0, [(tmp_path / "a b.csv").as_uri()])

    def none() -> object:
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(command.webbrowser, "get", none)
    said = bench("report", "--format", "csv", "-o", tmp_path / "a.csv", "--open", "--db", filled.path)
    assert (said.code, "there is no browser here" in said.err) == (0, True)


def test_a_file_of_results_is_rendered_without_a_database_and_gives_the_same_bytes_each_time(
    bench: Bench, filled: Filled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert bench("db", "export", "-o", "rows.jsonl.gz", "--db", filled.path).code == 0
    for name in ("a.html", "b.html"):
        assert bench("report", "--from-file", "rows.jsonl.gz", "-o", name).code == 0
    assert not Path("results").exists()
    assert Path("a.html").read_bytes() == Path("b.html").read_bytes()
    assert f"rendered {filled.run.finished_at}" in Path("a.html").read_text(encoding="utf-8")
    assert bench("verify", "a.html").code == 0
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert "rendered 2023-11-14T22:13:20+00:00" in bench("report", "--from-file", "rows.jsonl.gz", "-o", "-").out
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    assert bench("report", "--from-file", "rows.jsonl.gz", "-o", "c.html").code == 2


def test_runs_of_several_files_stand_in_the_order_of_the_files_and_a_light_page_is_smaller(bench: Bench, tmp_path: Path) -> None:
    names = ("second", "first")
    for name in names:
        with Store.open(tmp_path / f"{name}.db") as store:
            run = factories.run(suite=name)
            store.add_run(run)
            store.add_results([factories.result(run.id, factories.case(kernel)) for kernel in ("eager", "flex")])
            store.export_jsonl(tmp_path / f"{name}.jsonl.gz")
    files = [argument for name in reversed(names) for argument in ("--from-file", tmp_path / f"{name}.jsonl.gz")]
    told = json.loads(bench("report", *files, "-o", "-", "--format", "json").out)
    assert [run["suite"] for run in told["runs"]] == ["first", "second"]
    for name, more in (("whole", ()), ("light", ("--light",))):
        assert bench("report", *files, "-o", tmp_path / f"{name}.html", *more).code == 0
        assert bench("verify", tmp_path / f"{name}.html").code == 0
    assert (tmp_path / "light.html").stat().st_size < (tmp_path / "whole.html").stat().st_size
    assert bench("report", *files, "-o", tmp_path / "a.csv", "--light").code == 2


def test_json_and_csv_name_their_schema_and_units(bench: Bench, filled: Filled) -> None:
    told = json.loads(bench("report", "-o", "-", "--format", "json", "--db", filled.path).out)
    assert (told["schema"], told["runs"][0]["id"], told["units"]["time_s"]) == (2, filled.run.id, "s")
    (ok, *_) = [case for case in told["cases"] if case["status"] == "ok"]
    assert ok["trial_medians"][0]["medians"]["time_s"] == ok["metrics"]["time_s"]["median"]
    heads = next(csv.reader(io.StringIO(bench("report", "-o", "-", "--format", "csv", "--db", filled.path).out)))
    assert {"time_s.median", "peak_bytes.low", "flops_per_s"} <= set(heads)
