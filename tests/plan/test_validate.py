"""The error table tells what is off and by how much; the grid holds what it says and can be measured."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from bench.catalogue import load_catalogue
from bench.plan import TrainSpec, model_named, predict, predict_step
from bench.plan.grid import configurations, redrawn, suites
from bench.plan.spec import DEFAULTS
from bench.plan.validate import Measured, compare, device_constants, summaries
from bench.records import Status
from bench.run.preflight import preflight
from bench.suite import expand, load_suite

PARAMS: dict[str, Any] = {**asdict(model_named("llama-3.2-1b")), "model": "llama-3.2-1b", "seq_len": 2048, "batch": 2}
FLASH = {**DEFAULTS, "attention": "sdpa_flash"}


def measured(factor: float = 1.0, causes: dict[str, float] | None = None, **subject: str) -> Measured:
    prediction = predict(PARAMS, FLASH)
    found = causes if causes is not None else {cause: float(size) for cause, size in prediction.peak.by_category().items()}
    return Measured(PARAMS, {**FLASH, **subject}, prediction.peak_bytes * factor, found)


@pytest.mark.parametrize(("factor", "passed"), [(1.0, True), (1.04, True), (0.96, True), (1.07, False), (0.93, False)])
def test_a_prediction_passes_within_five_percent_of_the_whole(factor: float, passed: bool) -> None:
    (line,) = compare([measured(factor)])
    assert line.passed is passed
    assert line.error == pytest.approx(1 / factor - 1)


@pytest.mark.parametrize(("factor", "passed"), [(1.08, True), (0.93, True), (1.15, False)])
def test_where_gpus_share_a_step_a_tenth_of_the_whole_is_granted_and_causes_are_told_only(factor: float, passed: bool) -> None:
    params, subject = {**PARAMS, "world_size": 4}, {**FLASH, "sharding": "fsdp2"}
    peak = predict(params, subject).peak
    (line,) = compare([Measured(params, subject, peak.size_bytes * factor, {"temporaries": peak.size_bytes * factor})])
    assert line.passed is passed
    assert line.causes_off()
    assert summaries([line])[0].within == passed


def test_the_workspaces_of_a_device_are_the_median_of_what_resides_besides() -> None:
    right = {cause: float(size) for cause, size in predict(PARAMS, FLASH).peak.by_category().items()}
    found = [
        replace(measured(causes={**right, "other_residents": right["other_residents"] + more}), device="A, driver 1")
        for more in (0.0, 2.0**20, 2.0**33)
    ]
    (constant,) = device_constants(compare([*found, measured()]))
    assert (constant.device, constant.cases, constant.workspace_bytes) == ("A, driver 1", 3, 65 * 2**20)
    assert constant.predicted_bytes == 64 * 2**20


def test_a_cause_that_is_off_fails_though_the_sum_is_right() -> None:
    right = predict(PARAMS, FLASH).peak.by_category()
    moved = {cause: float(size) for cause, size in right.items()}
    moved["loss"] += 2**30
    moved["saved_activations"] -= 2**30
    (line,) = compare([measured(causes=moved)])
    assert line.passed is False
    assert set(line.causes_off()) == {"loss", "saved_activations"}
    slightly = {**moved, "loss": right["loss"] + 50 * 2**20, "saved_activations": float(right["saved_activations"])}
    assert compare([measured(causes=slightly)])[0].passed is True


def test_a_peak_that_was_not_explained_is_judged_as_a_whole() -> None:
    (line,) = compare([measured(causes={})])
    assert line.passed is True
    assert line.causes_off() == {}


def test_what_has_no_formulas_stands_last_with_its_reason() -> None:
    first, last = compare([measured(compile="layer"), measured(1.2)])
    assert first.passed is False
    assert last.passed is None
    assert last.refused is not None
    assert "no formulas for 'layer'" in last.refused


def test_the_grid_has_forty_chosen_configurations_and_the_twenty_that_its_seed_draws() -> None:
    grid = configurations()
    parts = [entry.part for entry in grid]
    assert (parts.count("development"), parts.count("drawn")) == (40, 20)
    assert [dict(entry.written) for entry in grid if entry.part == "drawn"] == redrawn()
    assert len({str(sorted(entry.written.items())) for entry in grid}) == 60


def test_the_chosen_configurations_hold_every_technique_that_the_model_is_judged_by() -> None:
    chosen = [entry for entry in configurations() if entry.part == "development"]
    wanted = {
        "attention": {"eager", "sdpa_flash", "flex"},
        "rms_norm": {"eager", "liger"},
        "checkpointing": {"none", "full", "selective"},
        "precision": {"bf16_pure", "bf16_amp", "fp32"},
        "optimizer": {"adamw_foreach", "adamw_fused", "adamw8bit_bnb"},
        "adaptation": {"full", "lora"},
        "linear": {"plain", "nf4_bnb", "nf4_bnb_double"},
    }
    for slot, names in wanted.items():
        assert names <= {getattr(entry.train, slot) for entry in chosen}, slot
    assert {"llama-3.2-1b", "llama-3-8b"} <= {entry.model.name for entry in chosen}
    assert len({(entry.train.seq_len, entry.train.batch) for entry in chosen}) > 3


def test_every_configuration_of_the_grid_is_predicted() -> None:
    peaks = [predict_step(entry.model, entry.train).peak_bytes for entry in configurations()]
    assert all(2**30 < peak < 140 * 2**30 for peak in peaks)


def test_the_suites_of_the_grid_are_valid_and_ask_for_each_configuration_once_and_no_declaration_refuses_one(
    tmp_path: Path,
) -> None:
    catalogue = load_catalogue()
    asked = []
    for name, text in suites(configurations()):
        path = tmp_path / f"{name}.yaml"
        path.write_text(text)
        asked += expand(load_suite(path, catalogue), catalogue, device="cuda").cases
    assert len(asked) == 60
    assert not [case for case in asked if (known := preflight(case, catalogue)) is not None and known.status is Status.UNSUPPORTED]
    wanted = {
        (
            entry.model.name,
            entry.train.seq_len,
            entry.train.batch,
            entry.train.accumulation,
            *(getattr(entry.train, slot) for slot in DEFAULTS),
        )
        for entry in configurations()
    }
    found = {
        (
            case.params["model"],
            case.params["seq_len"],
            case.params["batch"],
            case.params["accumulation"],
            *(case.subject[slot] for slot in DEFAULTS),
        )
        for case in asked
    }
    assert found == wanted
    for case in asked[:3]:
        prediction = predict(case.params, case.subject)
        train = TrainSpec(
            seq_len=int(str(case.params["seq_len"])),
            batch=int(str(case.params["batch"])),
            **{slot: case.subject[slot] for slot in DEFAULTS},
        )
        assert prediction == predict_step(model_named(str(case.params["model"])), train)
