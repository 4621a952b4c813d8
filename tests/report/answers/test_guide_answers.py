"""What was measured stands where it belongs, and only that; the rest is what the plan says of the same way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from bench.plan.predict import peak_bytes
from bench.plan.rounding import needed_bytes
from bench.plan.spec import DEFAULTS, TrainSpec, model_named
from bench.records import MEMORY_LIMIT_PARAM, Case, Cost, Environment, Pass, Result, Run, Status
from bench.report.answers.by_length import LIGER, WAYS, Lengths, by_length
from bench.report.answers.by_memory import CARDS, KINDS, by_memory
from bench.report.answers.numerics import other_numerics
from bench.report.answers.trained import Step, Trained, trained, way_of, way_of_plan
from bench.report.numbers.summary import summarize
from tests import factories

H200 = Environment({"device": "cuda", "gpu_model": "NVIDIA H200"}, {})
MODEL = "llama-3.2-1b"
FUSED = {**LIGER, "checkpointing": "full"}


def step(slots: Mapping[str, str], *, seq_len: int = 8192, **changes: Any) -> Case:
    subject = {**DEFAULTS, "sharding": "none", "offloading": "none", **slots}
    params = {
        "model": MODEL,
        "layers": 16,
        "seq_len": seq_len,
        "batch": 1,
        "packing": "full",
        "dropout": 0.0,
        **changes.pop("params", {}),
    }
    of = Case("train_step", 1, subject, Pass.STEP, "bf16", "cuda", "cold", "events", params)
    return replace(of, **changes)


def rows(of: Case, *times_s: float, samples: int = 5, **changes: Any) -> tuple[Run, list[Result]]:
    run = factories.run(suite="llama8b", suite_data={"workload": "train_step"})
    found = []
    for index, time_s in enumerate(times_s):
        measurements = (
            factories.measurement("time_s", (time_s,) * samples),
            factories.measurement("peak_total_bytes", (16 * 2.0**30,)),
        )
        ok = changes.get("status", Status.OK) is Status.OK
        found.append(
            factories.result(
                run.id,
                of,
                index=index,
                measurements=measurements if ok else (),
                environment=H200,
                cost=Cost(tokens=8192),
                **changes,
            )
        )
    return run, found


def steps(*measured: tuple[Run, list[Result]]) -> dict[Step, Trained]:
    return trained((run, case) for run, results in measured for case in summarize(run, results))


def lengths(*measured: tuple[Run, list[Result]]) -> Lengths:
    return by_length(MODEL, "h200", (8192,), steps(*measured), ())


def test_a_step_is_told_by_the_median_of_its_trials_with_their_range() -> None:
    found = steps(rows(step(FUSED), 1.0, 1.25, 1.6))
    told = found[Step(MODEL, 8192, way_of(FUSED))]
    assert told.tokens_per_s is not None
    assert told.peak is not None
    assert (told.tokens_per_s.low, told.tokens_per_s.median, told.tokens_per_s.high) == (5120, 8192 / 1.25, 8192)
    assert (told.outcome, told.n, told.peak.median) == ("ok", 3, 16 * 2**30)


def test_of_several_runs_the_newest_with_rows_counts_alone() -> None:
    old, new = rows(step(FUSED), 1.0), rows(step(FUSED), 2.0, 2.0)
    found = steps(new, old)
    assert [(told.run.id, told.n) for told in found.values()] == [(new[0].id, 2)]
    run, set_aside = rows(step(FUSED), 3.0, excluded_reason="a neighbour was busy")
    assert steps(old, (run, set_aside)).popitem()[1].run.id == old[0].id
    absent = rows(step(FUSED), 1.0, status=Status.UNAVAILABLE)
    assert steps(old, absent).popitem()[1].run.id == old[0].id, "a package that is absent today measured nothing"
    assert steps(absent).popitem()[1].outcome == "unavailable"


def test_what_ran_out_of_memory_has_a_status_and_no_number() -> None:
    told = steps(rows(step({}), 1.0, 1.0, status=Status.OOM)).popitem()[1]
    assert (told.outcome, told.n, told.tokens_per_s, told.peak) == ("oom", 2, None, None)


def test_a_time_of_few_steps_is_told_as_one() -> None:
    few, enough = (steps(rows(step(FUSED), 1.0, samples=samples)).popitem()[1] for samples in (1, 3))
    assert (few.few_steps, enough.few_steps) == (1, None)
    assert few.tokens_per_s == enough.tokens_per_s


def test_a_time_of_few_steps_takes_no_other_s_place() -> None:
    enough, few = rows(step(FUSED), 1.0), rows(step(FUSED), 1.0, samples=1)
    newer = rows(step(FUSED), 1.0, samples=2)
    assert steps(enough, few).popitem()[1].run.id == enough[0].id
    assert steps(few, newer).popitem()[1].run.id == newer[0].id
    memory_alone = rows(step(FUSED), 1.0)
    untimed = [replace(row, measurements=row.measurements[1:]) for row in memory_alone[1]]
    told = steps((memory_alone[0], untimed)).popitem()[1]
    assert (told.for_memory, told.tokens_per_s, told.peak is None) == (True, None, False)
    assert steps(enough, (memory_alone[0], untimed)).popitem()[1].run.id == enough[0].id


@pytest.mark.parametrize(
    "changes",
    [
        {"params": {"batch": 2}},
        {"params": {"accumulation": 2}},
        {"params": {"packing": "padded"}},
        {"params": {"dropout": 0.1}},
        {"params": {"layers": 2}},
        {"params": {MEMORY_LIMIT_PARAM: 2**30}},
        {"params": {"model": "mine"}},
        {"params": {"zero_options": "set"}},
        {"world_size": 2},
        {"device": "cpu"},
        {"workload": "attention"},
    ],
    ids=str,
)
def test_a_step_that_is_not_what_is_planned_is_no_answer(changes: dict[str, Any]) -> None:
    assert steps(rows(step(FUSED, **changes), 1.0)) == {}


def test_a_way_of_a_plan_is_found_under_the_slots_of_a_suite() -> None:
    slots = {**LIGER, "sharding": "fsdp2", "offloading": "parameters_optimizer_cpu"}
    planned = TrainSpec(seq_len=8192, sharding="fsdp2", offload="parameters", **LIGER)  # type: ignore[arg-type]
    assert way_of_plan(planned) == way_of({**DEFAULTS, **slots})


def test_every_way_without_a_row_is_told_by_the_plan() -> None:
    table = lengths()
    assert [way.name for way, _ in table.rows] == [way.name for way in WAYS if not way.where_measured]
    for way, (cell,) in table.rows:
        train = TrainSpec(seq_len=8192, **way.slots)  # type: ignore[arg-type]
        assert cell.trained is None
        assert cell.predicted_bytes == peak_bytes(model_named(MODEL), train)
        assert cell.fits == (needed_bytes(cell.predicted_bytes) <= table.memory_bytes)
    assert (table.fastest, table.beside) == ({}, {8192: 0})
    expected = table.expected[8192]
    assert expected is not None
    assert expected.fits


def test_the_fastest_is_one_that_trains_all_weights_and_was_measured_as_the_newest_was() -> None:
    slow, fast = rows(step(FUSED), 2.0), rows(step(LIGER), 1.0)
    lora = rows(step({**LIGER, "adaptation": "lora"}), 0.5)
    table = lengths(slow, fast, lora)
    assert (table.fastest[8192].way.slots, table.beside) == (LIGER, {8192: 2})
    other_method, new = rows(step(LIGER), 0.9, method_version=0), rows(step(FUSED), 2.0)
    table = lengths(other_method, new)
    assert (table.fastest[8192].way.slots, table.beside[8192], table.otherwise[8192]) == (FUSED, 1, 1)


def test_what_computes_in_other_numbers_is_never_the_fastest_and_is_told_beside_it() -> None:
    other = {way.name: way.slots for way in WAYS}
    float8 = rows(step(other["compiled layers, float8"]), 0.5)
    eight_bit = rows(step(other["fused kernels, full checkpointing, 8-bit AdamW"]), 0.9)
    masters = rows(step(other["fused kernels, full checkpointing, fp32 master weights"]), 2.0)
    lora = rows(step(other["LoRA, fused kernels"]), 0.4)
    table = lengths(rows(step(LIGER), 1.0), float8, eight_bit, masters, lora)
    assert (table.fastest[8192].way.slots, table.beside[8192], table.not_apart[8192]) == (LIGER, 1, ())
    assert [cell.way.name for cell in table.in_other_numerics[8192]] == [
        "compiled layers, float8",
        "fused kernels, full checkpointing, 8-bit AdamW",
    ]
    alone = lengths(float8)
    assert (alone.fastest, [cell.way.name for cell in alone.in_other_numerics[8192]]) == ({}, ["compiled layers, float8"])
    elsewhere = lengths(rows(step(LIGER), 1.0), rows(step(other["compiled layers, float8"]), 0.5, method_version=0))
    assert elsewhere.in_other_numerics[8192] == ()


@pytest.mark.parametrize(
    ("slots", "other"),
    [
        ({**FUSED, "compile": "layer"}, {}),
        ({**FUSED, "optimizer": "adamw8bit_bnb"}, {"optimizer": "adamw8bit_bnb"}),
        ({**FUSED, "precision": "bf16_amp"}, {"precision": "bf16_amp"}),
        ({"linear": "float8_training_rowwise", "qat": "int4"}, {"linear": "float8_training_rowwise", "qat": "int4"}),
    ],
    ids=str,
)
def test_kernels_and_checkpoints_leave_the_numerics_and_formats_change_them(slots: dict[str, str], other: dict[str, str]) -> None:
    assert other_numerics(slots) == other


@pytest.mark.parametrize(
    ("conditions", "waited"),
    [
        ({}, False),
        ({"launch_bound": True}, True),
        ({"launch_bound": True, "host_ahead_share": 0.06, "enqueue_s": 0.5}, True),
        ({"launch_bound": False, "host_ahead_share": 0.2, "enqueue_s": 0.8}, False),
        ({"launch_bound": True, "enqueue_s": 0.95}, True),
        ({"launch_bound": True, "enqueue_s": 1.02}, True),
        ({"launch_bound": True, "enqueue_s": 0.8}, False),
    ],
    ids=str,
)
def test_a_time_in_which_the_device_may_have_waited_is_told_as_one(conditions: dict[str, Any], waited: bool) -> None:
    """Rows from before the host's lead was told were flagged for every long step: of them enqueueing decides."""
    assert steps(rows(step(FUSED), 1.0, conditions=conditions)).popitem()[1].waited is waited


def test_whether_warm_up_had_settled_is_told_where_a_row_tells_it() -> None:
    told = [
        steps(rows(step(FUSED), 1.0, 1.0, conditions=conditions)).popitem()[1].settled
        for conditions in ({}, {"warmup_stable": True}, {"warmup_stable": False})
    ]
    assert told == [None, True, False]


@pytest.mark.parametrize(
    ("times_s", "near"),
    [
        ((1.03,), [FUSED]),
        ((1.03, 1.03, 1.03), []),
        ((1.02, 1.005, 1.03), [FUSED]),
        ((1.2,), []),
    ],
    ids=["near and tried once", "near and shown to be slower", "near with ranges that overlap", "far"],
)
def test_who_is_not_shown_to_be_slower_is_named_beside_the_fastest(times_s: tuple[float, ...], near: list[dict[str, str]]) -> None:
    table = lengths(rows(step(LIGER), 1.0, 0.99, 1.01), rows(step(FUSED), *times_s))
    assert table.fastest[8192].way.slots == LIGER
    assert [cell.way.slots for cell in table.not_apart[8192]] == near


def test_what_has_no_formulas_stands_there_once_a_length_of_it_is_measured() -> None:
    compiled = next(way for way in WAYS if way.name == "compiled layers")
    table = by_length(MODEL, "h200", (8192, 16384), steps(rows(step(compiled.slots), 1.0)), ())
    measured, elsewhere = {way.name: cells for way, cells in table.rows}["compiled layers"]
    assert measured.trained is not None
    assert (elsewhere.trained, elsewhere.predicted_bytes) == (None, None)


def test_each_size_of_memory_gets_a_way_that_fits_and_equal_answers_share_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = {size: CARDS[size] for size in ("24 GB", "48 GB", "141 GB")}
    monkeypatch.setattr("bench.report.answers.by_memory.CARDS", cards)
    found = steps(rows(step(LIGER), 1.0))
    table = by_memory([MODEL], 8192, "h200", found, ())
    assert [row.sizes for row in table.rows] == [("24 GB",), ("48 GB", "141 GB")]
    for row in table.rows:
        assert len(row.fits) == len(KINDS)
        for fit, asked in zip(row.fits, KINDS.values(), strict=True):
            assert fit.choice is not None
            assert fit.choice.fits
            assert all(getattr(fit.choice.train, slot) == name for slot, name in asked.items())
    plain = table.rows[-1].fits[0]
    assert plain.switched == ()
    assert plain.trained == found[Step(MODEL, 8192, way_of(LIGER))]


def test_a_way_with_states_of_8_bits_is_told_beside_the_one_that_keeps_them_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.report.answers.by_memory.CARDS", {"48 GB": "l40s"})
    monkeypatch.setattr("bench.report.answers.by_memory.KINDS", {"all weights, bf16": {}})
    table = by_memory(["llama-3-8b"], 2048, "h200", {}, ())
    (fit,) = table.rows[0].fits
    assert fit.choice is not None
    assert fit.otherwise is not None
    assert (fit.choice.train.optimizer, fit.otherwise.train.optimizer) == ("adamw_fused", "paged_adamw8bit_bnb")
    assert fit.otherwise.cost < fit.choice.cost
    assert fit.otherwise.fits


def test_where_nothing_fits_nothing_is_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.report.answers.by_memory.CARDS", {"24 GB": "rtx-4090"})
    table = by_memory(["llama-3-8b"], 4_000_000, "h200", {}, ())
    assert table.rows[0].fits[0].choice is None
