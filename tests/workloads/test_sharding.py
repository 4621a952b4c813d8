"""Two ranks share a step in every way that there is: they learn what one process learns, and each holds what it was promised."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from bench.catalogue import load_catalogue
from tests.workloads.sharded_steps import PRECISIONS, WAYS

RANKS = 2
PSI = 2 * 256 * 64 + 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64) + 64
"""Weights of the tiny model: embedding and head, two layers, the last norm."""
SLACK_BYTES = 4096

WEIGHT_BYTES = {"fp32": 4, "bf16_master": 2}
SHARED = {
    "ddp": set[str](),
    "zero0": set[str](),
    "zero1": {"gradient_bytes", "master_bytes", "state_bytes"},
    "zero2": {"gradient_bytes", "master_bytes", "state_bytes"},
    "zero3": {"weight_bytes", "gradient_bytes", "master_bytes", "state_bytes"},
    **{way: {"weight_bytes", "gradient_bytes", "master_bytes", "state_bytes"} for way in WAYS if way.startswith("fsdp2")},
}
EDGE_BYTES = 4 * 2 * 64 * 256
"""Of a weight that two ranks share in stages 1 and 2 each keeps the whole gradient."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """By rank, then by case; all cases in one pair of processes, since an import costs more than a case."""
    pytest.importorskip("deepspeed")
    folder = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
    variables = {**os.environ, "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    ended = subprocess.run(
        [*command, "-m", "tests.workloads.sharded_steps", "shared", str(folder)],
        capture_output=True, text=True, timeout=400, check=False, env=variables,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(RANKS)]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("way", WAYS)
def test_ranks_learn_what_one_process_learns_of_all_their_data(ranks: list[dict[str, Any]], way: str, precision: str) -> None:
    found = [rank[f"{way} {precision}"] for rank in ranks]
    assert "error" not in found[0], found[0]
    assert found[0]["losses"] == found[1]["losses"]
    if (way, precision) == ("zero0", "bf16_master"):
        return  # DeepSpeed sums 16-bit gradients otherwise there: told, and not judged
    assert found[0]["losses"] == pytest.approx(ranks[0][f"alone {precision}"]["losses"], abs=1e-5 if precision == "fp32" else 2e-4)


@pytest.mark.parametrize("way", ["ddp", "fsdp2", "zero2"])
def test_micro_batches_of_ranks_add_up_as_those_of_one_process(ranks: list[dict[str, Any]], way: str) -> None:
    assert ranks[0][f"{way} accumulates"]["losses"] == pytest.approx(ranks[0]["alone accumulates"]["losses"], abs=1e-5)


@pytest.mark.parametrize("way", ["fsdp2", "zero3"])
def test_weights_that_are_gathered_are_gathered_again_for_a_checkpointed_layer(ranks: list[dict[str, Any]], way: str) -> None:
    found = ranks[0][f"{way} checkpointed"]
    assert found["losses"] == pytest.approx(ranks[0]["alone fp32"]["losses"], abs=1e-5)
    assert found["unproved"] == {}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("way", WAYS)
def test_each_rank_holds_the_whole_or_its_share_as_the_way_promises(ranks: list[dict[str, Any]], way: str, precision: str) -> None:
    fsdp, zero = way.startswith("fsdp2"), way in ("zero1", "zero2", "zero3")
    weight = 4 if fsdp else WEIGHT_BYTES[precision]
    copied = zero or (precision == "bf16_master" and not fsdp)  # ZeRO has a copy even of fp32; fully_shard's shards are the copy
    whole = {
        "weight_bytes": PSI * weight,
        "gradient_bytes": PSI * weight,
        "master_bytes": PSI * 4 if copied else 0,
        "state_bytes": 2 * PSI * 4,
    }
    for rank in ranks:
        found = rank[f"{way} {precision}"]["findings"]
        for name, size in whole.items():
            share = size / RANKS if name in SHARED[way] else size
            edge = EDGE_BYTES / 8 if name == "gradient_bytes" and way in ("zero1", "zero2") else 0
            assert found[name] == pytest.approx(share, abs=SLACK_BYTES + edge), name


def test_every_way_is_proved_by_its_state_and_so_is_every_other_slot(ranks: list[dict[str, Any]]) -> None:
    unproved = {name: found["unproved"] for rank in ranks for name, found in rank.items() if found.get("unproved")}
    assert unproved == {}


def test_every_rank_says_what_is_shared_out_and_what_lies_whole(ranks: list[dict[str, Any]]) -> None:
    told = {way: ranks[0][f"{way} bf16_master"]["facts"] for way in WAYS}
    assert {way: facts["shared_out"] for way, facts in told.items() if facts["shared_out"]} == {
        **dict.fromkeys(("fsdp2", "fsdp2_root_unit", "fsdp2_kept"), "weights, gradients, states"),  # the fp32 copy are the weights
        "zero1": "gradients, masters, states",
        "zero2": "gradients, masters, states",
        "zero3": "weights, gradients, masters, states",
    }
    assert told["zero1"]["kept_whole"] == "weights"
    assert told["ddp"]["kept_whole"] == "weights, gradients, masters, states"


@pytest.mark.parametrize("way", ["zero0", "zero2", "zero3", "fsdp2"])
def test_in_fp16_losses_are_scaled_until_nothing_overflows(ranks: list[dict[str, Any]], way: str) -> None:
    for rank in ranks:
        found = rank[f"{way} fp16"]
        assert "error" not in found, found
        assert found["findings"]["loss_scale"] >= 1024.0
        assert found["unproved"] == {}
        if way != "fsdp2":
            history = json.loads(found["facts"]["loss_scale_history"])
            assert history[0] == [0, 65536.0]
            assert history[-1][1] == found["findings"]["loss_scale"]


@pytest.mark.parametrize(("precision", "within"), [("fp32", 1e-4), ("bf16_master", 0.02)])
def test_the_norm_of_the_first_update_is_that_of_all_ranks_gradients(
    ranks: list[dict[str, Any]], precision: str, within: float
) -> None:
    for rank in ranks:
        found = {way: rank[f"{way} {precision}"]["findings"] for way in WAYS}
        norms = {way: numbers["gradient_norm"] for way, numbers in found.items() if "gradient_norm" in numbers}
        assert set(norms) == set(WAYS) - {"zero0"}
        assert norms == pytest.approx(dict.fromkeys(norms, ranks[0][f"ddp {precision}"]["findings"]["gradient_norm"]), rel=within)
        assert all(numbers["skipped_steps"] == 0.0 and numbers["loss_scale"] == 1.0 for numbers in found.values())
        shares = {way for way, numbers in found.items() if "gradient_zero_share" in numbers}
        assert shares == {"ddp", "fsdp2", "fsdp2_root_unit", "fsdp2_kept"}


def test_in_fp16_the_norm_is_unscaled_whoever_scales(ranks: list[dict[str, Any]]) -> None:
    norms = [ranks[0][f"{way} fp16"]["findings"]["gradient_norm"] for way in ("fsdp2", "zero2", "zero3")]
    assert norms == pytest.approx([ranks[0]["ddp fp32"]["findings"]["gradient_norm"]] * 3, rel=0.05)


def test_adapters_alone_are_shared_where_they_alone_learn(ranks: list[dict[str, Any]]) -> None:
    found = ranks[0]["zero2 with adapters"]["findings"]
    assert found["state_bytes"] < PSI * 4 / 3
    assert found["master_bytes"] == pytest.approx(found["state_bytes"] / 2, abs=SLACK_BYTES)


def test_what_deepspeed_came_to_is_among_the_facts(ranks: list[dict[str, Any]]) -> None:
    first, last = (json.loads(ranks[0][f"zero{stage} fp32"]["facts"]["deepspeed_zero"]) for stage in (1, 3))
    assert (first["stage"], last["stage"]) == (1, 3)
    assert first["reduce_bucket_size"] == last["reduce_bucket_size"] == 100_000
    assert last["prefetch_bucket_size"] == 100_000
    assert (first["overlap_comm"], last["overlap_comm"]) == (False, True)  # its own defaults, worked out by the stage
    assert ranks[0]["zero1 fp32"]["facts"]["shm_comm"] is False
    whole = json.loads(ranks[0]["zero2 fp16"]["facts"]["deepspeed_config"])
    assert (whole["model_dtype"], whole["grad_accum_dtype"]) == ("torch.float16", "torch.float16")
    assert whole["float16_config"]["loss_scale"] == 0.0  # it finds its own
    assert whole["train_batch_size"] == 2 * whole["train_micro_batch_size_per_gpu"]


def test_what_cannot_go_together_is_refused_in_words(ranks: list[dict[str, Any]]) -> None:
    refused = {name: found["error"] for name, found in ranks[0].items() if "error" in found}
    assert set(refused) == {"none", "zero1 in autocast", "ddp on the host"}
    assert all(error.startswith("Unsupported: ") for error in refused.values())
    assert "ddp is the plain way" in refused["none"]


def test_every_way_of_sharing_says_in_a_line_what_it_is() -> None:
    found = load_catalogue().implementations("sharding")
    assert {*WAYS, "none"} == set(found)
    assert all(way.description for way in found.values())


def test_quantized_weights_keep_their_bytes_beside_those_that_an_engine_casts(ranks: list[dict[str, Any]]) -> None:
    found = ranks[0]["zero2 with quantized weights"]
    assert "error" not in found, found
    assert found["unproved"] == {}
