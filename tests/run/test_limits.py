"""What forbids a measured trial: heat, hardware, and more than the data sheet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from bench.machine import Device
from bench.machine.datasheet import data_sheet
from bench.records import Case, Cost, Reply, Status
from bench.run.canaries import canary_cases
from bench.run.limits import PAUSES_S, above_data_sheet, held_back, unthrottled
from bench.run.ranks import Answer
from bench.run.worker import Measured
from tests.factories import case, measurement


def gpu(name: str = "NVIDIA H200") -> Device:
    return Device(kind="cuda", index=0, uuid="GPU-0", name=name, memory_bytes=141 * 10**9)


def reply(seconds: float, *, flops: int = 0, moved: int = 0, l2: int = 60 * 2**20) -> Reply:
    return Reply(
        Status.OK, measurements=(measurement("time_s", (seconds,)),), cost=Cost(flops=flops, bytes=moved), runtime={"l2_bytes": l2}
    )


def on_gpu(**changes: Any) -> Case:
    return case(device="cuda", timer="events", dtype="bf16", **changes)


def test_more_flops_than_the_data_sheet_are_not_fast_but_wrong() -> None:
    assert above_data_sheet(on_gpu(), reply(1.0, flops=int(989e12)), gpu()) is None
    reason = above_data_sheet(on_gpu(), reply(1.0, flops=int(1100e12)), gpu())
    assert reason == "1100 TFLOP/s are more than the 989.4 of the data sheet (NVIDIA H200 Tensor Core GPU data sheet)"


def test_bandwidth_counts_only_where_the_cache_cannot_serve_it() -> None:
    assert above_data_sheet(on_gpu(), reply(1.0, moved=int(4.9e12)), gpu()) is not None
    assert above_data_sheet(on_gpu(), reply(1e-6, moved=200 * 2**20), gpu()) is None


@pytest.mark.parametrize("name", ["NVIDIA H9000", "Quadro", ""])
def test_an_unknown_gpu_has_no_limits(name: str) -> None:
    assert data_sheet(name) is None
    assert above_data_sheet(on_gpu(), reply(1.0, flops=10**18), gpu(name)) is None


def test_form_factors_have_their_own_sheets() -> None:
    names = [
        "NVIDIA H100 80GB HBM3",
        "NVIDIA H100 PCIe",
        "NVIDIA H100 NVL",
        "NVIDIA H200",
        "NVIDIA H200 NVL",
        "NVIDIA A100-SXM4-80GB",
    ]
    found = [sheet.model for name in names if (sheet := data_sheet(name)) is not None]
    assert found == ["H100 SXM", "H100 PCIe", "H100 NVL", "H200 SXM", "H200 NVL", "A100 SXM 80GB"]


def test_a_power_cap_alone_forbids_nothing() -> None:
    assert held_back({"throttle_share": {"sw_power_cap": 1.0, "gpu_idle": 0.2}}) is None
    assert held_back({}) is None
    assert held_back({"throttle_share": {"hw_thermal_slowdown": 0.25}}) == "hw_thermal_slowdown in 25% of the readings"


def test_the_gpu_that_holds_the_ranks_back_is_named() -> None:
    told = {"0": {"throttle_share": {"sw_power_cap": 1.0}}, "1": {"throttle_share": {"hw_thermal_slowdown": 0.25}}}
    found = held_back({"throttle_share": {"sw_power_cap": 1.0, "hw_thermal_slowdown": 0.25}, "gpus": told})
    assert found == "hw_thermal_slowdown in 25% of the readings on cuda:1"


def measured(conditions: Mapping[str, Any], status: Status = Status.OK) -> Measured:
    made = reply(1.0) if status is Status.OK else Reply(status, "because")
    return Measured(Answer(made, None, ()), None, conditions, "", 1.0)


HOT = {"throttle_share": {"hw_thermal_slowdown": 1.0}}


def answers(*conditions: Mapping[str, Any]) -> Iterator[Measured]:
    yield from (measured(each) for each in conditions)


def test_a_hot_trial_is_thrown_away_and_measured_again_after_a_pause() -> None:
    pauses: list[float] = []
    trials = answers(HOT, HOT, {"load": 1})
    found = unthrottled(lambda: next(trials), lambda seconds: pauses.append(seconds) or True)
    assert found is not None
    assert found.answer.reply.status is Status.OK
    assert found.conditions == {"load": 1, "discarded_trials": 2}
    assert pauses == list(PAUSES_S[:2])


def test_a_gpu_that_stays_hot_gives_an_invalid_row_that_keeps_its_numbers() -> None:
    found = unthrottled(lambda: measured(HOT), lambda seconds: True)
    assert found is not None
    assert found.answer.reply.status is Status.INVALID
    assert "hw_thermal_slowdown" in (found.answer.reply.reason or "")
    assert found.answer.reply.measurements
    assert found.conditions["discarded_trials"] == len(PAUSES_S)


def test_a_refusal_on_a_hot_gpu_stays_a_refusal_and_a_stop_ends_the_waiting() -> None:
    found = unthrottled(lambda: measured(HOT, Status.OOM), lambda seconds: True)
    assert found is not None
    assert found.answer.reply.status is Status.OOM
    assert unthrottled(lambda: measured(HOT), lambda seconds: False) is None
    assert unthrottled(lambda: None, lambda seconds: True) is None


def test_canaries_come_with_gpu_cases_once_a_dtype_and_not_twice() -> None:
    assert canary_cases([case()]) == ()
    found = canary_cases([on_gpu(), on_gpu(seq_len=256), on_gpu()])
    assert [(canary.workload, canary.dtype) for canary in found] == [("matmul", "bf16"), ("copy", "bf16")]
    assert canary_cases([on_gpu(), *found]) == ()
