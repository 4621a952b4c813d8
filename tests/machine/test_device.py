"""Which device is chosen, and what is said about it."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from bench.errors import DeviceError
from bench.machine.device import cpu_model, find_device, form_factor
from tests.machine.fake_nvml import Gpu

Install = Callable[..., None]


def test_auto_takes_the_first_gpu_that_nvml_sees(gpus: Install) -> None:
    gpus(Gpu("GPU-a"), Gpu("GPU-b"))
    device = find_device("auto")
    assert (device.kind, device.index, device.uuid, device.name) == ("cuda", 0, "GPU-a", "NVIDIA H200")
    assert device.lock_name == "gpu-GPU-a"
    assert device.torch_name == "cuda:0"


def test_auto_takes_the_cpu_where_there_is_no_driver(gpus: Install) -> None:
    for missing in (9, 12):
        gpus(init_error=missing)
        assert find_device("auto").kind == "cpu"


def test_the_interpreter_is_the_cpu_under_another_name(gpus: Install) -> None:
    gpus(Gpu("GPU-a"))
    device, host = find_device("cpu-interpreter"), find_device("cpu")
    assert device.kind == "cpu-interpreter"
    assert (device.name, device.memory_bytes, device.uuid) == (host.name, host.memory_bytes, None)
    assert (device.lock_name, device.torch_name) == (host.lock_name, host.torch_name) == ("cpu", "cpu")


def test_auto_does_not_fall_back_to_the_cpu_when_the_driver_is_broken(gpus: Install) -> None:
    gpus(init_error=18)
    with pytest.raises(DeviceError, match=r"version mismatch.*--device cpu"):
        find_device("auto")


def test_cuda_without_a_gpu_says_what_nvml_says(gpus: Install) -> None:
    gpus(init_error=12)
    with pytest.raises(DeviceError, match="no NVIDIA GPU here: NVML Shared Library Not Found"):
        find_device("cuda")


def test_an_index_beyond_the_last_gpu_names_those_that_there_are(gpus: Install) -> None:
    gpus(Gpu("GPU-a"), Gpu("GPU-b"))
    assert find_device("cuda:1").uuid == "GPU-b"
    with pytest.raises(DeviceError, match="visible GPUs: cuda:0 to cuda:1"):
        find_device("cuda:2")


def test_a_word_that_is_no_device_is_refused_with_the_words_that_are() -> None:
    with pytest.raises(DeviceError, match=r"auto, cuda, cuda:N or cpu"):
        find_device("gpu0")


@pytest.mark.parametrize(
    ("visible", "expected"),
    [("1", ["GPU-b"]), ("1,0", ["GPU-b", "GPU-a"]), ("GPU-b", ["GPU-b"]), ("0,9,1", ["GPU-a"]), ("", []), ("-1", [])],
)
def test_indices_are_those_of_torch_after_cuda_visible_devices(
    gpus: Install, monkeypatch: pytest.MonkeyPatch, visible: str, expected: list[str]
) -> None:
    gpus(Gpu("GPU-a"), Gpu("GPU-b"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    for index, uuid in enumerate(expected):
        assert find_device(f"cuda:{index}").uuid == uuid
    with pytest.raises(DeviceError, match="CUDA_VISIBLE_DEVICES"):
        find_device(f"cuda:{len(expected)}")


def test_hiding_all_gpus_makes_auto_the_cpu(gpus: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(Gpu("GPU-a"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert find_device("auto").kind == "cpu"


def test_a_mig_instance_is_a_device_of_its_own(gpus: Install) -> None:
    slice_ = Gpu("MIG-1", name="NVIDIA H100 80GB HBM3 MIG 1g.10gb", memory=10 * 2**30)
    gpus(Gpu("GPU-a", name="NVIDIA H100 80GB HBM3", mig=[slice_]))
    device = find_device("cuda")
    assert (device.uuid, device.mig, device.form_factor) == ("MIG-1", "1g.10gb", "SXM")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA H200", "SXM"),
        ("NVIDIA H200 NVL", "NVL"),
        ("NVIDIA H100 80GB HBM3", "SXM"),
        ("NVIDIA H100 PCIe", "PCIe"),
        ("NVIDIA A100-SXM4-80GB", "SXM"),
        ("NVIDIA A100-PCIE-40GB", "PCIe"),
        ("NVIDIA GeForce RTX 4090", None),
        ("NVIDIA L4", None),
    ],
)
def test_cards_of_one_chip_in_different_form_factors_are_told_apart(name: str, expected: str | None) -> None:
    assert form_factor(name) == expected


def test_two_cpus_with_the_same_brand_but_other_models_are_told_apart() -> None:
    first = "processor\t: 0\ncpu family\t: 6\nmodel\t\t: {}\nmodel name\t: Intel(R)  Xeon(R) Processor\nstepping\t: 2\n"
    text = first + "\nprocessor\t: 1\nmodel\t: 9\n"
    assert cpu_model(text.format(207)) == "Intel(R) Xeon(R) Processor (cpu family 6, model 207, stepping 2)"
    assert cpu_model(text.format(143)) != cpu_model(text.format(207))


def test_a_cpu_without_a_name_is_called_by_its_part_or_architecture() -> None:
    arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU variant\t: 0x0\nCPU part\t: 0xd4f\n"
    assert cpu_model(arm) == f"{os.uname().machine} (implementer 0x41, part 0xd4f, variant 0x0)"
    assert cpu_model("") == os.uname().machine


def test_the_host_is_a_device_with_memory_and_one_lock() -> None:
    host = find_device("cpu")
    assert host.memory_bytes > 2**28
    assert host.lock_name == "cpu"
    assert host.uuid is None
