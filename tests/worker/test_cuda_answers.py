"""What packages ask of CUDA at import is answered from what a child read, and CUDA stays as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bench.worker.cuda_answers import answered, read_properties

TWO = ({"name": "First", "major": 9, "minor": 0}, {"name": "Second", "major": 12, "minor": 1})


@pytest.fixture(autouse=True)
def _two_gpus_that_may_not_be_initialised(monkeypatch: pytest.MonkeyPatch) -> None:
    def initialise() -> None:
        raise RuntimeError("CUDA would be initialised")

    monkeypatch.setattr("torch.cuda._lazy_init", initialise)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)


def test_questions_are_answered_without_cuda_and_afterwards_go_to_torch_again() -> None:
    with answered(TWO, 1):
        kept = torch.cuda.get_device_properties
        assert torch.cuda.current_device() == 1
        assert torch.cuda.get_device_capability() == (12, 1)
        assert [torch.cuda.get_device_name(index) for index in (0, 1)] == ["First", "Second"]
        assert torch.cuda.get_device_capability(torch.cuda.device(0)) == (9, 0)
    for ask in (kept, torch.cuda.get_device_properties, lambda _: torch.cuda.current_device()):
        with pytest.raises(RuntimeError, match="would be initialised"):
            ask(0)


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
def test_packages_of_techniques_ask_no_more_than_is_answered() -> None:
    """In a process that believes in a GPU: what they import of torch, transformers and each other included."""
    code = """
import torch
torch.cuda.is_available, torch.cuda.device_count, torch.version.cuda = (lambda: True), (lambda: 1), "13.0"
torch._C._cuda_getCurrentRawStream = lambda index: 0
def initialise(): raise RuntimeError("CUDA would be initialised")
torch.cuda._lazy_init = initialise
from bench.worker.cuda_answers import answered
with answered([{"name": "A GPU", "major": 9, "minor": 0, "multi_processor_count": 132, "total_memory": 2**37}], 0):
    import transformers.models.llama.modeling_llama, liger_kernel.ops.rms_norm, bitsandbytes.nn, torchao.quantization.qat
assert not torch.cuda.is_initialized()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr[-3000:]
