"""Fetching that is replayed until it repeats ends as fetching that is replayed layer by layer."""

from __future__ import annotations

import random
from itertools import count

import pytest

from bench.plan.buckets import in_order, modules
from bench.plan.coordinator import Coordinator
from bench.plan.spec import TrainSpec, model_named
from bench.plan.uses import Stretch, order
from bench.plan.weights import weights

BIASES = (None, 512)


def fetching(rng: random.Random) -> Coordinator:
    """Of a model of any size, as any engine may be set."""
    hidden = rng.choice((64, 2048, 4096, 8192, 8192, 16384))
    kv, inner, bias = hidden // rng.choice((1, 4, 8)), hidden * rng.choice((2, 3, 4)), rng.choice(BIASES)
    heads = [(128,)] if rng.random() < 0.3 else []
    adapter = (16 * hidden, 16 * inner) if rng.random() < 0.3 else ()

    def projection(width: int, of: int) -> tuple[int, ...]:
        return width * of, *((bias,) if bias else ()), *adapter

    block = [
        (hidden,), projection(hidden, hidden), *heads, projection(kv, hidden), *heads, projection(kv, hidden),
        projection(hidden, hidden), (hidden,), *(projection(inner, hidden) for _ in range(3)),
    ]  # fmt: skip
    number, tied, layers = count(), rng.random() < 0.4, rng.choice((1, 2, 5, 24, 31, 40, 60))
    uses = order(
        [tuple(next(number) for _ in own) for own in block],
        layers,
        tied=tied,
        checkpoint_every=rng.choice((0, 1, 2)),
        activation=rng.random() < 0.5,
    )
    vocabulary = rng.choice((1_000, 32_000, 152_000)) * hidden
    sizes = [vocabulary, *[size for own in block for size in own] * layers, hidden, *([] if tied else [vocabulary])]
    return Coordinator(
        sizes,
        list(uses.stretches()),
        ranks=rng.choice((1, 2, 3, 8, 64)),
        prefetch=rng.choice((0, 100_000, 20_000_000, 50_000_000, 500_000_000, 3_000_000_000)),
        threshold=rng.choice((0, 10_000, 100_000, 20_000_000)),
    )


@pytest.mark.parametrize("seeds", [range(40), range(40, 80), range(80, 120)], ids=str)
def test_what_repeats_is_taken_as_done_and_all_is_as_if_every_layer_had_been_replayed(seeds: range) -> None:
    shortened = 0
    for seed in seeds:
        quick, whole = (fetching(random.Random(seed)) for _ in range(2))
        found = quick.run()
        assert found == whole.run(whole=True), seed
        assert (quick.now, quick.available, quick.front, quick.there) == (whole.now, whole.available, whole.front, whole.there)
        shortened += len({id(highest) for highest in found}) < len(found)
    assert shortened > len(seeds) / 5


@pytest.mark.parametrize("every", [0, 1, 2])
def test_of_a_deep_model_few_layers_are_replayed(every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, train = model_named("llama-3-70b"), TrainSpec(seq_len=1)
    tensors = [weight.elements for weight in in_order(model, weights(model, train))]
    of_layer = [tuple(own) for own in modules(model, weights(model, train))]
    uses = order(of_layer, model.layers, tied=False, checkpoint_every=every, activation=False)
    replayed: list[Stretch] = []
    replay = Coordinator._replay

    def counted(of: Coordinator, at: int) -> None:
        replayed.append(of.stretches[at])
        replay(of, at)

    monkeypatch.setattr(Coordinator, "_replay", counted)
    Coordinator(tensors, list(uses.stretches()), ranks=8, prefetch=50_000_000, threshold=100_000).run()
    assert len(replayed) < model.layers / 2
    assert {uses.forward[0], uses.backward[0], uses.embedding} <= set(replayed)
