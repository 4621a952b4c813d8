"""A script with two models and two optimizers: each number is of what it says."""

from __future__ import annotations

import pytest

from bench.audited import Audited
from tests.worker.audit_scripts.pair import WIDTH
from tests.worker.auditing import Ran, audited, python

GENERATOR = WIDTH * 64 + 64 + 64 * WIDTH + WIDTH
CRITIC = WIDTH * 32 + 32 + 32 + 1


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return audited(tmp_path_factory.mktemp("pair") / "out", python("pair.py"))


@pytest.fixture(scope="module")
def pair(ran: Ran) -> Audited:
    assert ran.status == 0, ran.err
    return ran.report


def test_an_optimizer_whose_step_calls_its_parents_steps_once(ran: Ran, pair: Audited) -> None:
    assert pair.steps is not None
    assert (pair.steps.counted_by, pair.steps.seen, len(pair.steps.timed_s)) == ("Adam2", 8, 3)
    assert ran.out.splitlines() == [f"step {number}" for number in range(7)]


def test_an_update_within_a_compiled_function_is_seen_and_no_frame_of_the_probe_is_compiled(ran: Ran, pair: Audited) -> None:
    assert {one.class_name for one in pair.optimizers} == {"Adam2", "AdamW"}
    assert "Dynamo does not know" not in ran.err
    assert pair.compiled is not None
    assert pair.compiled.ran


def test_a_scaler_left_out_nothing_of_an_update_that_it_was_asked_for_once(pair: Audited) -> None:
    assert pair.precision is not None
    assert (pair.precision.scaler_skipped, pair.precision.scaler_asked) == (0, 8)


def test_autocast_is_seen_without_any_attention(pair: Audited) -> None:
    assert pair.precision is not None
    assert (pair.precision.autocast_watched, pair.precision.autocast_dtype) == (True, "bfloat16")


def test_weights_of_the_smaller_model_are_weights(pair: Audited) -> None:
    assert pair.model is not None
    assert (pair.model.class_name, pair.model.elements) == ("Generator", GENERATOR)
    assert any("Critic" in note for note in pair.notes)
    assert pair.memory is not None
    causes = {cause.cause: cause.bytes for cause in pair.memory.causes}
    assert causes["parameters"] == 4 * (GENERATOR + CRITIC)
    assert causes["optimizer_states"] == 2 * 4 * (GENERATOR + CRITIC) + 4 * 8


def test_waiting_is_for_the_data_that_is_trained_with_and_not_for_what_came_before(pair: Audited) -> None:
    assert pair.data is not None
    assert pair.data.wait_share is not None
    assert pair.data.wait_share > 0.2
