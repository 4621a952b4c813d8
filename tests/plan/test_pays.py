"""From how many layers on a stage pays is what trying every number says, and none is told where it never does."""

from __future__ import annotations

import dataclasses

from bench.plan.moments import Target
from bench.plan.pays import LEAST_SAVING, LOOKED_AT, layers_from
from bench.plan.predict import model_of, peak_bytes, specs
from bench.plan.spec import TrainSpec, ZeroOptions, model_named

MODEL = dataclasses.replace(model_named("tiny"), vocab_size=8192)


def trained(sharding: str, **zero: int) -> TrainSpec:
    options = ZeroOptions(**zero) if zero else ZeroOptions()
    return TrainSpec(
        seq_len=8, batch=1, precision="bf16_master", optimizer="adamw_fused", sharding=sharding, world_size=2, zero=options,
        linear_cross_entropy="liger",
    )  # fmt: skip


def pays(layers: int, other: TrainSpec, own: TrainSpec) -> bool:
    model = dataclasses.replace(MODEL, layers=layers)
    return peak_bytes(model, own) < (1 - LEAST_SAVING) * peak_bytes(model, other)


def test_it_is_the_first_number_from_which_on_every_further_one_holds_less() -> None:
    other, own = trained("ddp"), trained("zero1", reduce_bucket=20_000_000)
    found = layers_from(MODEL, other, own, Target())
    assert found is not None
    assert 1 < found < LOOKED_AT[-1]
    assert not pays(found - 1, other, own)
    assert all(pays(layers, other, own) for layers in (found, found + 1, *LOOKED_AT) if layers >= found)


def test_what_never_holds_less_has_no_number_and_what_always_does_has_the_first() -> None:
    same = trained("zero1", reduce_bucket=1000)
    assert layers_from(MODEL, same, same, Target()) is None
    assert layers_from(MODEL, trained("ddp"), same, Target()) == 1


def test_a_case_says_which_model_it_trains_and_how() -> None:
    params = {**dataclasses.asdict(model_named("llama-3.2-1b")), "model": "llama-3.2-1b", "seq_len": 64, "world_size": 2}
    model, train = specs(params, {"sharding": "zero2", "precision": "bf16_master"})
    assert model == model_of(params) == model_named("llama-3.2-1b")
    assert (train.sharding, train.world_size, train.seq_len) == ("zero2", 2, 64)
