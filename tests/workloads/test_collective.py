"""What ranks sum, gather and scatter comes to what the host adds up, and what each must send is counted as the formula says."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench.catalogue import load_catalogue
from bench.machine import find_device
from bench.records import Pass, Result, Status
from bench.run import RunOptions, execute, make_plan
from bench.store import Store
from bench.suite import expand, load_suite
from bench.workloads.collective import OPERATIONS, WORKLOAD, CollectiveSpec
from tests.factories import case as any_case
from tests.worker.trials import answer

SUITE = Path(__file__).parents[2] / "suites" / "collectives.yaml"


def test_a_rank_sends_what_goes_round_a_ring() -> None:
    """The factors of nccl-tests: 2 (N - 1) / N for a sum, half of that for the other two."""
    sizes = {op: CollectiveSpec(op, 1000, 4, "bf16", "cuda").bus_bytes() / 8000 for op in OPERATIONS}
    assert sizes == {"all_reduce": 1.5, "all_gather": 0.75, "reduce_scatter": 0.75}


def test_bytes_that_ranks_cannot_share_evenly_are_refused() -> None:
    made = any_case("gloo", params={"operation": "all_reduce", "bytes": 4098})
    uneven = dataclasses.replace(made, workload="collective", subject={"collective": "gloo"}, world_size=2)
    with pytest.raises(ValueError, match="a multiple of 8: 2 ranks, 4 bytes a number"):
        WORKLOAD.spec(uneven)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_rank_alone_gets_what_it_put_in_and_leaves_no_group_behind(tmp_path: Path, operation: str) -> None:
    import torch.distributed as dist

    made = any_case("gloo", params={"operation": operation, "bytes": 4096})
    reply = answer(tmp_path, dataclasses.replace(made, workload="collective", subject={"collective": "gloo"}, pass_=Pass.FORWARD))
    assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"
    assert {check.at for check in reply.checks} >= {"small", "measured"}
    assert not dist.is_initialized()


@pytest.mark.slow
def test_two_ranks_get_sums_and_parts_of_both(tmp_path: Path) -> None:
    catalogue = load_catalogue()
    suite = load_suite(SUITE, catalogue, profile="cpu", sets=("bytes=65536",))
    options = RunOptions(suite_file=str(SUITE), device="cpu", seed=1)
    plan = make_plan(suite, expand(suite, catalogue, device="cpu"), options, catalogue=catalogue)
    with Store.open(tmp_path / "bench.db") as store:
        rows = execute(plan, suite, store, find_device("cpu"), catalogue, options).results
    by_operation: dict[object, Result] = {row.case.params["operation"]: row for row in rows}
    assert set(by_operation) == set(OPERATIONS)
    for operation, row in by_operation.items():
        assert row.status is Status.OK, row.reason
        assert row.proof is not None
        assert row.proof.verdict == "proved"
        assert {check.tensor for check in row.checks if check.at == "small"} == {"out", "rank1.out"}
        sent = row.measurement("communicated_bytes", "rank:1")
        assert sent is not None
        assert row.cost is not None
        # What the profiler saw the rank put in, and what the formula says that it must send.
        assert sent.samples == (row.cost.bytes,), operation
