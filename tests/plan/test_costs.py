"""Measured steps order ways where they can be compared, and the nearest that can be; the rule holds for the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench.plan import ModelSpec, TrainSpec, model_named
from bench.plan.costs import WAYS, Costs, MeasuredStep, costs, same_gpu
from bench.plan.devices import gpu_named
from bench.plan.fits import choices, rule_cost
from bench.plan.weights import parameters

LLAMA = model_named("llama-3-8b")
ASKED = TrainSpec(seq_len=4096)
PLAIN, SECOND, FULL = (replace(ASKED, checkpointing=name) for name in ("none", "every_second", "full"))


def step(train: TrainSpec, tokens_per_s: float, *, model: ModelSpec = LLAMA, **changes: Any) -> MeasuredStep:
    made = MeasuredStep(
        ways={name: getattr(train, name) for name in WAYS},
        model=model.name,
        parameters=parameters(model),
        gpu="NVIDIA H200",
        seq_len=train.seq_len,
        batch=train.batch,
        accumulation=1,
        dropout=0.0,
        world_size=1,
        tokens_per_s=tokens_per_s,
        trials=5,
        run_id="01a22af0-7e7a-730d-898a-ad1a8af4350b",
    )
    return replace(made, **changes)


def expected(*steps: MeasuredStep, gpu: str | None = "h200", asked: TrainSpec = ASKED) -> Costs:
    return costs(steps, LLAMA, asked, gpu, [PLAIN, SECOND, FULL], rule_cost)


def test_without_measured_steps_the_rule_holds() -> None:
    found = expected()
    assert [found.of(train) for train in (PLAIN, SECOND, FULL)] == [rule_cost(train) for train in (PLAIN, SECOND, FULL)]
    assert found.step(PLAIN) is None


def test_two_measured_ways_stand_in_the_ratio_of_their_times_and_round_the_rule_of_the_others() -> None:
    found = expected(step(PLAIN, 8000), step(FULL, 6500))
    assert found.of(FULL) / found.of(PLAIN) == pytest.approx(8000 / 6500)
    assert found.of(PLAIN) < found.of(SECOND) == rule_cost(SECOND) < found.of(FULL)


def test_what_has_nothing_switched_on_besides_costs_one_where_it_was_measured() -> None:
    adapters = replace(PLAIN, adaptation="lora")
    found = costs(
        [step(PLAIN, 8000), step(FULL, 6500), step(adapters, 9800)],
        LLAMA,
        ASKED,
        "h200",
        [PLAIN, SECOND, FULL, adapters],
        rule_cost,
    )
    assert found.of(PLAIN) == pytest.approx(1)
    assert found.of(FULL) == pytest.approx(8000 / 6500)
    assert found.of(adapters) == pytest.approx(8000 / 9800)


def test_what_was_measured_overturns_the_rule() -> None:
    found = expected(step(PLAIN, 5000), step(FULL, 6000))
    assert found.of(FULL) < found.of(PLAIN)


def test_one_measured_way_is_told_and_changes_no_order() -> None:
    found = expected(step(FULL, 6500))
    measured = found.step(FULL)
    assert measured is not None
    assert measured.tokens_per_s == 6500
    assert found.of(FULL) == pytest.approx(rule_cost(FULL))


def test_times_of_different_grounds_are_never_compared() -> None:
    """Another length is another ground: a short step's rate says nothing beside a long one's."""
    found = expected(step(PLAIN, 8000), step(FULL, 20000, seq_len=512))
    assert found.step(FULL) is None
    assert found.of(FULL) == rule_cost(FULL)


def test_the_gpu_counts_before_the_model_and_the_model_before_the_shape() -> None:
    small = model_named("llama-3.2-1b")
    pairs = {
        "same": {},
        "other length": {"seq_len": 1024},
        "other model": {"model": small.name, "parameters": parameters(small)},
        "other gpu": {"gpu": "NVIDIA A100-SXM4-80GB"},
    }
    for index in range(len(pairs)):
        names = list(pairs)[index:]
        steps = [
            replace(step(train, rate), run_id=name, **pairs[name])
            for name in reversed(names)
            for train, rate in ((PLAIN, 8e3), (FULL, 6e3))
        ]
        found = expected(*steps).step(PLAIN)
        assert found is not None
        assert found.run_id == names[0]
    other = expected(
        *(step(train, 6e3) for train in (PLAIN, FULL)), *(step(t, 3e3, gpu="NVIDIA L4") for t in (PLAIN, FULL)), gpu="l4"
    )
    measured = other.step(PLAIN)
    assert measured is not None
    assert measured.gpu == "NVIDIA L4"


def test_a_ground_with_two_of_the_ways_goes_before_a_nearer_one_with_one() -> None:
    found = expected(step(PLAIN, 8000), step(PLAIN, 9000, seq_len=2048), step(FULL, 7000, seq_len=2048))
    assert found.of(FULL) / found.of(PLAIN) == pytest.approx(9000 / 7000)


def test_what_a_way_was_dearer_than_its_rule_is_carried_over_to_other_sizes() -> None:
    eight = replace(PLAIN, optimizer="adamw8bit_bnb")

    def of(asked: TrainSpec, eight_tokens_per_s: float) -> tuple[float, float]:
        here = [replace(train, seq_len=asked.seq_len) for train in (PLAIN, eight)]
        found = costs([step(PLAIN, 8000), step(eight, eight_tokens_per_s)], LLAMA, asked, None, here, rule_cost)
        return found.of(here[0]), found.of(here[1])

    as_ruled = 8000 / rule_cost(eight)
    assert of(ASKED, as_ruled) == pytest.approx((1.0, rule_cost(eight)))
    short = replace(ASKED, seq_len=512)
    assert of(short, as_ruled) == pytest.approx((1.0, rule_cost(replace(eight, seq_len=512))))
    plain, dearer = of(short, as_ruled / 2)
    assert dearer / plain == pytest.approx(2 * rule_cost(replace(eight, seq_len=512)))


@pytest.mark.parametrize("changes", [{"parameters": parameters(LLAMA) // 11}, {"seq_len": 128}, {"batch": 64}])
def test_steps_of_quite_another_size_say_nothing(changes: dict[str, Any]) -> None:
    assert expected(step(PLAIN, 8000), step(FULL, 6000)).step(PLAIN) is not None
    assert expected(step(PLAIN, 8000, **changes), step(FULL, 6000, **changes)).step(PLAIN) is None


def test_steps_with_other_dropout_say_nothing() -> None:
    assert expected(step(PLAIN, 8000, dropout=0.1)).step(PLAIN) is None


@pytest.mark.parametrize(
    ("name", "measured", "same"),
    [
        ("h200", "NVIDIA H200", True),
        ("a100-80gb", "NVIDIA A100-SXM4-80GB", True),
        ("a100-40gb", "NVIDIA A100-SXM4-80GB", False),
        ("RTX 4090", "NVIDIA GeForce RTX 4090", True),
        ("4090", "NVIDIA GeForce RTX 4090", True),
        ("h100", "NVIDIA H100 80GB HBM3", True),
        ("h100", "NVIDIA H200", False),
        ("l4", "NVIDIA L40S", False),
    ],
)
def test_a_gpu_is_known_by_what_its_driver_calls_it(name: str, measured: str, same: bool) -> None:
    assert same_gpu(name, measured) is same


def test_what_fits_is_ordered_by_measured_costs_and_says_which() -> None:
    memory, asked = gpu_named("h200").memory_bytes, TrainSpec(seq_len=16384)
    ruled = choices(LLAMA, asked, memory)
    full_train = [way.train for way in ruled if way.train.adaptation == "full"]
    plain, full = full_train[1], next(train for train in full_train if train.checkpointing == "full")
    assert all(way.measured is None for way in ruled)
    measured = choices(LLAMA, asked, memory, steps=[step(plain, 5000), step(full, 6000)], gpu="h200")
    shown = next(way for way in measured if way.train == full)
    assert shown.measured is not None
    assert shown.cost < rule_cost(full)
    assert plain not in [way.train for way in measured[1:]]  # it costs more than one that needs less
    expected_costs = [way.cost for way in measured[1:] if way.train.adaptation == "full"]
    assert expected_costs == sorted(expected_costs)


def test_a_slow_step_of_what_was_asked_for_does_not_put_the_rule_on_another_scale() -> None:
    """Plain kernels are no part of the rule: measured beside fused ones they would make every way by the rule look twice as dear."""
    asked = TrainSpec(seq_len=4096)
    memory = gpu_named("h200").memory_bytes
    fused = next(way.train for way in choices(LLAMA, asked, memory)[1:] if way.cost == 1)
    ways = choices(LLAMA, asked, memory, steps=[step(asked, 3000), step(fused, 9000)], gpu="h200")
    assert ways[0].cost == pytest.approx(3)
    assert [way.cost for way in ways if way.train == fused] == [pytest.approx(1)]
    ruled = [way for way in ways[1:] if way.measured is None]
    assert [way.cost for way in ruled] == [pytest.approx(rule_cost(way.train)) for way in ruled] != []


def test_what_plain_kernels_cost_is_told_as_a_bound_until_a_row_has_it() -> None:
    asked, memory = TrainSpec(seq_len=4096), gpu_named("h200").memory_bytes
    ruled = choices(LLAMA, asked, memory)
    assert [way.cost_is_least for way in ruled] == [True] + [False] * (len(ruled) - 1)
    measured = choices(LLAMA, asked, memory, steps=[step(asked, 3000), step(ruled[1].train, 9000)], gpu="h200")
    assert not any(way.cost_is_least for way in measured)
