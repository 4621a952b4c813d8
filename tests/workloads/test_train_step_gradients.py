"""What no curve shows: gradients of a wrong size or of one wrong layer, decay left out, dropout drawn anew, a loss that grows."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from bench.records import Check, Status
from bench.workloads.train_step import _learning
from bench.workloads.train_step._course import FEWEST_STEPS, diverged
from bench.workloads.train_step._learning import compare_learning
from bench.workloads.train_step._step import TrainingStep
from bench.workloads.train_step._witness import proofs
from tests.worker.trials import answer
from tests.workloads.test_train_step_curves import small_step
from tests.workloads.training import losses, step_of, training

PRECISIONS = ["fp32", "bf16_pure", "bf16_amp", "bf16_master", "fp16_amp_static", "fp16_amp_dynamic"]


@pytest.fixture(autouse=True)
def three_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_learning, "STEPS", 3)


def checks_of(step: TrainingStep) -> list[Check]:
    return compare_learning(step, torch.Generator().manual_seed(3))[0]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_right_gradients_are_far_within_their_limit(precision: str) -> None:
    for fills in ({"attention": "sdpa_flash", "linear_cross_entropy": "chunked", "checkpointing": "full"}, {"adaptation": "lora"}):
        checks = checks_of(small_step(precision, fills=fills, accumulation=2))
        assert [check.tensor for check in checks] == ["loss_curve", "gradients", "gradients of the update"]
        assert all(check.passed for check in checks), checks
        assert all(4 * (check.error or 0.0) < (check.limit or 0.0) for check in checks[1:]), checks


def sees_what_comes(step: TrainingStep) -> None:
    attention = step.model.model.layers[-1].self_attn
    attention.stepbench_attention = lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def sums_micro_batches(step: TrainingStep) -> None:
    backward = step.driver.backward
    step.driver.backward = lambda loss: backward(2 * loss)  # type: ignore[method-assign]


def does_not_clip(step: TrainingStep) -> None:
    step.update._clip_norm = 0.0


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    ("mistake", "failed"),
    [
        (sees_what_comes, {"gradients", "gradients of the update"}),
        (sums_micro_batches, {"gradients"}),
        (does_not_clip, {"gradients of the update"}),
    ],
)
def test_a_wrong_gradient_is_found_in_every_precision(
    precision: str, mistake: Callable[[TrainingStep], None], failed: set[str]
) -> None:
    step = small_step(precision, accumulation=2, clip_norm=0.25)
    mistake(step)
    assert failed <= {check.tensor for check in checks_of(step) if not check.passed}


def test_clipping_before_the_scale_is_off_is_found() -> None:
    step = small_step("fp16_amp_dynamic")
    update = step.update.step

    def clips_first() -> None:
        torch.nn.utils.clip_grad_norm_(step.update.learned, step.spec.clip_norm)
        update()

    step.update.step = clips_first
    assert "gradients of the update" in {check.tensor for check in checks_of(step) if not check.passed}


@pytest.mark.parametrize("fills", [{"qat": "int4"}, {"qat": "int8_dynamic"}], ids=["int4", "int8"])
def test_what_computes_something_else_on_purpose_is_judged_by_its_curve_alone(fills: dict[str, str]) -> None:
    pytest.importorskip("torchao")
    assert [check.tensor for check in checks_of(small_step("fp32", fills=fills))] == ["loss_curve"]


def test_a_group_without_decay_is_disproved() -> None:
    step = step_of(training())
    losses(step, 1)
    assert proofs(step)["optimizer"].verdict == "proved"
    (group,) = step.update.optimizer.param_groups
    norms = [weight for weight in group["params"] if weight.dim() == 1]
    group["params"] = [weight for weight in group["params"] if weight.dim() > 1]
    step.update.optimizer.add_param_group({"params": norms, "weight_decay": 0.0})
    found = proofs(step)["optimizer"]
    assert (found.verdict, found.detail) == ("disproved", "5 tensors have weight_decay 0, and not 0.01")


@pytest.mark.parametrize("checkpointing", ["none", "full", "every_second", "selective"])
@pytest.mark.parametrize("precision", ["fp32", "bf16_amp"])
def test_a_checkpoint_drops_the_same_weights_again(checkpointing: str, precision: str) -> None:
    step = step_of(training(precision, fills={"checkpointing": checkpointing}, dropout=0.05, layers=3, accumulation=2))
    losses(step, 1)
    assert proofs(step)["checkpointing"].verdict == "proved"


def test_a_checkpoint_that_forgets_the_state_of_the_random_numbers_is_disproved() -> None:
    step = step_of(training(fills={"checkpointing": "full"}, dropout=0.05))
    forgets = {"use_reentrant": False, "preserve_rng_state": False}
    step.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=forgets)
    losses(step, 1)
    found = proofs(step)["checkpointing"]
    assert found.verdict == "disproved"
    assert "drops other weights when it runs again" in str(found.detail)


def test_a_loss_that_grows_and_stays_finite_has_diverged_and_no_other_has() -> None:
    ignorance = math.log(256)
    (check,) = diverged(5.5, 27.1, 256, 40)
    assert not check.passed
    assert check.detail == (
        "diverged at the measured shape: 5.5 nats in step 1 and 27.1 in step 40 on the same batch, where a model that has learned nothing"
        " has 5.55 (ln 256); take a lower lr, or hold it against an arm that learns"
    )
    assert diverged(5.5, ignorance + 0.9, 256, 40) == []
    assert diverged(9.0, 9.9, 256, 40) == []  # a model from a folder that knows other texts
    assert diverged(5.5, 27.1, 256, FEWEST_STEPS - 1) == []
    assert diverged(None, 27.1, 256, 40) == diverged(5.5, math.nan, 256, 40) == []


def test_a_row_whose_loss_grew_at_the_measured_size_is_incorrect(tmp_path: Path) -> None:
    reply = answer(tmp_path, training(lr=10.0))
    assert reply.status is Status.INCORRECT, f"{reply.reason}\n{reply.traceback}"
    assert str(reply.reason).startswith("loss (course): diverged at the measured shape: 5.5")
