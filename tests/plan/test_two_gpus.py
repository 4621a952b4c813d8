"""Steps that two H200s shared, and those whose states or weights lay on the host or on disk: what each phase held, as rows have it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.plan import Prediction
from bench.plan.predict import predict

RECORDED = json.loads((Path(__file__).parent / "two_gpus.json").read_text(encoding="utf-8"))
"""Peaks of the rank that needed most; nothing but bytes is used."""
UNNAMED_BYTES = 8 * 2**20
"""Blocks that were not split, and norms and counts that no formula speaks of."""


def recorded(row: dict[str, Any]) -> Prediction:
    return predict({**RECORDED["shapes"][row["shape"]], "world_size": row["world_size"]}, row["subject"])


def name_of(row: dict[str, Any]) -> str:
    return "-".join([row["shape"], row["subject"]["sharding"], row["subject"].get("offloading", "")])


@pytest.mark.parametrize("row", RECORDED["rows"], ids=name_of)
def test_what_the_fullest_gpu_held_was_predicted_to_a_thousandth_in_each_phase(row: dict[str, Any]) -> None:
    phases = recorded(row).by_phase()
    phases["forward"] = max(phases["forward"], phases.pop("loss"))  # which is the end of a measured forward
    assert recorded(row).peak_bytes == pytest.approx(row["peak_bytes"], rel=0.001, abs=UNNAMED_BYTES)
    for phase, measured in row["by_phase"].items():
        assert phases[phase] == pytest.approx(measured, rel=0.001, abs=UNNAMED_BYTES), phase


def test_states_on_disk_take_what_was_measured_there_and_buffers_of_the_host() -> None:
    (row,) = (row for row in RECORDED["rows"] if row["subject"].get("offloading") == "optimizer_nvme")
    assert recorded(row).disk_bytes == pytest.approx(row["disk_bytes"], rel=0.001)
    assert recorded(row).host_bytes == pytest.approx(row["host_pinned_bytes"], rel=0.01)
