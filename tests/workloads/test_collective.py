"""What ranks sum, gather and scatter comes to what the host adds up, and what each must send is counted as the formula says."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.catalogue import load_catalogue
from bench.records import Pass, Reply, Request, Status, dump, load_json
from bench.run.ranks import combine
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
    cases = {str(case.params["operation"]): case for case in expand(suite, catalogue, device="cpu").cases}
    assert set(cases) == set(OPERATIONS)
    for operation, case in cases.items():
        (tmp_path / operation).mkdir()
        request = dump(Request(case, suite.protocol, seed=1, threads=1))
        (tmp_path / operation / "request.json").write_text(json.dumps(request))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ended = subprocess.run(
        [*command, "-m", "tests.workloads.rank_trials", *(str(tmp_path / operation) for operation in cases)],
        capture_output=True, text=True, timeout=280, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    for operation in cases:
        replies = {rank: load_json(Reply, (tmp_path / operation / f"reply.{rank}.json").read_bytes()) for rank in (0, 1)}
        assert [reply.status for reply in replies.values()] == [Status.OK] * 2, [reply.reason for reply in replies.values()]
        reply = combine(replies, {0: (), 1: ()}).reply
        assert reply.proof is not None
        assert reply.proof.verdict == "proved"
        assert {check.tensor for check in reply.checks if check.at == "small"} == {"out", "rank1.out"}
        (sent,) = [m for m in reply.measurements if (m.metric, m.scope) == ("communicated_bytes", "rank:1")]
        assert reply.cost is not None
        # What the profiler saw the rank put in, and what the formula says that it must send.
        assert sent.samples == (reply.cost.bytes,), operation
