"""The Makefile's promises that can be kept without installing anything, and the pinned versions."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from bench.catalogue import load_catalogue
from bench.suite import load_suite

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(*arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    variables = {
        name: value for name, value in os.environ.items() if name not in {"VENV", "PROFILE", "MAKEFLAGS", "MFLAGS", "MAKELEVEL"}
    }
    if path is not None:
        variables["PATH"] = str(path)
    return subprocess.run(["make", *arguments], cwd=ROOT, env=variables, capture_output=True, text=True, check=False)


def _tools(folder: Path, *more: str) -> Path:
    """A PATH with the tools that a bare machine has, and no Python."""
    folder.mkdir()
    for name in ("sh", "make", "grep", "head", "sed", "date", "cat", "touch", "tail", "find", "rm", *more):
        found = shutil.which(name)
        assert found, name
        (folder / name).symlink_to(found)
    return folder


def _nvidia_smi(folder: Path) -> None:
    (folder / "nvidia-smi").write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H200 (UUID: GPU-1234)'\n")
    (folder / "nvidia-smi").chmod(0o755)


def test_the_plan_names_device_suites_profile_budget_set_up_and_report(tmp_path: Path) -> None:
    said = make("plan", path=_tools(tmp_path / "bin"))
    assert said.returncode == 0, said.stderr
    for words in (
        "no NVIDIA GPU: the CPU",
        "suites/attention.yaml",
        "profile cpu",
        "at most ",
        "set-up:",
        "report:    reports/bench-",
    ):
        assert words in said.stdout


def test_the_most_useful_suite_comes_first_and_suites_without_the_profile_are_left_out(tmp_path: Path) -> None:
    line = next(line for line in make("plan").stdout.splitlines() if line.startswith("measures:"))
    suites = line.split()[1:]
    assert suites[0] == "suites/attention.yaml"
    assert all(re.search(r"^  cpu:", (ROOT / name).read_text(), re.MULTILINE) for name in suites)


def test_a_gpu_that_nvml_sees_is_measured_with_the_quick_profile_unless_the_cpu_is_asked_for(tmp_path: Path) -> None:
    tools = _tools(tmp_path / "bin")
    _nvidia_smi(tools)
    said = make("plan", path=tools)
    assert "GPU 0: NVIDIA H200\n" in said.stdout
    assert "profile quick" in said.stdout
    assert "profile cpu" in make("plan", "DEVICE=cpu", path=tools).stdout
    everything = make("plan", "FULL=1", path=tools).stdout
    assert "everything" in everything
    assert "at most" not in everything


def test_with_an_empty_venv_nothing_is_installed_and_the_python_at_hand_is_used() -> None:
    said = make("-n", "bench", "VENV=")
    assert said.returncode == 0, said.stderr
    assert " install" not in said.stdout
    assert re.search(r"exec \S*python3? -m bench run", said.stdout)


def test_variables_reach_the_command_and_the_report_has_one_name() -> None:
    said = make("-n", "bench", "VENV=", "MODEL=llama-3-8b", "SEQ=128,256", "BUDGET=3m", "DEVICE=cpu")
    for words in ("--set model=llama-3-8b", "--set seq_len=128,256", "--budget 3m", "--device cpu", "--profile cpu"):
        assert words in said.stdout
    assert len(set(re.findall(r"reports/bench-[\w-]+\.html", said.stdout))) == 1


def test_without_a_fit_python_it_says_what_to_install(tmp_path: Path) -> None:
    said = make("env", f"VENV={tmp_path / 'venv'}", path=_tools(tmp_path / "bin"))
    assert said.returncode != 0
    assert "no Python 3.11 or newer" in said.stderr
    assert "make bench VENV=" in said.stderr


def test_an_environment_of_another_folder_is_not_turned_over(tmp_path: Path) -> None:
    asks = "from importlib.metadata import distribution; print(distribution('stepbench').read_text('direct_url.json') or '{}')"
    # Not from the current folder, which may hold metadata of its own.
    told = subprocess.run([sys.executable, "-P", "-c", asks], capture_output=True, text=True, check=True).stdout
    if not json.loads(told).get("dir_info", {}).get("editable"):
        pytest.skip("stepbench is not installed from a folder here")
    clone, venv = tmp_path / "clone", tmp_path / "venv"
    clone.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, clone)
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    (venv / "bin" / "python").chmod(0o755)
    said = subprocess.run(["make", "env", f"VENV={venv}"], cwd=clone, capture_output=True, text=True, check=False)
    assert said.returncode == 2
    assert f"{venv} runs stepbench from" in said.stderr
    assert not (venv / ".ready").exists()


def _name(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\[=<>;! ]", requirement.strip())[0]).lower()


def test_everything_that_the_project_asks_for_is_pinned_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(entry for group in project["optional-dependencies"].values() for entry in group)]
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    pinned = [_name(line) for line in lines]
    assert all("==" in line for line in lines)
    assert len(pinned) == len(set(pinned))
    assert {_name(requirement) for requirement in asked} <= set(pinned)


@pytest.mark.parametrize("asked", [("MODEL=tiny",), ("SEQ=128,256",), ("MODEL=tiny", "SEQ=128,256"), ("SEQ=128", "PROFILE=cpu")])
def test_a_model_and_lengths_are_asked_of_the_suites_that_have_them(asked: tuple[str, ...]) -> None:
    measures = re.search(r"^measures: +(.+)$", make("plan", *asked).stdout, re.MULTILINE)
    assert measures is not None
    suites = measures[1].split()
    assert "suites/attention.yaml" in suites
    sets = [part.replace("MODEL", "model").replace("SEQ", "seq_len") for part in asked if "PROFILE" not in part]
    profile = "cpu" if "PROFILE=cpu" in asked else None
    catalogue = load_catalogue()
    for suite in suites:
        load_suite(ROOT / suite, catalogue, profile=profile, sets=sets)
