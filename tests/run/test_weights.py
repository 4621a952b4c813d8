"""Real weights: what a folder is called, whether it fits the cases, and the command that measures a row again."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from bench.catalogue import load_catalogue
from bench.cli import main
from bench.errors import SelectionError, SuiteError
from bench.run.commands import run_command
from bench.run.options import RunOptions
from bench.run.weights import demand_weights, weights_name, weights_setting
from bench.worker.weights import stored_tensors
from tests.factories import case as any_case
from tests.workloads.linear_cases import linear

CATALOGUE = load_catalogue()
GATE, DOWN = "model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.down_proj.weight"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model of one layer in two files, as transformers writes large ones."""
    made = tmp_path / "tiny model"
    made.mkdir()
    generator = torch.Generator().manual_seed(1)
    save_file({GATE: torch.randn(704, 256, generator=generator).bfloat16()}, made / "model-00001-of-00002.safetensors")
    save_file({DOWN: torch.randn(256, 704, generator=generator)}, made / "model-00002-of-00002.safetensors")
    return made


@pytest.fixture(autouse=True)
def forget_names() -> None:
    """A process reads a folder once; a test changes it in between."""
    weights_name.cache_clear()


def named(folder: Path, **params: object) -> object:
    return linear("plain", params={"weights": weights_name(str(folder)), **params})


def test_a_folder_is_named_by_its_content_wherever_it_lies(folder: Path, tmp_path: Path) -> None:
    name = weights_name(str(folder))
    assert name.startswith("tiny_model@")
    assert str(tmp_path) not in name
    elsewhere = tmp_path / "elsewhere" / "tiny model"
    elsewhere.mkdir(parents=True)
    for path in folder.iterdir():
        (elsewhere / path.name).write_bytes(path.read_bytes())
    (elsewhere / "config.json").write_text("{}")
    assert weights_name(str(elsewhere)) == name
    save_file({GATE: torch.zeros(704, 256)}, elsewhere / "model-00001-of-00002.safetensors")
    weights_name.cache_clear()
    assert weights_name(str(elsewhere)) != name


def test_a_folder_without_weights_is_told(tmp_path: Path) -> None:
    with pytest.raises(SelectionError, match=r"has no \*\.safetensors"):
        weights_name(str(tmp_path))


def test_a_file_that_is_none_is_told(folder: Path) -> None:
    (folder / "broken.safetensors").write_bytes(b"no header")
    with pytest.raises(SelectionError, match=r"broken\.safetensors cannot be read"):
        demand_weights([named(folder)], CATALOGUE, str(folder))  # type: ignore[list-item]


def test_cases_with_random_weights_and_other_workloads_ask_for_no_folder() -> None:
    demand_weights([linear("plain"), any_case()], CATALOGUE, None)


def test_what_fits_passes_and_what_does_not_is_told_at_once(folder: Path) -> None:
    fits = [named(folder), named(folder, layer="down_proj")]
    demand_weights(fits, CATALOGUE, str(folder))  # type: ignore[arg-type]
    wrong = [named(folder, intermediate_size=800), named(folder, layer="q_proj"), named(folder, layer_index=1)]
    with pytest.raises(SuiteError) as raised:
        demand_weights(wrong, CATALOGUE, str(folder))  # type: ignore[arg-type]
    first, second, third = str(raised.value).splitlines()
    assert "has the shape (704, 256), the cases need (800, 256): is it another model?" in first
    assert second.endswith("has no model.layers.0.self_attn.q_proj.weight")
    assert third.endswith("has no model.layers.1.mlp.gate_proj.weight")


def test_weights_that_have_changed_or_are_not_given_are_told(folder: Path) -> None:
    case = named(folder)
    with pytest.raises(SuiteError, match=r"--weights: .* is read from a folder: say which one"):
        demand_weights([case], CATALOGUE, None)  # type: ignore[list-item]
    save_file({GATE: torch.zeros(704, 256)}, folder / "model-00001-of-00002.safetensors")
    weights_name.cache_clear()
    with pytest.raises(SuiteError, match=r"not tiny_model@.* that the cases name"):
        demand_weights([case], CATALOGUE, str(folder))  # type: ignore[list-item]


def test_the_command_pins_the_content_and_names_the_folder(folder: Path) -> None:
    sets = weights_setting(str(folder), ["tokens=16"])
    assert sets == ("tokens=16", f"weights={weights_name(str(folder))}")
    assert weights_setting(str(folder), sets) == sets
    options = RunOptions(suite_file="suites/quantization.yaml", sets=sets, weights=str(folder))
    words = shlex.split(run_command(options))
    assert words[words.index("--weights") + 1] == str(folder)
    assert f"weights={weights_name(str(folder))}" in words
    assert RunOptions.from_data(options.to_data()) == options
    assert dataclasses.replace(options, weights=None) == RunOptions.from_data(
        {key: value for key, value in options.to_data().items() if key != "weights"}
    )


def test_the_worker_reads_a_tensor_by_its_name_as_it_is_stored(folder: Path) -> None:
    read = stored_tensors(str(folder))
    assert (read(GATE).dtype, read(GATE).shape) == (torch.bfloat16, (704, 256))
    assert (read(DOWN).dtype, read(DOWN).shape) == (torch.float32, (256, 704))
    with pytest.raises(KeyError, match="has no tensor lm_head"):
        read("lm_head.weight")


def test_nothing_is_measured_with_the_weights_of_another_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite = str(Path(__file__).parents[2] / "suites" / "quantization.yaml")
    command = ["run", suite, "--profile", "cpu", "--device", "cpu", "--weights", str(folder), "--db", str(folder / "bench.db")]
    assert main(command) == 2
    assert "has the shape (704, 256), the cases need (352, 128)" in capsys.readouterr().err
    assert not (folder / "bench.db").exists()
    assert main([*command, "--set", "weights=other@0"]) == 2
    assert "not other@0 that the cases name" in capsys.readouterr().err
    assert main(["run", suite, "--profile", "cpu", "--set", "weights=other@0", "--db", str(folder / "bench.db")]) == 2
    assert "other@0 is read from a folder: say which one" in capsys.readouterr().err


def test_a_workload_without_weights_says_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite = str(Path(__file__).parents[2] / "suites" / "rms_norm.yaml")
    assert main(["run", suite, "--profile", "cpu", "--device", "cpu", "--weights", str(folder), "--dry-run"]) == 2
    assert "weights" in capsys.readouterr().err
