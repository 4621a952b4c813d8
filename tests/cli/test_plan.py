"""`bench plan` answers quickly, readably and for programs, and refuses what cannot be with exit code 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from bench.metrics import PEAK_CAUSES
from bench.plan import model_named, predict
from bench.plan.error_table import BEGIN, END
from bench.plan.spec import DEFAULTS
from bench.records import Pass
from bench.store import Store
from tests import factories
from tests.cli.conftest import Bench


def test_a_plan_shows_the_peak_by_cause_and_phase_and_what_fits(bench: Bench) -> None:
    said = bench("plan", "--model", "llama-3-8b", "--seq-len", "16384", "--gpu", "h200")
    assert said.code == 0
    assert "saved activations" in said.out
    assert "forward" in said.out
    assert "peak 1764.5" in said.out
    rows = [line.split() for line in said.out.splitlines() if line.startswith(("0 ", "1 "))]
    assert rows[0][1] == "no"
    assert rows[1][1] == "yes"
    assert rows[1][5] == "rule"
    assert "fused: attention=sdpa_flash, " in said.out
    assert "none of these ways at a comparable size in" in said.out


def test_what_fits_is_ordered_by_imported_published_steps_and_says_which_and_where(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "bench.db"
    with Store.open(path) as store:
        for suite in ("llama8b", "train_step"):
            store.import_file(Path("results/published/nvidia-h200") / f"{suite}.jsonl.xz")
    said = bench("plan", "--seq-len", "2048", "--gpu", "h200", "--db", path)
    assert said.code == 0
    measured = [line for line in said.out.splitlines() if "tokens/s, NVIDIA H200, run " in line]
    assert len(measured) >= 2
    assert "measured: llama-3-8b, " in said.out
    told = [
        way
        for way in json.loads(bench("plan", "--seq-len", "2048", "--gpu", "h200", "--db", path, "--json").out)["choices"]
        if way["measured"]
    ]
    assert len(told) == len(measured)
    assert all(way["measured"]["run_id"][:13] in said.out for way in told)


def test_the_heading_says_that_rows_which_train_otherwise_come_last_where_there_are_some(bench: Bench) -> None:
    said = bench("plan", "--seq-len", "2048", "--gpu", "rtx-4090", "--attention", "sdpa_flash")
    assert "by expected cost; rows with another adaptation or linear come last" in " ".join(said.out.split())


def test_what_a_technique_adds_is_told_from_least_to_most_where_rows_differ(bench: Bench) -> None:
    said = bench("plan", "--seq-len", "2048", "--gpu", "rtx-4090", "--attention", "sdpa_flash")
    assert "linear nf4_bnb +0.69–0.89" in " ".join(said.out.split())
    assert "offload parameters +12.78," in " ".join(said.out.split())


def test_the_table_of_causes_says_which_row_it_is_for(bench: Bench) -> None:
    words = ("plan", "--seq-len", "2048", "--gpu", "rtx-4090", "--attention", "sdpa_flash")
    first, fifth = bench(*words).out.splitlines(), bench(*words, "--row", "5").out.splitlines()
    assert fifth[0] == first[0]
    assert first[1] == ""
    switched = next(line for line in first if line.startswith("5 ")).split("  ")[-1].strip()
    assert fifth[1] == f"row 5: {switched}"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--seq-len", "4k"), "'4k' is not a whole number: write 4096 or 4000"),
        (("--batch", "two"), "'two' is not a valid whole number"),
        (("--seq-len", "0"), "0 is not in the range"),
        (("--dropout", "some"), "'some' is not a valid number"),
    ],
)
def test_what_is_no_number_is_refused_in_plain_words(bench: Bench, options: tuple[str, str], words: str) -> None:
    said = bench("plan", *options)
    assert said.code == 2
    assert words in " ".join(said.err.split())


def test_a_database_that_was_named_and_is_none_is_an_error(bench: Bench, tmp_path: Path) -> None:
    said = bench("plan", "--gpu", "h200", "--db", tmp_path / "none.db")
    assert said.code == 2
    assert "there is no database" in said.err


def test_without_a_gpu_nothing_is_said_of_what_fits(bench: Bench) -> None:
    said = bench("plan", "--seq-len", "2048", "--attention", "sdpa_flash")
    assert said.code == 0
    assert "what fits" not in said.out


def test_json_holds_every_term_in_bytes_and_adds_up(bench: Bench) -> None:
    said = bench("plan", "--seq-len", "2048", "--gpu-memory", "80GB", "--json")
    data = json.loads(said.out)
    assert data["gpu_memory_bytes"] == 80 * 10**9
    for moment in data["moments"]:
        assert sum(term["size_bytes"] for term in moment["terms"]) == sum(moment["by_category"].values()) == moment["size_bytes"]
        assert set(moment["by_category"]) <= {cause for cause, _ in PEAK_CAUSES}
        assert all(term["formula"] and term["source"] for term in moment["terms"])
    assert data["peak_bytes"] == max(moment["size_bytes"] for moment in data["moments"])
    assert any(choice["fits"] for choice in data["choices"])


def test_terms_of_a_row_are_shown_with_formula_and_source(bench: Bench) -> None:
    said = bench("plan", "--seq-len", "16384", "--gpu", "h200", "--row", "1", "--terms")
    assert said.code == 0
    assert "logsumexp of each row" in said.out


def test_explain_shows_the_published_figures_and_what_code_does(bench: Bench) -> None:
    said = bench("plan", "--explain")
    assert said.code == 0
    for words in ("32.00 GB", "1350.00 GiB", "1640.00 GiB", "31.41 GB", "16.64 GB"):
        assert words in said.out
    assert json.loads(bench("plan", "--explain", "--json").out)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "llama-9"], "neither a named model nor a config.json"),
        (["--gpu", "h300"], "no GPU is called"),
        (["--gpu", "h100", "--gpu-memory", "80GB"], "give one"),
        (["--optimizer", "adam"], "no formulas for 'adam'"),
        (["--world-size", "8", "--sharding", "none"], "say which sharding"),
        (["--world-size", "8", "--sharding", "zero2"], "bf16_master"),
        (["--row", "3"], "--gpu or --gpu-memory gives more"),
        (["--figure", "plan.png"], "say --gpu or --gpu-memory"),
    ],
)
def test_what_cannot_be_is_said_in_one_line_with_exit_code_2(bench: Bench, options: list[str], words: str) -> None:
    said = bench("plan", *options)
    assert said.code == 2
    assert words in said.err
    assert "Traceback" not in said.err


def test_a_figure_is_drawn_where_it_was_asked_for(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "plan.svg"
    assert bench("plan", "--seq-len", "4096", "--gpu", "h200", "--figure", path).code == 0
    text = path.read_text()
    assert text.count("<path") > 20
    said = bench("plan", "--seq-len", "4096", "--gpu", "h200", "--figure", tmp_path / "plan.nothing")
    assert said.code == 2
    assert "cannot be written" in said.err


def stored(path: Path, factor: float) -> None:
    """A database with two trials of one training step, measured at so many times its prediction."""
    params = {**asdict(model_named("llama-3.2-1b")), "model": "llama-3.2-1b", "seq_len": 2048, "batch": 1}
    made = factories.case(workload="train_step", pass_=Pass.STEP, dtype="bf16", device="cuda", params=params)
    case = replace(made, subject=dict(DEFAULTS))
    prediction = predict(params, DEFAULTS)
    sizes = {"peak_total_bytes": prediction.peak_bytes * factor}
    sizes |= {f"peak_{cause}_bytes": float(size) for cause, size in prediction.peak.by_category().items()}
    run = factories.run(suite="memory_development_llama_3_2_1b")
    with Store.open(path) as store:
        store.add_run(run)
        for index in range(2):
            found = tuple(factories.measurement(name, (float(size),)) for name, size in sizes.items())
            store.add_result(factories.result(run.id, case, index=index, measurements=found))
        store.add_result(factories.result(run.id, factories.case()))


@pytest.mark.parametrize(("factor", "code", "verdict"), [(1.02, 0, "within"), (1.2, 1, "off")])
def test_validation_shows_the_error_of_each_measured_case_and_fails_where_one_is_off(
    bench: Bench, tmp_path: Path, factor: float, code: int, verdict: str
) -> None:
    path = tmp_path / "measured.db"
    stored(path, factor)
    said = bench("plan", "--validate", "--db", path)
    assert said.code == code
    assert verdict in said.out
    assert "development: 1 of 1 cases predicted" in said.out
    data = json.loads(bench("plan", "--validate", "--json", "--db", path).out)
    (line,) = data["cases"]
    assert line["error"] == pytest.approx(1 / factor - 1)
    assert line["part"] == "development"
    assert data["parts"][0]["largest"] == pytest.approx(abs(1 / factor - 1))


def test_the_error_table_is_written_as_data_and_between_the_marks_of_a_page(bench: Bench, tmp_path: Path) -> None:
    path, page, data = tmp_path / "measured.db", tmp_path / "page.md", tmp_path / "table.json"
    stored(path, 1.02)
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    said = bench("plan", "--validate", "--markdown", "--db", path, "--write", page, "--write", data)
    assert said.code == 0
    assert "| llama-3.2-1b, seq_len 2048 | plain | development |" in said.out
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "The 1 largest errors of 1" in text
    assert json.loads(data.read_text())["cases"][0]["error"] == pytest.approx(1 / 1.02 - 1)
    assert bench("plan", "--markdown").code == 2
    assert "1 of 1 cases" in bench("plan", "--validate", "--of-grid", "--db", path).out


def test_validation_without_measured_steps_says_so_with_exit_code_3(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    with Store.open(path):
        pass
    said = bench("plan", "--validate", "--db", path)
    assert said.code == 3
    assert "measure some" in said.out


def test_the_grids_suites_are_written_where_asked(bench: Bench, tmp_path: Path) -> None:
    said = bench("plan", "--grid", tmp_path / "suites")
    assert said.code == 0
    assert "60 configurations" in said.out
    names = {path.name for path in (tmp_path / "suites").glob("*.yaml")}
    assert {"memory_development_llama_3_2_1b.yaml", "memory_drawn_llama_3_8b.yaml"} <= names


def test_settings_of_a_row_are_printed_alone(bench: Bench) -> None:
    said = bench("plan", "--seq-len", "16384", "--gpu", "h200", "--row", "1", "--emit", "hf")
    assert said.code == 0
    assert json.loads(said.out)["TrainingArguments"]["use_liger_kernel"] is True


def test_a_row_whose_offload_a_tool_cannot_do_has_no_settings_of_it(bench: Bench) -> None:
    words = ("plan", "--gpu", "rtx-4090", "--seq-len", "2048", "--attention", "sdpa_flash", "--row", "3", "--emit")
    alone = bench(*words, "torchtune")
    assert (alone.code, alone.out) == (2, "")
    assert "two processes or more" in alone.err
    assert "fsdp_offload_params: true" in bench(*words, "accelerate").out


PLAN = """
import sys
from bench.cli import main
code = main(["plan", "--seq-len", "8192", "--gpu", "h200"])
heavy = [name for name in ("torch", "numpy", "pandas", "matplotlib", "transformers", "sqlalchemy") if name in sys.modules]
sys.exit(code or heavy or 0)
"""


def _cpu_s(script: str) -> float:
    """CPU seconds of a script, the least of three."""
    found = []
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        found.append(usage.ru_utime + usage.ru_stime)
    return min(found)


def test_a_plan_imports_nothing_heavy_and_costs_little_more_than_starting_python() -> None:
    assert _cpu_s(PLAN) < 8 * _cpu_s("import click, yaml")


ON_THE_HOST = ("plan", "--model", "llama-3-8b", "--seq-len", "2048", "--precision", "bf16_master", "--attention", "sdpa_flash",
               "--sharding", "zero3", "--offload", "parameters", "--optimizer", "adamw_cpu_deepspeed")  # fmt: skip


def test_what_lies_on_the_host_is_told_for_a_gpu_and_for_those_that_share_it(bench: Bench) -> None:
    said = bench(*ON_THE_HOST, "--world-size", 8, "--host-memory", "160GiB")
    assert "host memory for this GPU 21.28 GiB, 10.06 GiB of it page-locked" in said.out
    assert "a host of 8 such GPUs needs 186.2 GiB of memory, some 2 GiB of it for each process itself" in said.out
    assert "which is more than the host's 160.0 GiB" in said.out
    told = json.loads(bench(*ON_THE_HOST, "--world-size", 8, "--host-memory", "200GiB", "--gpus-per-host", 4, "--json").out)
    assert told["host_bytes"] == sum(kept["size_bytes"] for kept in told["away"])
    assert told["host"]["gpus"] == 4
    assert told["host"]["fits"] is True
    assert json.loads(bench(*ON_THE_HOST, "--json").out)["host"]["fits"] is None


def test_states_on_disk_have_their_terms_and_a_column_beside_the_hosts(bench: Bench) -> None:
    words = [word if word != "parameters" else "optimizer_nvme" for word in ON_THE_HOST]
    said = bench(*words, "--terms", "--gpu", "h200")
    assert "on disk for this GPU 119.66 GiB" in said.out
    assert "fp32 copy and moments in files" in said.out
    assert "disk GiB" in said.out


def test_a_host_that_is_too_small_leaves_out_what_does_not_fit_into_it(bench: Bench) -> None:
    def fitting(*words: str) -> list[str]:
        asked = bench("plan", "--precision", "bf16_master", "--gpu", "rtx-4090", *words)
        return [line for line in asked.out.splitlines() if "offload=" in line and "  yes " in line]

    assert any("offload=optimizer" in line for line in fitting())
    assert not any("offload=optimizer" in line for line in fitting("--host-memory", "64GB"))


def test_more_gpus_on_a_host_than_train_are_refused(bench: Bench) -> None:
    said = bench("plan", "--gpus-per-host", 4, "--world-size", 2)
    assert said.code == 2
    assert "--world-size" in said.err
