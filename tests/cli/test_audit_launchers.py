"""`bench audit` with trainings that accelerate's launcher starts: each ends after its steps, and no process is left."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.audit.whole import Audit, from_data
from bench.cli import main
from bench.processes import adopting_orphans, descendants
from tests.worker.auditing import SCRIPTS, settings

ACCELERATE = (
    sys.executable,
    "-m",
    "accelerate.commands.launch",
    "--num_processes",
    "2",
    "--num_machines",
    "1",
    "--dynamo_backend",
    "no",
)
ENGINE = {
    "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": "auto", "gradient_clipping": "auto", "bf16": {"enabled": "auto"},
    "zero_allow_untested_optimizer": True, "zero_optimization": {"stage": 2, "reduce_bucket_size": 100000},
}  # fmt: skip


@dataclass(frozen=True)
class Told:
    """What the command said of a training."""

    status: int
    audit: Audit
    findings: dict[str, str]
    """Name to its text."""
    left: list[int]
    """Processes that outlived the command."""


def told_of(folder: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, **variables: str) -> Told:
    for name, value in settings(variables).items():
        monkeypatch.setenv(name, value)
    before = {process.pid for process in descendants(os.getpid())}
    with adopting_orphans():
        status = main(["audit", "--no-store", "--steps", "8", "--output", str(folder), "--", *command])
        left = [process.pid for process in descendants(os.getpid()) if process.pid not in before and not process.zombie]
    data: dict[str, Any] = json.loads((folder / "audit.json").read_text())
    return Told(status, from_data(data["audit"]), {one["name"]: one["text"] for one in data["findings"]}, left)


def held_to_its_steps(told: Told, ranks: int) -> None:
    assert (told.status, told.left) == (0, [])
    assert [(one.rank, one.ended.how, one.notes) for one in told.audit.ranks] == [(rank, "stopped", ()) for rank in range(ranks)]
    assert {one.steps.seen for one in told.audit.ranks if one.steps is not None} == {8}
    assert told.audit.silent_ranks == ()


@pytest.mark.slow
def test_fsdp_by_accelerate_under_its_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    told = told_of(
        tmp_path, (*ACCELERATE, "--multi_gpu", "--mixed_precision", "no", str(SCRIPTS / "accelerated.py"), "fsdp"), monkeypatch
    )
    held_to_its_steps(told, 2)
    assert "batch 0\n" in capfd.readouterr().out
    for one in told.audit.ranks:
        assert (one.world_size, one.launched_by) == (2, ("torchrun", "accelerate"))
        assert one.sharding is not None
        assert one.sharding.kind == "fsdp2"
        assert {(unit.class_name, unit.units, unit.root) for unit in one.sharding.units} == {
            ("Decoder", 1, True),
            ("Block", 4, False),
        }
        assert one.sharding.root_holds[0] in ("wte.weight", "lm_head.weight")
        assert one.model is not None
        assert sum(row.elements for row in one.model.parameters) * 2 == one.model.elements
        assert one.memory is not None
    assert "4 × Block" in told.findings["fsdp_units"]


@pytest.mark.slow
def test_deepspeed_by_accelerate_from_a_file_that_leaves_things_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "engine.json"
    file.write_text(json.dumps(ENGINE))
    words = ("--use_deepspeed", "--deepspeed_config_file", str(file), "--mixed_precision", "bf16")
    told = told_of(tmp_path, (*ACCELERATE, *words, str(SCRIPTS / "accelerated.py"), "deepspeed"), monkeypatch, DS_ACCELERATOR="cpu")
    held_to_its_steps(told, 2)
    first = told.audit.ranks[0]
    assert first.deepspeed is not None
    assert first.deepspeed.resolved["zero_stage"] == 2
    assert "runs ZeRO stage 2 as its configuration says; auto became" in told.findings["deepspeed"]
    assert "bf16.enabled = True" in told.findings["deepspeed"]
    assert first.steps is not None
    assert first.steps.counted_by == "DeepSpeedEngine"
