from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from bench.errors import DeviceError
from bench.machine import find_device
from bench.machine.doctor_gpu import device_finding, driver_facts, gpu_findings, torch_against_driver
from bench.machine.findings import Severity
from tests.machine.fake_nvml import Gpu

Install = Callable[..., None]
QUIET: dict[str, Any] = {"throttle_share": {"gpu_idle": 1.0}, "other_compute_processes": [], "temperature_c": {"max": 40.0}}


def severities(conditions: dict[str, Any], **answers: Any) -> dict[str, Severity]:
    for name, value in answers.items():
        setattr(sys.modules["pynvml"], name, lambda *_, value=value: value)
    return {finding.what: finding.severity for finding in gpu_findings(find_device("cuda"), conditions)}


def worst(found: dict[str, Severity], words: str) -> Severity:
    matching = [severity for what, severity in found.items() if words in what]
    assert len(matching) == 1, found
    return matching[0]


def test_a_sound_gpu_has_nothing_but_ok(gpus: Install) -> None:
    gpus(Gpu("GPU-1"))
    found = severities(QUIET, nvmlDeviceGetPowerManagementDefaultLimit=700_000, nvmlDeviceGetMaxClockInfo=1980)
    assert set(found.values()) == {Severity.OK}
    assert worst(found, "700 W (the default)") is Severity.OK
    assert worst(found, "driver 580.65.06, for CUDA up to 13.0") is Severity.OK


def test_what_a_gpu_does_not_tell_is_left_out_without_a_fault(gpus: Install) -> None:
    silent = {"nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetEccMode", "nvmlDeviceGetPersistenceMode", "nvmlDeviceGetClockInfo"}
    gpus(Gpu("GPU-1", silent=frozenset(silent)))
    assert set(severities({}).values()) == {Severity.OK}


@pytest.mark.parametrize(
    ("answers", "words", "severity"),
    [
        ({"nvmlDeviceGetPowerManagementDefaultLimit": 750_000}, "below the default of 750 W", Severity.WARN),
        ({"nvmlDeviceGetPersistenceMode": 0}, "persistence mode is off", Severity.WARN),
        ({"nvmlDeviceGetTotalEccErrors": 3}, "3 uncorrected", Severity.PROBLEM),
        ({"nvmlDeviceGetRemappedRows": (1, 0, 1, 0)}, "remapped", Severity.PROBLEM),
        ({"nvmlDeviceGetComputeMode": 2}, "PROHIBITED", Severity.PROBLEM),
    ],
)
def test_a_fault_of_the_gpu_is_found(gpus: Install, answers: dict[str, Any], words: str, severity: Severity) -> None:
    gpus(Gpu("GPU-1"))
    assert worst(severities(QUIET, **answers), words) is severity


def test_heat_and_neighbours_are_warnings_and_a_power_cap_is_none(gpus: Install) -> None:
    gpus(Gpu("GPU-1"))
    found = severities(
        {
            "throttle_share": {"sw_power_cap": 0.5, "hw_thermal_slowdown": 0.1},
            "other_compute_processes": ["python"],
            "temperature_c": {"max": 90.0},
        }
    )
    assert worst(found, "held back: hw_thermal_slowdown") is Severity.WARN
    assert worst(found, "others compute on it: python") is Severity.WARN
    assert worst(found, "90 °C") is Severity.WARN


def test_a_device_that_is_not_there_is_a_problem_and_an_absent_gpu_is_none(gpus: Install) -> None:
    gpus(init_error=9)
    with pytest.raises(DeviceError):
        find_device("cuda")
    assert device_finding("cuda")[1].severity is Severity.PROBLEM
    device, found = device_finding("auto")
    assert device is not None
    assert (device.kind, found.severity) == ("cpu", Severity.OK)
    assert driver_facts() == {}


@pytest.mark.parametrize(
    ("built", "driver", "severity"),
    [
        ("13.0", (13, 0), Severity.OK),
        ("12.8", (13, 0), Severity.OK),
        ("12.8", (12, 4), Severity.WARN),
        ("13.0", (12, 8), Severity.PROBLEM),
        (None, (13, 0), Severity.PROBLEM),
    ],
)
def test_torch_is_held_against_the_driver(built: str | None, driver: tuple[int, int], severity: Severity) -> None:
    found = torch_against_driver(built, {"cuda": driver})
    assert found is not None
    assert found.severity is severity


def test_without_a_driver_there_is_nothing_to_hold_torch_against() -> None:
    assert torch_against_driver("13.0", {}) is None
