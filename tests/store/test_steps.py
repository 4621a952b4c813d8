"""Measured training steps are read from a file and from a server alike, quickly, and only those that say something."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from bench.errors import StoreError
from bench.plan import model_named
from bench.plan.spec import DEFAULTS
from bench.records import MEMORY_LIMIT_PARAM, Case, Cost, Environment, Pass, Result, Status
from bench.store import Store
from bench.store.steps import measured_steps
from tests import factories

SUBJECT = {**DEFAULTS, "sharding": "none", "offloading": "none", "attention": "sdpa_flash"}
H200 = Environment(hard={"device": "cuda", "gpu_model": "NVIDIA H200"}, soft={})


def case(subject: dict[str, str] | None = None, **params: Any) -> Case:
    sizes = asdict(model_named("llama-3.2-1b")) | {"model": "llama-3.2-1b", "seq_len": 2048, "batch": 4, "accumulation": 1}
    made = factories.case(
        workload="train_step", pass_=Pass.STEP, dtype="bf16", device="cuda", params={**sizes, "dropout": 0.0, **params}
    )
    return replace(made, subject=SUBJECT if subject is None else subject)


def row(run_id: str, of: Case, *samples: float, index: int = 0, **changes: Any) -> Result:
    measured = (factories.measurement("time_s", samples),)
    return factories.result(
        run_id, of, index=index, environment=H200, cost=Cost(flops=1, bytes=1, tokens=8192), measurements=measured, **changes
    )


def test_trials_of_a_case_are_one_step_with_their_median_and_latest_run(url: str) -> None:
    early, late = factories.run(), factories.run(started_at="2026-03-01T00:00:00+00:00")
    with Store.open(url) as store:
        store.add_run(early)
        store.add_run(late)
        store.add_result(row(early.id, case(), 0.2, 0.2, 0.2))
        store.add_result(row(early.id, case(), 0.1, 0.1, 0.1, index=1))
        store.add_result(row(late.id, case(), 0.4, 0.4, 0.4, started_at="2026-03-01T00:00:01+00:00"))
    (step,) = measured_steps(url)
    assert step.tokens_per_s == pytest.approx(8192 / 0.2)
    assert (step.trials, step.run_id, step.gpu, step.model) == (3, late.id, "NVIDIA H200", "llama-3.2-1b")
    assert (step.seq_len, step.batch, step.world_size) == (2048, 4, 1)
    assert step.ways["attention"] == "sdpa_flash"
    assert step.ways["offload"] == "none"
    assert step.parameters == 1_235_814_400


def unusable() -> dict[str, Callable[[str], Result]]:
    return {
        "too few samples": lambda run_id: row(run_id, case(), 0.2, 0.2),
        "another workload": lambda run_id: row(run_id, factories.case(device="cuda"), 0.2, 0.2, 0.2),
        "another device": lambda run_id: row(run_id, replace(case(), device="cpu"), 0.2, 0.2, 0.2),
        "no technique of the plan": lambda run_id: row(run_id, case({**SUBJECT, "offloading": "activations_cpu"}), 0.2, 0.2, 0.2),
        "padded": lambda run_id: row(run_id, case(packing="padded"), 0.2, 0.2, 0.2),
        "a cap on memory": lambda run_id: row(run_id, case(**{MEMORY_LIMIT_PARAM: 2**34}), 0.2, 0.2, 0.2),
        "an unknown decoder": lambda run_id: row(run_id, case(architecture="gpt2"), 0.2, 0.2, 0.2),
        "excluded": lambda run_id: row(run_id, case(), 0.2, 0.2, 0.2, excluded_reason="another device"),
        "not ok": lambda run_id: row(run_id, case(), 0.2, 0.2, 0.2, status=Status.INVALID, reason="the GPU was throttled"),
    }


@pytest.mark.parametrize("kind", unusable())
def test_what_says_nothing_of_a_planned_step_is_left_out(tmp_path: Path, kind: str) -> None:
    run, path = factories.run(), tmp_path / "bench.db"
    with Store.open(path) as store:
        store.add_run(run)
        store.add_result(unusable()[kind](run.id))
    assert measured_steps(str(path)) == ()


def test_a_database_that_is_none_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no database"):
        measured_steps(str(tmp_path / "none.db"))
    (tmp_path / "text.db").write_text("a page of text\n" * 100)
    with pytest.raises(StoreError, match="cannot be read"):
        measured_steps(str(tmp_path / "text.db"))


def test_a_stored_step_that_does_not_read_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "bench.db"
    with Store.open(path) as store:
        store.add_run(run := factories.run())
        store.add_result(row(run.id, case(), 0.2, 0.2, 0.2))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE environment_item SET value = '{' WHERE name = 'gpu_model'")
    connection.close()
    with pytest.raises(StoreError, match=r"measured steps of .* cannot be read .*: `bench db check` says which rows do not read"):
        measured_steps(str(path))


def test_published_steps_count_once_they_are_imported(tmp_path: Path) -> None:
    path = tmp_path / "bench.db"
    published = Path(__file__).parents[2] / "results" / "published" / "nvidia-h200" / "llama8b.jsonl.xz"
    with Store.open(path) as store:
        store.import_file(published)
    steps = measured_steps(str(path))
    assert {step.gpu for step in steps} == {"NVIDIA H200"}
    assert any(step.ways["checkpointing"] == "full" and step.model == "llama-3-8b" for step in steps)
    before = path.read_bytes()
    measured_steps(str(path))
    assert path.read_bytes() == before


def test_a_file_is_read_without_sqlalchemy(tmp_path: Path) -> None:
    path = tmp_path / "bench.db"
    with Store.open(path):
        pass
    read = f"import sys; from bench.store.steps import measured_steps; measured_steps({str(path)!r})"
    code = f"{read}; sys.exit('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
