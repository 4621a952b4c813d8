"""What is hard, what is soft, and what is in neither."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.machine import environment, find_device
from bench.machine.environment import relevant_variables, short_paths
from bench.records import dump
from bench.run.forkserver import server_environment
from tests.machine.fake_nvml import Gpu

Install = Callable[..., None]


def test_a_cpu_is_told_by_its_model_and_threads() -> None:
    found = environment(find_device("cpu"), threads=2, variables={})
    assert set(found.hard) == {"device", "cpu_model", "threads"}
    assert found.hard_hash != environment(find_device("cpu"), threads=1, variables={}).hard_hash
    assert found.soft_hash == environment(find_device("cpu"), threads=1, variables={}).soft_hash


def test_a_gpu_is_told_by_model_memory_form_factor_count_and_mig(gpus: Install) -> None:
    gpus(Gpu("GPU-a"))
    found = environment(find_device("cuda"), threads=1, variables={})
    assert found.hard == {
        "device": "cuda",
        "gpu_model": "NVIDIA H200",
        "memory_bytes": 140 * 2**30,
        "form_factor": "SXM",
        "count": 1,
        "mig": None,
    }
    assert found.soft["driver"] == "580.65.06"
    assert found.soft["driver_cuda"] == "13.0"
    assert found.soft["power_limit_w"] == 700.0
    assert environment(find_device("cuda"), threads=1, world_size=2, variables={}).hard_hash != found.hard_hash


def test_which_of_equal_gpus_it_was_and_a_driver_that_keeps_more_for_itself_change_no_hash(gpus: Install) -> None:
    gpus(Gpu("GPU-a"), Gpu("GPU-b", memory=150_754_820_096 - 200 * 2**20))
    first, second = (environment(find_device(f"cuda:{index}"), threads=1, variables={}) for index in (0, 1))
    assert first.hard_hash == second.hard_hash
    assert first.soft_hash == second.soft_hash


def test_what_is_under_test_is_in_no_environment() -> None:
    runtime = {"torch": "2.13.0", "torch_git": "abc", "torch_threads": 1}
    device = find_device("cpu")
    with_torch = environment(device, threads=1, runtime=runtime, variables={})
    without = environment(device, threads=1, runtime=runtime, under_test=["Torch"], variables={})
    assert {"package:torch", "torch", "torch_git"} & set(with_torch.soft) == {"package:torch", "torch", "torch_git"}
    assert not {"package:torch", "torch", "torch_git"} & set(without.soft)
    assert without.soft["torch_threads"] == 1


def test_relevant_variables_are_kept_without_the_paths_and_the_secrets_in_them() -> None:
    found = relevant_variables(
        {
            "PYTORCH_ALLOC_CONF": "expandable_segments:True",
            "LD_PRELOAD": "/home/somebody/lib/libtcmalloc.so:/opt/x/libjemalloc.so.2",
            "NCCL_DEBUG": "sesame-open-123",
            "WANDB_API_KEY": "sesame-open-123",
            "NCCL_AUTH_TOKEN": "abcdefgh",
            "HOME": "/home/somebody",
            "PATH": "/usr/bin",
            "OMP_NUM_THREADS": "8",
            "TRITON_CACHE_DIR": "/tmp/fresh",
            "CUDA_VISIBLE_DEVICES": "3",
        }
    )
    assert found == {
        "LD_PRELOAD": "libtcmalloc.so:libjemalloc.so.2",
        "NCCL_DEBUG": "[secret]",
        "PYTORCH_ALLOC_CONF": "expandable_segments:True",
    }


def test_what_a_server_sets_for_itself_is_no_fact_of_an_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in relevant_variables(os.environ):
        monkeypatch.delenv(name)
    assert relevant_variables(server_environment(1, tmp_path, {})) == {}


def test_a_relevant_variable_changes_the_soft_hash_and_an_irrelevant_one_does_not() -> None:
    device = find_device("cpu")
    plain = environment(device, threads=1, variables={})
    assert environment(device, threads=1, variables={"LESS": "-R"}).soft_hash == plain.soft_hash
    assert environment(device, threads=1, variables={"MALLOC_ARENA_MAX": "1"}).soft_hash != plain.soft_hash


@given(st.lists(st.sampled_from(["/a/b", "~/x", "../y/z", "a:b", "1", "/", ":", "=", "k=/p/q"]), max_size=6))
def test_no_path_of_two_parts_survives(parts: list[str]) -> None:
    assert "/b" not in short_paths(" ".join(parts))
    assert "/q" not in short_paths(" ".join(parts))


def test_an_environment_is_plain_data() -> None:
    found = environment(find_device("cpu"), threads=1)
    assert dump(found)["hard"] == dict(found.hard)
    assert all(value is not None for value in found.soft.values())
    assert dataclasses.asdict(found)
