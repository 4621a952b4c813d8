"""What packages ask of CUDA at import is answered from what a child read, and CUDA stays as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bench.run.forkserver import server_environment
from bench.worker.cuda_answers import answered, read_properties

TWO = ({"name": "First", "major": 9, "minor": 0}, {"name": "Second", "major": 12, "minor": 1})


@pytest.fixture(autouse=True)
def _two_gpus_that_may_not_be_initialised(monkeypatch: pytest.MonkeyPatch) -> None:
    def initialise() -> None:
        raise RuntimeError("CUDA would be initialised")

    monkeypatch.setattr("torch.cuda._lazy_init", initialise)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)


REAL_COUNT = torch.cuda.device_count


def asked_of_torch(*_: object) -> None:
    raise RuntimeError("CUDA would be initialised")


def test_questions_are_answered_without_cuda_and_afterwards_go_to_torch_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", asked_of_torch)
    monkeypatch.setattr("torch.cuda.device_count", asked_of_torch)
    with answered(TWO, 1):
        kept = torch.cuda.get_device_properties
        assert torch.cuda.is_available()
        assert torch.cuda.device_count() == 2
        assert torch.cuda.current_device() == 1
        assert torch.cuda.get_device_capability() == (12, 1)
        assert [torch.cuda.get_device_name(index) for index in (0, 1)] == ["First", "Second"]
        assert torch.cuda.get_device_capability(torch.cuda.device(0)) == (9, 0)
    functions = (torch.cuda.current_device, torch.cuda.is_available, torch.cuda.device_count)
    for ask in (kept, torch.cuda.get_device_properties, *(lambda _, function=function: function() for function in functions)):
        with pytest.raises(RuntimeError, match="would be initialised"):
            ask(0)


def test_who_took_torchs_count_before_is_answered_too_and_nvml_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda._is_compiled", lambda: True)
    monkeypatch.setattr("torch.cuda._device_count_nvml", asked_of_torch)
    with answered(TWO, 0):
        assert REAL_COUNT() == 2
    with pytest.raises(RuntimeError, match="would be initialised"):
        REAL_COUNT()


def test_without_properties_torch_itself_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", asked_of_torch)
    with answered((), 0), pytest.raises(RuntimeError, match="would be initialised"):
        torch.cuda.is_available()


def test_who_had_cuda_initialised_all_the_same_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with answered(TWO, 0) as places, pytest.raises(RuntimeError, match="would be initialised"):
        torch.cuda._lazy_init()
    (place,) = places
    assert place.startswith("tests/worker/test_cuda_answers.py:")


def test_a_child_reads_all_that_torch_tells_of_every_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def properties(index: int) -> Any:
        return SimpleNamespace(name=f"GPU {index}", major=9, total_memory=2**40, uuid=object(), _hidden=1)

    monkeypatch.setattr("torch.cuda.get_device_properties", properties)
    read = read_properties()
    assert [(one["name"], one["major"], one["total_memory"]) for one in read] == [("GPU 0", 9, 2**40), ("GPU 1", 9, 2**40)]
    assert all("_hidden" not in one and isinstance(one["uuid"], str) for one in read)


def test_a_child_that_cannot_tell_leaves_no_answers(capfd: pytest.CaptureFixture[str]) -> None:
    assert read_properties() == []


@pytest.mark.slow
def test_what_branches_import_is_all_of_a_package_asks_no_more_than_is_answered_and_starts_no_thread(tmp_path: Path) -> None:
    """In a process that believes in a GPU, and is as the fork server is."""
    code = """
import importlib, os, re, sys
from pathlib import Path
import torch
torch.cuda.is_available, torch.cuda.device_count, torch.version.cuda = (lambda: True), (lambda: 1), "13.0"
torch._C._cuda_getCurrentRawStream = lambda index: 0
def initialise(): raise RuntimeError("CUDA would be initialised")
torch.cuda._lazy_init = initialise
from bench.worker.cuda_answers import answered
from bench.worker.preload import COMPILER, SHAREABLE
import bench.workloads
PACKAGES = sorted(set(SHAREABLE) - {"flash_attn_4"})
with answered([{"name": "A GPU", "major": 9, "minor": 0, "multi_processor_count": 132, "total_memory": 2**37}], 0):
    for module in (*COMPILER, "transformers.models.llama.modeling_llama", *(one for package in PACKAGES for one in SHAREABLE[package])):
        importlib.import_module(module)
assert not torch.cuda.is_initialized()
assert len(os.listdir("/proc/self/task")) == 1
statement = re.compile(rf"^ +(?:from|import) ((?:{'|'.join(PACKAGES)})[\\w.]*)", re.MULTILINE)
files = Path(bench.workloads.__file__).parent.glob("*/*.py")
wanted = {name for path in files for name in statement.findall(path.read_text())}
start = set(sys.modules)
for name in wanted:
    importlib.import_module(name)
further = set(sys.modules) - start
assert len(wanted) > 8 and len(further) < 100 and {name.partition(".")[0] for name in further} <= set(PACKAGES), further
"""
    environment = {**os.environ, **server_environment(1, tmp_path, {})}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
