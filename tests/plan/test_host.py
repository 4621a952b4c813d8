"""What lies off the GPU: measured rows of H200s whose states or weights lay on the host or on disk, and the rules behind them."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bench.plan import Prediction, TrainSpec, model_named, predict, predict_step
from bench.plan.pinning import Pinning
from bench.plan.rounding import PROCESS_BYTES, host_needed_bytes
from bench.plan.terms import DISK, HOST, PINNED, Away, away_bytes
from bench.records import dump
from bench.store import Store

GIB, MIB = 2**30, 2**20
PUBLISHED = Path("results/published/nvidia-h200")
OWN_BYTES = 0.9 * GIB
"""So much more or less than `PROCESS_BYTES` a process had in the host's memory by itself."""
LLAMA = model_named("llama-3.2-1b")


@cache
def rows_of(suite: str) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "published.db") as store:
        store.import_file(PUBLISHED / f"{suite}.jsonl.xz")
        return [dump(row) for row in store.results([run.id for run in store.runs()])]


def published(suite: str) -> list[dict[str, Any]]:
    return [
        row
        for row in rows_of(suite)
        if row["status"] == "ok"
        and row["trial"]["case"]["subject"].get("offloading", "none") != "none"
        and told(row, "host_resident_bytes")
    ]


def told(row: dict[str, Any], metric: str) -> list[float]:
    """Of each rank."""
    found = [measured for measured in row["measurements"] if measured["metric"] == metric]
    ranks = [measured for measured in found if measured["scope"] != "trial"] or found
    return [sample for measured in ranks for sample in measured["samples"]]


def predicted(row: dict[str, Any]) -> Prediction:
    case = row["trial"]["case"]
    return predict({**case["params"], "world_size": case["world_size"]}, case["subject"])


def name_of(row: dict[str, Any]) -> str:
    case = row["trial"]["case"]
    return "-".join([case["params"]["model"].partition("(")[0], case["subject"].get("sharding", "none"),
                     case["subject"]["offloading"], f"{case['world_size']} ranks"])  # fmt: skip


ROWS = published("offload_step")


def test_rows_of_each_way_on_one_gpu_and_on_two_are_held_against_the_plan() -> None:
    ways = {
        (case["subject"].get("sharding", "none"), case["subject"]["offloading"]) for row in ROWS if (case := row["trial"]["case"])
    }
    assert len(ways) >= 5
    assert {row["trial"]["case"]["world_size"] for row in ROWS} == {1, 2}


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_pinned_memory_was_predicted_to_a_hundredth(row: dict[str, Any]) -> None:
    assert predicted(row).pinned_bytes == pytest.approx(max(told(row, "host_pinned_bytes")), rel=0.002, abs=6 * MIB)


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_all_that_a_process_held_of_the_host_was_predicted_but_for_its_own(row: dict[str, Any]) -> None:
    for resident in told(row, "host_resident_bytes"):
        assert host_needed_bytes(predicted(row).host_bytes, 1) == pytest.approx(resident, abs=OWN_BYTES)


@pytest.mark.parametrize("row", [row for row in ROWS if told(row, "disk_bytes")], ids=name_of)
def test_files_were_predicted_to_a_thousandth(row: dict[str, Any]) -> None:
    assert predicted(row).disk_bytes == pytest.approx(max(told(row, "disk_bytes")), rel=0.001)


def test_what_was_pinned_and_given_back_serves_the_next_of_its_power_alone() -> None:
    pinning = Pinning(cuda=True)
    assert pinning.away("first", [3000, 3000], "", "") == Away("first", PINNED, 8192, ", in powers of two", "")
    pinning.give_back([3000])
    assert pinning.away("smaller", [2000], "", "").size_bytes == 2048
    assert [pinning.away("as large", [4000], "", "").size_bytes for _ in range(2)] == [0, 4096]
    assert Pinning(cuda=False).away("on a CPU", [3000, 3000], "", "") == Away("on a CPU", HOST, 6000, "", "")


def of_llama(**changes: Any) -> Prediction:
    said = {"seq_len": 2048, "precision": "bf16_master", "optimizer": "adamw_cpu_deepspeed", "sharding": "zero3",
            "offload": "parameters", **changes}  # fmt: skip
    return predict_step(LLAMA, TrainSpec(**said))


def kept(prediction: Prediction, name: str) -> int:
    return sum(away.size_bytes for away in prediction.away if away.name == name)


def test_stage_3_pins_offloaded_weights_twice_and_frozen_ones_once() -> None:
    whole, adapters = of_llama(), of_llama(adaptation="lora")
    assert kept(whole, "weights laid flat") == 4 * GIB
    assert kept(whole, "weights, one by one") == 16 * 116 * MIB + 512 * MIB
    assert kept(adapters, "weights, one by one") > kept(whole, "weights, one by one")
    assert kept(adapters, "weights laid flat") == 32 * MIB  # 11 million weights of adapters


def test_without_offloading_nothing_lies_away() -> None:
    assert of_llama(offload="none", optimizer="adamw_fused").away == ()


def test_an_update_on_the_host_that_copies_all_that_it_updates_needs_room_for_that() -> None:
    in_place, copying = (of_llama(sharding="fsdp2", optimizer=f"adamw_{kind}") for kind in ("fused", "foreach"))
    assert kept(in_place, "update") == 0
    assert kept(copying, "update") == pytest.approx(4 * 1_235_814_400, rel=1e-3)


def test_sums_of_micro_batches_wait_on_the_host_under_stages_1_and_2() -> None:
    once, twice = (of_llama(sharding="zero2", offload="optimizer", accumulation=count) for count in (1, 2))
    assert twice.pinned_bytes - once.pinned_bytes == kept(twice, "sums of micro-batches") > 2 * 1_235_814_400


def test_offloaded_checkpoints_are_pinned_layer_by_layer() -> None:
    train = TrainSpec(seq_len=3000, precision="bf16_pure", attention="sdpa_flash", checkpointing="full_offloaded")
    assert predict_step(LLAMA, train).pinned_bytes == 16 * 16 * MIB  # each 11.7 MiB


def test_states_on_disk_leave_only_buffers_and_gradients_on_the_host() -> None:
    on_disk = of_llama(offload="optimizer_nvme")
    places = {away.place for away in on_disk.away}
    assert places == {PINNED, DISK}
    assert away_bytes(on_disk.away, DISK) == pytest.approx(16 * 1_235_814_400, rel=0.001)
    assert on_disk.host_bytes < of_llama().host_bytes


def test_each_process_of_a_host_has_its_own_besides() -> None:
    assert host_needed_bytes(7 * GIB, 8) == 8 * (7 * GIB + PROCESS_BYTES)
