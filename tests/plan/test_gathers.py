"""What stage 3 has of weights where: bounds that DeepSpeed's settings set, and what follows from its way of fetching."""

from __future__ import annotations

from typing import Any

import pytest

from bench.plan.coordinator import LIVE
from bench.plan.gathers import Gathered, gathered

NORM = (1_000,)


def of_model(layer: int, layers: int = 8, head: int = 1_000_000, **changes: Any) -> Gathered:
    """Of layers with seven equal projections."""
    block = (NORM, *[(layer // 7,)] * 4, NORM, *[(layer // 7,)] * 3)
    usual = {"checkpoint_every": 0, "activation": False, "ranks": 2, "prefetch": 50_000_000, "threshold": 100_000}
    return gathered(head, block, (*NORM, head), layers=layers, **{**usual, **changes})


def test_a_model_below_the_reuse_distance_stays_gathered_once_it_is() -> None:
    total = 8 * 7_000_000 // 7 * 7 + 2_000_000
    found = of_model(7_000_000)
    assert found.loss == pytest.approx(total, rel=0.1)
    assert found.loss <= of_model(7_000_000, prefetch=10**9).loss


def test_no_more_is_fetched_ahead_than_may_be_live_and_the_tensor_that_passes_it() -> None:
    layer = 700_000_000
    found = of_model(layer)
    assert max(*found.forward, *found.backward) <= 2 * (LIVE + layer // 7)
    assert found.loss < LIVE + layer


def test_what_is_fetched_together_is_there_twice_for_a_while_on_several_ranks_only() -> None:
    together = of_model(70_000_000, layers=20)
    alone = of_model(70_000_000, layers=20, ranks=1)
    assert max(together.forward) > max(alone.forward)
    assert together.loss == pytest.approx(alone.loss, rel=0.02)


def test_without_fetching_ahead_each_module_has_its_own_and_what_comes_again_soon() -> None:
    found = of_model(1_400_000_000, layers=4, prefetch=0)
    projection = 200_000_000
    assert found.forward[0] == projection  # the next use of each is further than the distance
    assert found.forward[3] > projection


def test_a_checkpointed_layer_has_its_weights_for_the_second_forward_until_its_backward() -> None:
    layer = 350_000_000  # both uses of its first projection are within the distance
    plain, again = (of_model(layer, prefetch=0, checkpoint_every=every) for every in (0, 1))
    assert max(again.backward[:4]) >= layer > max(plain.backward[:4])


def test_weights_up_to_the_threshold_are_never_gathered() -> None:
    found = of_model(700_000, head=90_000)
    assert (found.loss, found.embedding, max(found.forward)) == (0, 0, 0)
