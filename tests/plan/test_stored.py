"""A row keeps the prediction that was made before it ran, and it can be read again."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from bench.catalogue import load_catalogue
from bench.plan import Target, model_named, predict
from bench.plan.spec import DEFAULTS
from bench.plan.stored import PREDICTED, Stored, foretold_of, stored
from bench.records import Case, Pass
from bench.suite import expand, load_suite

SUITES = ("train_step", "checkpointing", "precision", "llama8b", "zero", "offload_step")
SLOTS = {**DEFAULTS, "attention": "sdpa_flash", "sharding": "none", "offloading": "none"}


def step(device: str = "cuda", workload: str = "train_step", **slots: str) -> Case:
    params = {**asdict(model_named("tiny")), "model": "tiny", "seq_len": 64, "batch": 2}
    del params["name"]
    return Case(workload, 1, {**SLOTS, **slots}, Pass.STEP, "bf16", device, "cold", "events", params)


def test_what_is_stored_is_the_prediction_and_is_read_again_from_json() -> None:
    case = step()
    found = stored(json.loads(json.dumps(foretold_of(case))))
    prediction = predict(case.params, case.subject)
    assert found is not None
    assert (found.peak_bytes, found.phase) == (prediction.peak_bytes, prediction.peak.phase)
    assert dict(found.causes) == prediction.peak.by_category()
    assert sum(found.causes.values()) == found.peak_bytes
    assert found.phases == prediction.by_phase()
    assert max(found.phases.values()) == found.peak_bytes


def test_what_is_to_lie_off_the_gpu_is_stored_too_where_something_does() -> None:
    case = step(sharding="zero3", offloading="optimizer_nvme", precision="bf16_master", optimizer="adamw_cpu_deepspeed")
    kept, prediction = json.loads(json.dumps(foretold_of(case)))[PREDICTED], predict(case.params, case.subject)
    assert kept["away"] == {"host": prediction.host_bytes, "host_pinned": prediction.pinned_bytes, "disk": prediction.disk_bytes}
    found = stored({PREDICTED: kept})
    assert found is not None
    assert found.away == kept["away"]
    assert stored({PREDICTED: {**kept, "away": {"host": "much"}}}) is None
    assert "away" not in foretold_of(step())[PREDICTED]  # type: ignore[operator]


def test_a_row_of_an_older_version_has_no_phases_and_its_prediction_is_read_all_the_same() -> None:
    kept = {PREDICTED: {"peak_bytes": 7, "phase": "loss", "causes": {"loss": 7}}}
    assert stored(kept) == Stored(7, "loss", {"loss": 7}, {})
    assert stored({PREDICTED: {**kept[PREDICTED], "phases": {"loss": "much"}}}) is None


def test_a_step_on_the_host_is_predicted_without_the_kernels_of_cuda() -> None:
    case = step("cpu")
    found = stored(foretold_of(case))
    assert found is not None
    assert found.peak_bytes == predict(case.params, case.subject, Target(cuda=False)).peak_bytes
    assert "allocator_slack" not in found.causes


def test_what_has_no_formulas_is_stored_as_refused_and_what_is_no_training_step_not_at_all() -> None:
    refused = foretold_of(step(compile="layer"))
    assert "no formulas for 'layer'" in str(refused[PREDICTED])
    assert stored(refused) is None
    assert foretold_of(step(workload="attention")) == {}
    assert foretold_of(step("cpu-interpreter")) == {}


def test_conditions_of_another_form_hold_no_prediction() -> None:
    for kept in (None, 3, {"causes": {}}, {"causes": {"loss": "much"}, "peak_bytes": 1, "phase": "loss"}):
        assert stored({PREDICTED: kept}) is None
    assert stored({}) is None


def test_every_training_step_of_the_suites_is_predicted_or_refused_in_words() -> None:
    catalogue = load_catalogue()
    told = 0
    for name in SUITES:
        for case in expand(load_suite(Path("suites") / f"{name}.yaml", catalogue), catalogue, device="cuda").cases:
            (kept,) = foretold_of(case).values()
            told += stored({PREDICTED: kept}) is not None
            assert isinstance(kept, dict)
            assert ("peak_bytes" in kept) != ("refused" in kept)
    assert told > 100
