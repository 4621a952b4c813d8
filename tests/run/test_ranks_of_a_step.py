"""A training step that two ranks share through ZeRO, measured for real: rank by rank when it is well, and one rank at fault when not."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.catalogue import load_catalogue
from bench.machine import find_device
from bench.records import Measurement, Result, Status
from bench.run import RunOptions, execute, make_plan
from bench.store import Store
from bench.suite import expand, load_suite
from tests.run.laboratory import marked

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PLUGIN = """
import os
from bench.declare import implementation

@implementation(workload="linear_cross_entropy")
def hungry_on_the_second(spec):
    import torch
    kept = []
    def loss(hidden, weight, labels):
        while os.environ["RANK"] == "1":
            kept.append(torch.ones(2**26))
        return torch.nn.functional.cross_entropy(torch.nn.functional.linear(hidden, weight), labels)
    return loss
"""

SUITE = """
schema: 1
name: ranks
question: Does a rank's fault find its row?
workload: train_step
defaults: {precision: fp32, sharding: zero2}
arms:
  - {name: well}
  - {name: hungry, linear_cross_entropy: hungry_on_the_second}
sweep:
  model: [tiny]
  seq_len: [16]
  batch: [2]
  world_size: [2]
  zero_options: [set]
  zero_reduce_bucket: [100000]
  zero_gather_bucket: [100000]
  memory_limit: [2GB]
  pass: [step]
protocol: {trials: 1, timeout_s: 150, min_samples: 3, max_samples: 5, max_sampling_s: 0.2, max_warmup_s: 0.1}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("step")


@pytest.fixture(scope="module")
def rows(folder: Path) -> dict[str, Result]:
    """By the implementation of the loss."""
    pytest.importorskip("deepspeed")
    (folder / "faults.py").write_text(PLUGIN)
    (folder / "ranks.yaml").write_text(SUITE)
    plugins = (str(folder / "faults.py"),)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr("tempfile.tempdir", None)
        catalogue = load_catalogue([Path(plugin) for plugin in plugins])
        suite = load_suite(folder / "ranks.yaml", catalogue)
        options = RunOptions(suite_file=str(folder / "ranks.yaml"), device="cpu", seed=1, plugins=plugins)
        plan = make_plan(suite, expand(suite, catalogue, device="cpu"), options, catalogue=catalogue)
        with Store.open(folder / "bench.db") as store:
            summary = execute(plan, suite, store, find_device("cpu"), catalogue, options)
    return {row.case.subject["linear_cross_entropy"]: row for row in summary.results}


def value(row: Result, metric: str, scope: str = "trial") -> float:
    found = row.measurement(metric, scope)
    assert isinstance(found, Measurement), metric
    return found.samples[0]


def test_a_step_in_stage_2_is_measured_rank_by_rank(rows: dict[str, Result]) -> None:
    row = rows["eager"]
    assert row.status is Status.OK, row.reason
    assert {check.tensor: check.passed for check in row.checks} == {"loss_curve": True, "rank1.loss_curve": True, **{
        check.tensor: check.passed for check in row.checks if check.at != "small"
    }}  # fmt: skip
    assert row.proof is not None
    assert row.proof.verdict == "proved", row.proof.detail
    psi = 4.0 * int(row.conditions["learned_parameters"])
    for rank in ("rank:0", "rank:1"):
        assert value(row, "weight_bytes", rank) == pytest.approx(psi, rel=0.01)
        assert value(row, "state_bytes", rank) == pytest.approx(psi, rel=0.01)  # two of them, shared by two
        assert value(row, "master_bytes", rank) == pytest.approx(psi / 2, rel=0.01)
        assert value(row, "all_gather_bytes", rank) == pytest.approx(psi, rel=0.01)
        assert value(row, "all_reduce_bytes", rank) == pytest.approx(psi, rel=0.01)
        assert value(row, "communicated_bytes", rank) == pytest.approx(1.5 * psi, rel=0.01)  # one whole sum, and half a gathering
        peaks = [value(row, f"{phase}_peak_bytes", rank) for phase in ("forward", "backward", "optimizer")]
        assert min(peaks) >= 2.5 * psi
        # Two passes, and sums of gradients go on beside the backward: how many buckets are under way at one moment depends on when the
        # other rank comes, and all of them together are the gradients.
        assert max(peaks) == pytest.approx(value(row, "peak_total_bytes", rank), abs=psi)
        assert 0 < value(row, "exposed_communication_share", rank) < 1
    slower = max(value(row, "time_s", rank) for rank in ("rank:0", "rank:1"))
    assert value(row, "time_s") == slower


def test_a_rank_that_runs_out_of_memory_in_the_step_is_oom_and_named(rows: dict[str, Result]) -> None:
    row = rows["hungry_on_the_second"]
    assert (row.status, row.rank) == (Status.OOM, 1), row.reason


def test_no_rank_of_a_step_is_left_alive(folder: Path, rows: dict[str, Result]) -> None:
    assert len(rows) == 2
    assert marked(str(folder)) == []
