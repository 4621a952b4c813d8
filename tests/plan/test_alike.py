"""What steps have in common is made once, and a step that shares it is the same to the byte and to the term."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from bench.plan import fits
from bench.plan.alike import Alike
from bench.plan.fits import choices, largest
from bench.plan.moments import Step, Target
from bench.plan.spec import PlanError, TrainSpec, model_named

SMALL = replace(model_named("tiny"), layers=4)
TARGET = Target()


@pytest.mark.parametrize(
    "asked",
    [
        TrainSpec(seq_len=512),
        TrainSpec(seq_len=256, accumulation=3, precision="bf16_master", clip_norm=0.0),
        TrainSpec(seq_len=512, world_size=8, sharding="zero3", precision="bf16_master"),
        TrainSpec(seq_len=512, world_size=4, sharding="fsdp2", attention="sdpa_efficient", precision="fp32"),
    ],
)
def test_a_step_is_the_same_beside_others_as_alone(asked: TrainSpec) -> None:
    alike, ways = Alike(), [asked, *fits._ways(asked)]
    ways += [replace(way, seq_len=way.seq_len * 4, batch=3) for way in ways]
    random.Random(3).shuffle(ways)
    compared = 0
    for way in ways[:60]:
        try:
            alone = Step(SMALL, way, TARGET)
        except PlanError:
            continue
        beside = Step(SMALL, way, TARGET, alike)
        assert beside.moments() == alone.moments(), way
        assert (beside.highest_bytes(), beside.away) == (alone.highest_bytes(), alone.away), way
        compared += 1
    assert compared > 20


def test_a_search_asks_for_few_sizes_of_what_grows_evenly_and_not_for_many_of_a_curve() -> None:
    def asked(growth: int, bend: int, known: dict[int, int] | None = None) -> int:
        seen: list[int] = []

        def size(n: int) -> int:
            seen.append(n)
            return 1000 + growth * n + bend * n * n

        largest(size, 10**9, most=2**16, guess=32, known=known)
        return len(seen)

    assert asked(50_000, 0) <= 6
    assert asked(50_000, 0, {32: 1_601_000}) <= 5
    assert asked(10, 3) <= 12


def test_longest_contexts_and_largest_batches_of_a_large_model_on_eight_gpus_take_few_predictions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed = 0
    exact = Step.highest_bytes

    def counted(step: Step) -> int:
        nonlocal computed
        computed += 1
        return exact(step)

    monkeypatch.setattr(Step, "highest_bytes", counted)
    asked = TrainSpec(seq_len=4096, world_size=8, sharding="fsdp2")
    found = choices(model_named("llama-3-70b"), asked, 141 * 10**9)
    ways = len([asked, *fits._ways(asked)])
    assert len(found) == 12
    assert computed - ways < 4.5 * 2 * len(found)
