"""A run with real weights, through the real runner: the rows, the command that gives them again, and a folder that changes."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from bench.catalogue import load_catalogue
from bench.errors import SuiteError
from bench.machine import find_device
from bench.records import Result, Status
from bench.run import RunOptions, execute, make_plan, rerun, resume
from bench.run.weights import weights_name, weights_setting
from bench.store import Store
from bench.suite import expand, load_suite
from tests.run.laboratory import QUICK

pytestmark = pytest.mark.usefixtures("shared_server")

GATE = "model.layers.0.mlp.gate_proj.weight"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "tiny"
    made.mkdir()
    # All weights alike but for the sign: NF4 keeps such weights exactly, and nothing else would make it err as little.
    signs = torch.randint(2, (352, 128), generator=torch.Generator().manual_seed(1)) * 2 - 1
    save_file({GATE: signs * 0.125}, made / "model.safetensors")
    weights_name.cache_clear()
    return made


def run(tmp_path: Path, folder: Path | None, **changes: object) -> tuple[Store, list[Result], str]:
    suite_file = tmp_path / "linear.yaml"
    suite_file.write_text(
        "schema: 1\nname: weights\nquestion: Which numbers?\nworkload: linear\nsubjects: {linear: [plain, nf4_bnb]}\n"
        f"sweep: {{model: [tiny], tokens: [32], dtype: [fp32], pass: [forward]}}\nprotocol: {QUICK}\n"
    )
    sets = weights_setting(str(folder), ()) if folder else ()
    options = RunOptions(suite_file=str(suite_file), device="cpu", seed=1, sets=sets, weights=str(folder) if folder else None)
    options = dataclasses.replace(options, **changes)  # type: ignore[arg-type]
    catalogue = load_catalogue()
    suite = load_suite(suite_file, catalogue, sets=options.sets)
    plan = make_plan(suite, expand(suite, catalogue, device="cpu"), options, catalogue=catalogue)
    store = Store.open(tmp_path / "bench.db")
    summary = execute(plan, suite, store, find_device("cpu"), catalogue, options)
    return store, list(summary.results), summary.run_id


def error_of(row: Result) -> float:
    measurement = row.measurement("output_error")
    assert measurement is not None, row.reason
    return measurement.samples[0]


@pytest.mark.slow
def test_a_row_with_real_weights_says_which_and_can_be_measured_again(tmp_path: Path, folder: Path) -> None:
    store, rows, run_id = run(tmp_path, folder)
    with store:
        assert [row.status for row in rows] == [Status.OK, Status.OK], [row.reason for row in rows]
        name = weights_name(str(folder))
        quantized = next(row for row in rows if row.case.subject_label == "nf4_bnb")
        assert all(row.case.params["weights"] == name for row in rows)
        assert error_of(quantized) < 0.02
        words = shlex.split(quantized.command)
        assert words[words.index("--weights") + 1] == str(folder)
        assert f"weights={name}" in words
        again = rerun(quantized.id, store)
        assert [row.status for row in again.new] == [Status.OK]
        assert error_of(again.new[0]) < 0.02
        save_file({GATE: torch.randn(352, 128)}, folder / "model.safetensors")
        weights_name.cache_clear()
        with pytest.raises(SuiteError, match=f"not {name} that the cases name"):
            rerun(quantized.id, store)
        with pytest.raises(SuiteError, match=f"not {name} that the cases name"):
            resume(run_id, store)


@pytest.mark.slow
def test_random_weights_are_others_and_the_librarys_noise_is_in_the_trials_log(tmp_path: Path) -> None:
    store, rows, _ = run(tmp_path, None)
    with store:
        quantized = next(row for row in rows if row.case.subject_label == "nf4_bnb")
        assert quantized.status is Status.OK, quantized.reason
        assert quantized.case.params["weights"] == "random"
        assert error_of(quantized) > 0.08
        # What bitsandbytes looks for at import, and complains of, hangs on the processor.
        looks = "avx512_bf16" in Path("/proc/cpuinfo").read_text()
        assert ("Failed to load CPU gemm_4bit_forward" in quantized.log) == looks
