"""What is sampled beside a trial."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from bench.machine import ConditionsSampler, find_device
from bench.machine.neighbours import ours, processes
from bench.machine.throttling import reason_words
from tests.machine.fake_nvml import Gpu

Install = Callable[..., None]


def test_a_summary_is_json_with_the_spread_of_each_reading() -> None:
    with ConditionsSampler(find_device("cpu"), interval_s=0.01) as sampler:
        while sampler._count < 3:
            time.sleep(0.01)
    summary = sampler.summary()
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["readings"] > 3
    for name in ("load_1min", "memory_available_bytes"):
        assert summary[name]["min"] <= summary[name]["median"] <= summary[name]["max"]
    assert 0 <= summary["machine_busy_share"] <= 1
    assert "gpu_uuid" not in summary


def test_a_sampler_serves_one_trial_and_its_thread_ends_even_when_the_trial_raises() -> None:
    sampler = ConditionsSampler(find_device("cpu"))
    with pytest.raises(ZeroDivisionError), sampler:
        raise ZeroDivisionError
    assert sampler.summary()["readings"] >= 2
    assert sampler._thread is not None
    assert not sampler._thread.is_alive()
    with pytest.raises(RuntimeError, match="one trial"), sampler:
        pass


def test_nothing_is_said_before_the_end() -> None:
    with ConditionsSampler(find_device("cpu")) as sampler:
        assert sampler.summary() == {}


SPIN = (
    "import sys, time\nopen('/proc/self/comm', 'w').write(sys.argv[1])\n"
    "end = time.process_time() + 8\nwhile time.process_time() < end: pass\n"
)


def test_our_own_children_are_no_busy_neighbours_and_a_strangers_process_is_one_by_name_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # On a machine where many compute nobody may get a tenth of a core.
    monkeypatch.setattr("bench.machine.conditions.BUSY_SHARE", 0.001)
    # A process that is not below us: its parent ends at once, and nobody here is a subreaper.
    quiet = "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL"  # or we would wait for its copies of our pipes
    launcher = (
        "import subprocess, sys; "
        f"print(subprocess.Popen([sys.executable, '-c', {SPIN!r}, 'a stranger', '--password=hunter2'], {quiet}).pid)"
    )
    stranger = int(subprocess.run([sys.executable, "-c", launcher], check=True, capture_output=True, text=True).stdout)
    child = subprocess.Popen([sys.executable, "-c", SPIN, "a child"])
    try:
        assert child.pid in ours(processes(), os.getpid())
        if stranger in ours(processes(), os.getpid()):
            pytest.skip("this process is a subreaper, so every process that it starts stays below it")
        with ConditionsSampler(find_device("cpu")) as sampler:
            before = processes()
            while any(processes()[pid].cpu_s < before[pid].cpu_s + 0.1 for pid in (stranger, child.pid)):
                time.sleep(0.05)
    finally:
        os.kill(stranger, 9)
        child.kill()
        child.wait()
    busy = sampler.summary()["busy_processes"]
    assert [entry["cores"] > 0 for entry in busy if entry["name"] == "a stranger"] == [True]
    assert "a child" not in {entry["name"] for entry in busy}
    assert "hunter2" not in json.dumps(busy)
    assert all(set(entry) == {"name", "cores"} for entry in busy)


def test_a_gpu_adds_clocks_power_heat_reasons_in_words_energy_and_its_uuid(gpus: Install) -> None:
    gpus(Gpu("GPU-a", processes=[999_999_999]))
    with ConditionsSampler(find_device("cuda"), interval_s=0.01) as sampler:
        time.sleep(0.05)
    summary = sampler.summary()
    assert summary["gpu_uuid"] == "GPU-a"
    assert summary["sm_clock_hz"]["median"] == 1980e6
    assert summary["memory_clock_hz"]["median"] == 3201e6
    assert summary["power_w"]["max"] == 648.0
    assert summary["temperature_c"]["max"] == 61.0
    assert summary["throttle_share"] == {"sw_power_cap": 1.0}
    assert summary["power_limit_w"] == 700.0
    assert summary["energy_j"] == 50.0 * (len(sampler.energy_mj) - 1)
    assert len(summary["other_compute_processes"]) == 1


def test_of_several_gpus_each_is_told_by_itself_and_the_worst_of_them_counts(gpus: Install) -> None:
    gpus(Gpu("GPU-a"), Gpu("GPU-b", throttle_bits=0x40, processes=[999_999_999]))
    with ConditionsSampler(find_device("cuda"), further=[find_device("cuda:1")], interval_s=0.01) as sampler:
        time.sleep(0.05)
    summary = sampler.summary()
    assert summary["throttle_share"] == {"sw_power_cap": 1.0, "hw_thermal_slowdown": 1.0}
    assert {number: found["throttle_share"] for number, found in summary["gpus"].items()} == {
        "0": {"sw_power_cap": 1.0},
        "1": {"hw_thermal_slowdown": 1.0},
    }
    assert summary["energy_j"] == sum(found["energy_j"] for found in summary["gpus"].values())
    assert [found["others_computing"] for found in summary["gpus"].values()] == [0, 1]
    assert len(summary["other_compute_processes"]) == 1
    assert summary["gpus"]["1"]["sm_clock_hz"]["median"] == summary["sm_clock_hz"]["median"] == 1980e6
    assert summary["gpu_uuid"] == "GPU-a"


def test_energy_of_several_gpus_is_absent_where_one_does_not_tell_its_own(gpus: Install) -> None:
    gpus(Gpu("GPU-a"), Gpu("GPU-b", silent=frozenset({"nvmlDeviceGetTotalEnergyConsumption"})))
    with ConditionsSampler(find_device("cuda"), further=[find_device("cuda:1")]) as sampler:
        pass
    assert "energy_j" not in sampler.summary()
    assert "energy_j" in sampler.summary()["gpus"]["0"]


def test_what_a_gpu_cannot_tell_is_absent_and_not_zero(gpus: Install) -> None:
    silent = frozenset(
        {
            "nvmlDeviceGetPowerUsage",
            "nvmlDeviceGetTotalEnergyConsumption",
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetUtilizationRates",
        }
    )
    gpus(Gpu("GPU-a", silent=silent))
    with ConditionsSampler(find_device("cuda")) as sampler:
        pass
    assert not {"power_w", "energy_j", "throttle_share", "gpu_utilisation"} & set(sampler.summary())
    assert "sm_clock_hz" in sampler.summary()


def test_throttle_bits_become_words_also_those_that_we_do_not_know() -> None:
    assert reason_words(0) == []
    assert reason_words(0x4 | 0x40) == ["sw_power_cap", "hw_thermal_slowdown"]
    assert reason_words(0x8000) == ["bit_0x8000"]
