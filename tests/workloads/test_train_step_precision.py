"""What a precision does to a training step: dtypes as said, vanishing gradients seen, scaling that brings them back, overflow skipped."""

from __future__ import annotations

import math
import re

import pytest
import torch

from bench.catalogue import load_catalogue
from bench.workloads.precision import NUMERICS, Numerics
from bench.workloads.train_step import WORKLOAD, _stability
from bench.workloads.train_step._assemble import assemble
from bench.workloads.train_step._data import make_batch
from bench.workloads.train_step._facts import _name, numerics_facts
from bench.workloads.train_step._learning import FP32, compare_learning, distance, small_spec
from bench.workloads.train_step._plain import PlainStep
from bench.workloads.train_step._stability import COMPILING_CALLS, UNTIMED_CALLS, gradient_findings
from bench.workloads.train_step._step import TrainingStep
from bench.workloads.train_step._witness import proofs
from tests.workloads.training import losses, step_of, training

SMALL_LOSS = 1e-4
"""Brings gradients to the edge of fp16, as a batch of some million tokens does."""


def small_step(precision: str, **params: float) -> TrainingStep:
    case = training(precision, **params)
    catalogue = load_catalogue()
    torch.set_num_threads(1)
    implementations = {slot: catalogue.implementation(slot, name) for slot, name in case.subject.items()}
    return assemble(small_spec(WORKLOAD.spec(case)), implementations, 7, torch.device("cpu"))


def test_vanished_gradients_are_seen_and_dynamic_scaling_brings_them_back() -> None:
    found, gaps = {}, {}
    for precision in ("fp16_amp_unscaled", "fp16_amp_dynamic", "bf16_amp"):
        step = small_step(precision, loss_weight=SMALL_LOSS)
        checks, gap = compare_learning(step, torch.Generator().manual_seed(1))
        assert all(check.passed for check in checks), checks
        assert gap is not None
        found[precision], gaps[precision] = gradient_findings(step), gap
    lost, scaled = found["fp16_amp_unscaled"], found["fp16_amp_dynamic"]
    assert lost["gradient_zero_share"] > 0.2
    assert lost["gradient_zero_share"] + lost["gradient_subnormal_share"] > 0.99
    assert scaled["gradient_zero_share"] < 1e-3
    assert scaled["gradient_subnormal_share"] < 0.05
    assert found["bf16_amp"]["gradient_zero_share"] == found["bf16_amp"]["gradient_subnormal_share"] == 0.0
    assert gaps["fp16_amp_unscaled"] > 0.3
    assert max(abs(gaps[name]) for name in ("fp16_amp_dynamic", "bf16_amp")) < 0.01
    assert lost["loss_scale"] == 1.0
    assert scaled["loss_scale"] == 65536.0
    assert scaled["gradient_norm"] == pytest.approx(found["bf16_amp"]["gradient_norm"], rel=0.02)


@pytest.mark.parametrize("precision", sorted(set(NUMERICS) - {"tf32", "fp16_pure"}))
def test_the_row_says_the_dtype_of_everything_as_it_is(precision: str) -> None:
    step = step_of(training(precision))
    losses(step, 1)
    numerics, facts = NUMERICS[precision], numerics_facts(step)
    assert facts["numerics_weights"] == facts["numerics_gradients"] == numerics.weights
    assert facts.get("numerics_master") == numerics.master
    assert facts["numerics_states"] == numerics.updated
    assert facts["numerics_compute"] == numerics.compute
    assert facts["numerics_loss_scaling"] == numerics.scaling
    assert proofs(step)["precision"].verdict == "proved"


@pytest.mark.parametrize(
    ("fills", "compute"),
    [
        ({"linear": "float8_training_tensorwise"}, "fp32+float8"),
        ({"qat": "int8_dynamic"}, "fp32+fake int8"),
        ({"qat": "int4"}, "fp32+fake int4"),
    ],
)
def test_layers_that_convert_what_they_multiply_show_in_what_is_computed_in(fills: dict[str, str], compute: str) -> None:
    pytest.importorskip("torchao")
    assert numerics_facts(step_of(training("fp32", fills=fills)))["numerics_compute"] == compute


def test_a_weight_that_ranks_share_has_a_dtype() -> None:
    shards = type("DTensor", (), {"dtype": torch.float32, "__tensor_flatten__": None})()
    assert _name(shards) == "fp32 shards"


def test_eight_bit_states_and_adapters_show_in_the_dtypes() -> None:
    pytest.importorskip("bitsandbytes")
    step = step_of(training("bf16_pure", fills={"optimizer": "adamw8bit_bnb", "adaptation": "lora", "linear": "nf4_bnb"}))
    losses(step, 1)
    facts = numerics_facts(step)
    assert facts["numerics_weights"] == "Params4bit+bf16+fp32"
    assert facts["numerics_gradients"] == "fp32"
    assert facts["learned_parameters"] == sum(weight.numel() for weight in step.update.learned)
    whole = step_of(training(fills={"optimizer": "adamw8bit_bnb"}, hidden_size=128, intermediate_size=256))
    losses(whole, 1)
    assert "uint8" in str(numerics_facts(whole)["numerics_states"])


def test_an_overflow_is_skipped_and_halves_the_scale() -> None:
    step = step_of(training("fp16_amp_dynamic", loss_weight=1e4))
    before = [weight.detach().clone() for weight in step.update.learned]
    losses(step, 1)
    assert step.update.scale == 65536.0 / 2
    assert step.update.skipped_steps == 1
    assert all(torch.equal(weight, old) for weight, old in zip(step.update.learned, before, strict=True))


def test_gradients_are_those_of_the_first_update_however_many_steps_were_skipped_before_and_made_after() -> None:
    found = {}
    for precision, loss_weight, steps in (
        ("fp16_amp_dynamic", 20.0, 9),
        ("fp16_amp_dynamic", 1.0, 3),
        ("fp32", 1.0, 1),
        ("fp32", 1.0, 5),
    ):
        step = step_of(training(precision, loss_weight=loss_weight))
        batch = make_batch(step.spec, torch.Generator().manual_seed(3))
        for _ in range(steps):
            step(batch)
        found[precision, loss_weight, steps] = gradient_findings(step) | {
            "step": float(str(numerics_facts(step)["gradients_of_step"]))
        }
    skipping, scaled, short, long = found.values()
    assert (skipping["skipped_steps"], skipping["step"], skipping["loss_scale"]) == (2, 3, 65536.0 / 4)
    assert (scaled["skipped_steps"], scaled["step"], scaled["loss_scale"]) == (0, 1, 65536.0)
    assert all(numbers["gradient_nonfinite_share"] == 0.0 for numbers in found.values())
    assert long == short
    assert scaled["gradient_norm"] == pytest.approx(short["gradient_norm"], rel=0.02)
    assert skipping["gradient_norm"] / 20.0 == pytest.approx(short["gradient_norm"], rel=0.02)


def test_the_norm_and_shares_of_the_first_update_are_those_that_autograd_leaves() -> None:
    step, twin = (step_of(training("fp16_amp_static", loss_weight=SMALL_LOSS, hidden_size=96)) for _ in range(2))
    batch = make_batch(step.spec, torch.Generator().manual_seed(3))
    step(batch)
    with twin.running():
        twin.differentiate(batch, lambda phase: None)
    gradients = {name: weight.grad for name, weight in twin.model.named_parameters() if weight.grad is not None}
    norm = math.sqrt(sum(float(gradient.double().square().sum()) for gradient in gradients.values())) / 1024.0
    blocks = torch.cat(
        [gradient.flatten() for name, gradient in gradients.items() if ".layers." in name and gradient.dim() == 2]
    ).abs()
    found = gradient_findings(step)
    assert found["gradient_norm"] == pytest.approx(norm, rel=1e-5)
    assert found["gradient_zero_share"] == float((blocks == 0).double().mean()) > 0.0
    smallest = torch.finfo(torch.float16).tiny
    assert found["gradient_subnormal_share"] == float(((blocks > 0) & (blocks < smallest)).double().mean()) > 0.0


def test_where_no_update_is_made_before_the_first_sample_nothing_is_told_but_how_many_were_skipped() -> None:
    step = step_of(training("fp16_amp_dynamic", loss_weight=1e4))
    losses(step, 20)
    assert step.update.skipped_steps > UNTIMED_CALLS
    assert gradient_findings(step) == {}
    facts = numerics_facts(step)
    assert "gradients_of_step" not in facts
    assert facts["steps_skipped"] == step.update.skipped_steps


def test_gradients_are_looked_at_in_the_calls_that_are_no_samples_and_equally_in_the_two_that_compiling_is_told_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[TrainingStep] = []
    monkeypatch.setattr(_stability, "look", lambda step: looked.append(step))
    for loss_weight, looks in ((1.0, COMPILING_CALLS), (1e4, UNTIMED_CALLS)):
        looked.clear()
        losses(step_of(training("fp16_amp_dynamic", loss_weight=loss_weight)), 6)
        assert len(looked) == looks


def test_gradients_are_read_in_pieces_and_the_pieces_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for chunk in (_stability.CHUNK, 100):
        monkeypatch.setattr(_stability, "CHUNK", chunk)
        step = step_of(training("fp16_amp_unscaled", loss_weight=SMALL_LOSS))
        losses(step, 1)
        found.append(gradient_findings(step))
    assert found[1] == pytest.approx(found[0], rel=1e-6)


def test_the_first_matrix_of_adapters_does_not_count_since_its_gradient_begins_at_zero() -> None:
    step = step_of(training("fp32", fills={"adaptation": "lora"}))
    losses(step, 1)
    assert gradient_findings(step)["gradient_zero_share"] == 0.0


def test_a_fused_optimizer_that_skips_itself_is_counted_too() -> None:
    step = step_of(training("fp16_amp_dynamic", loss_weight=1e4, fills={"optimizer": "adamw_fused"}))
    losses(step, 1)
    assert step.update.skipped_steps == 1


def test_without_scaling_an_overflow_is_no_skipped_step_but_no_number_either() -> None:
    step = step_of(training("fp16_amp_unscaled", loss_weight=1e9))
    losses(step, 1)
    found = gradient_findings(step)
    assert found["skipped_steps"] == 0
    assert found["gradient_nonfinite_share"] > 0.0
    assert "gradient_norm" not in found


def test_a_master_copy_keeps_updates_that_bf16_weights_lose() -> None:
    moved = {}
    for precision in ("bf16_pure", "bf16_master"):
        step = step_of(training(precision, lr=1e-4))
        norms = [weight for name, weight in step.model.named_parameters() if "layernorm" in name]
        losses(step, 3)
        masters = {id(weight): master for weight, master in zip(step.update.learned, step.update.masters, strict=False)}
        kept = [masters.get(id(weight), weight) for weight in norms]
        moved[precision] = sum(float((weight.detach().float() - 1.0).abs().sum()) for weight in kept)
    assert moved["bf16_pure"] == 0.0
    assert moved["bf16_master"] > 0.0


def test_pure_fp16_ends_in_no_number_and_the_check_says_at_which_step() -> None:
    step = small_step("fp16_pure")
    (check, *_), gap = compare_learning(step, torch.Generator().manual_seed(1))
    assert gap is None
    assert not check.passed
    assert str(check.detail).startswith("the loss is not finite from step ")
    assert "plain PyTorch in the same dtypes loses it at step" in str(check.detail)


@pytest.mark.parametrize("optimizer", ["adamw_forloop", "adamw_foreach", "adamw_fused"])
def test_pure_fp16_is_refused_by_none_of_torchs_optimizers_so_that_it_can_be_seen_what_it_does(optimizer: str) -> None:
    case = training("fp16_pure", fills={"optimizer": optimizer})
    implementation = load_catalogue().implementation("optimizer", optimizer)
    assert implementation.declared_refusal(WORKLOAD.seen_by(case, "optimizer")) is None


def test_noise_of_bf16_is_within_the_limit_and_a_learning_rate_too_high_is_not() -> None:
    step = small_step("bf16_amp")
    step.update.optimizer.param_groups[0]["lr"] *= 1.5
    (check, *_), _ = compare_learning(step, torch.Generator().manual_seed(1))
    assert not check.passed
    assert check.error is not None
    assert check.limit is not None
    assert check.error > 10 * check.limit
    assert re.search(r"; first farther off than the limit at step \d+$", str(check.detail))
    (check, *_), _ = compare_learning(small_step("bf16_amp"), torch.Generator().manual_seed(1))
    assert check.passed


def test_plain_curves_lie_apart_by_the_rounding_of_their_dtype() -> None:
    step = small_step("fp32")
    adaptation = step.implementations["adaptation"]

    def curve(numerics: Numerics, shaken: int | None = None) -> list[float]:
        made = PlainStep(step.spec, numerics, adaptation, "adamw", 7, torch.device("cpu"), shaken=shaken)
        return losses_of(made)

    def losses_of(made: PlainStep) -> list[float]:
        from bench.workloads.train_step._data import make_batch

        generator = torch.Generator().manual_seed(2)
        return [made(make_batch(step.spec, generator)) for _ in range(10)]

    exact = curve(FP32)
    assert losses(step, 10, seed=2) == pytest.approx(exact, abs=1e-5)
    in_fp32, in_bf16 = distance(curve(FP32, 1), exact), distance(curve(NUMERICS["bf16_amp"]), exact)
    assert in_fp32 < 1e-6 < in_bf16 < 1e-2


def test_a_scaling_that_is_not_known_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="none, static or dynamic"):
        Numerics("fp32", "fp16", scaling="adaptive")
    assert math.isclose(NUMERICS["fp16_amp_static"].scale, 1024.0)
