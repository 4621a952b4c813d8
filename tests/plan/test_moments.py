"""A moment's sum, which searches go by, is that of its terms, however it was put together."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from bench.plan import moments
from bench.plan.fits import _ways, choices
from bench.plan.moments import Step, Target
from bench.plan.shares import Sharding
from bench.plan.spec import PlanError, TrainSpec, ZeroOptions, model_named

SMALL = replace(model_named("tiny"), layers=5)
TIED = replace(SMALL, tied_embeddings=True)
LITTLE_BUCKETS = ZeroOptions(reduce_bucket=20_000, prefetch_bucket=30_000, persistence_threshold=100)


@pytest.mark.parametrize("model", [SMALL, TIED], ids=["untied", "tied"])
@pytest.mark.parametrize(
    "asked",
    [
        TrainSpec(seq_len=200, clip_norm=0.0),
        TrainSpec(seq_len=200, accumulation=2, world_size=3, sharding="zero3", precision="bf16_master", zero=LITTLE_BUCKETS),
        TrainSpec(seq_len=200, accumulation=2, world_size=2, sharding="fsdp2"),
    ],
    ids=["alone", "zero", "fsdp2"],
)
def test_each_moment_is_as_large_as_its_terms(model: moments.ModelSpec, asked: TrainSpec) -> None:
    ways = [asked, *_ways(asked)]
    told = 0
    for way in random.Random(7).sample(ways, min(12, len(ways))):
        try:
            step = Step(model, way, Target())
        except PlanError:
            continue
        for candidate in step._candidates():
            moment = candidate.moment()
            assert candidate.size == sum(term.size_bytes for term in moment.terms if term.name != "rounding"), (way, moment.name)
            told += 1
    assert told > 50


def test_ways_that_differ_in_what_is_computed_again_share_how_the_step_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[TrainSpec] = []
    sharded = moments.sharded

    def counted(model: moments.ModelSpec, train: TrainSpec, whole: moments.Residents, *, cuda: bool) -> Sharding:
        made.append(train)
        return sharded(model, train, whole, cuda=cuda)

    monkeypatch.setattr(moments, "sharded", counted)
    asked = TrainSpec(seq_len=512, world_size=8, sharding="zero3", precision="bf16_master")
    choices(SMALL, asked, 80 * 10**9)
    apart = [replace(train, checkpointing="none") for train in made if train.sharding != "zero3"]
    assert len(apart) == len(set(apart)) > 5
    assert 2 * len(made) < len(list(_ways(asked)))
