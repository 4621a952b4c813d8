"""A training step through the worker: rows with everything in them, and a status in words for what is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.catalogue import load_catalogue
from bench.metrics import METRICS
from bench.records import Check, Proof, Reply, Status
from bench.run.preflight import preflight
from bench.worker.proof import judge_all
from bench.workloads.train_step import WORKLOAD
from bench.workloads.train_step._stability import UNTIMED_CALLS
from tests.worker.trials import answer, only
from tests.workloads.training import training

BLIND = """
import dataclasses

from bench.declare import implementation


@implementation(workload="attention")
def blind_to_order(spec):
    from bench.workloads.attention.eager import eager

    return eager.builder(dataclasses.replace(spec, mask="full"))


@implementation(workload="optimizer", dtypes=["fp32", "bf16"], passes=["step"])
def in_a_hurry(spec):
    from bench.workloads.optimizer.adamw_foreach import adamw_foreach

    return adamw_foreach.builder(dataclasses.replace(spec, lr=1.5 * spec.lr))


@implementation(workload="checkpointing", dtypes=["fp32"], passes=["step"])
def promised(spec):
    from bench.workloads.checkpointing import runs_missed
    from bench.workloads.train_step._change import Change, unchanged

    return Change(unchanged, lambda evidence: runs_missed(evidence, lambda layer: True))
"""


def curve(reply: Reply) -> Check:
    return next(check for check in reply.checks if check.tensor == "loss_curve")


def test_a_plain_step_is_measured_checked_proved_and_explained(tmp_path: Path) -> None:
    reply = answer(tmp_path, training(accumulation=2))
    assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"
    assert reply.proof is not None
    assert (reply.proof.verdict, reply.proof.detail) == ("proved", None)
    assert curve(reply).passed
    assert reply.cost is not None
    assert reply.cost.tokens == 2 * 2 * 16
    told = {measurement.metric for measurement in reply.measurements}
    findings = {"loss_gap", "gradient_norm", "gradient_zero_share", "loss_scale", "skipped_steps", "state_bytes", "saved_bytes"}
    assert findings | {"forward_s", "backward_s", "optimizer_s", "time_s", "peak_total_bytes", "weight_bytes"} <= told
    assert told <= set(METRICS)
    weights = 106_816 * 4
    assert only(reply, "state_bytes").samples[0] == pytest.approx(2 * weights, rel=1e-3)
    assert only(reply, "peak_total_bytes").samples[0] > 4 * weights
    assert abs(only(reply, "loss_gap").samples[0]) < 1e-3
    assert reply.conditions["numerics_weights"] == reply.conditions["numerics_states"] == "fp32"
    assert reply.conditions["learned_parameters"] == 106_816


def test_fused_parts_and_checkpointing_together_are_proved(tmp_path: Path) -> None:
    fills = {
        "attention": "sdpa_flash",
        "rms_norm": "torch_native",
        "linear_cross_entropy": "chunked",
        "optimizer": "adamw_fused",
        "checkpointing": "full",
    }
    reply = answer(tmp_path, training("bf16_pure", fills=fills))
    assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"
    assert reply.proof is not None
    assert reply.proof.verdict == "proved", reply.proof.detail
    assert any("flash_attention" in name for name in reply.proof.observed)
    assert reply.conditions["numerics_states"] == "bf16"


@pytest.mark.parametrize(
    ("fills", "words"),
    [
        ({"attention": "blind_to_order"}, "loss_curve (small): error"),
        ({"optimizer": "in_a_hurry"}, "loss_curve (small): error"),
        ({"checkpointing": "promised"}, "checkpointing: 0 of 2 layers are checkpointed"),
    ],
    ids=["attention without its mask", "learning rate too high", "checkpointing that does nothing"],
)
def test_what_learns_otherwise_or_does_not_what_it_promises_is_incorrect(tmp_path: Path, fills: dict[str, str], words: str) -> None:
    plugin = tmp_path / "blind.py"
    plugin.write_text(BLIND)
    reply = answer(tmp_path, training(fills=fills), plugins=(plugin,))
    assert reply.status is Status.INCORRECT, f"{reply.reason}\n{reply.traceback}"
    assert words in str(reply.reason)


def test_what_cannot_be_is_said_without_a_process_where_it_is_declared() -> None:
    catalogue = load_catalogue()
    assert preflight(training("bf16_amp"), catalogue) is None
    offloaded = preflight(training(fills={"checkpointing": "full_offloaded"}), catalogue)
    assert offloaded is not None
    assert (offloaded.status, offloaded.reason) == (Status.UNSUPPORTED, "full_offloaded runs on cuda, not on cpu")


def test_each_slot_is_asked_for_the_dtype_and_the_pass_that_it_gets() -> None:
    amp, master = training("fp16_amp_dynamic"), training("bf16_master")
    assert WORKLOAD.seen_by(amp, "optimizer").dtype == WORKLOAD.seen_by(amp, "rms_norm").dtype == "fp32"
    assert WORKLOAD.seen_by(amp, "attention").dtype == "fp16"
    assert WORKLOAD.seen_by(master, "optimizer").dtype == "fp32"
    assert WORKLOAD.seen_by(master, "rms_norm").dtype == "bf16"
    assert WORKLOAD.seen_by(amp, "linear").pass_ == "forward_backward"
    assert WORKLOAD.seen_by(amp, "checkpointing") == amp


def test_in_a_whole_step_one_slot_may_do_what_another_must_not() -> None:
    catalogue = load_catalogue()
    seen = ("aten::bmm", "aten::_softmax", "aten::rms_norm", "aten::_scaled_dot_product_flash_attention_for_cpu")
    eager = {"attention": catalogue.implementation("attention", "eager")}
    both = {**eager, "rms_norm": catalogue.implementation("rms_norm", "torch_native")}
    assert judge_all(eager, "cpu", seen, ()).verdict == "disproved"  # alone nothing else may run
    assert judge_all(both, "cpu", seen, ()).verdict == "proved"
    assert judge_all(both, "cpu", seen[:2], ()).detail == "rms_norm: no op matches '^aten::rms_norm$'"
    lacking = {"checkpointing": Proof("disproved", (), "no layer is checkpointed")}
    assert judge_all(both, "cpu", seen, (), lacking).detail == "checkpointing: no layer is checkpointed"


def test_a_loss_that_is_lost_at_the_measured_size_is_told_with_the_step_in_which_that_was_seen(tmp_path: Path) -> None:
    reply = answer(tmp_path, training(lr=1e30))
    assert reply.status is Status.INCORRECT
    assert (seen := re.fullmatch(r"loss \(finite\): not finite at the measured shape, seen in step (\d+)", str(reply.reason)))
    assert int(seen[1]) > UNTIMED_CALLS


def test_a_family_that_cannot_be_trained_is_unsupported_in_words(tmp_path: Path) -> None:
    reply = answer(tmp_path, training(architecture="gemma2"))
    assert reply.status is Status.UNSUPPORTED
    assert "caps the logits" in str(reply.reason)


def test_all_slots_have_a_default_and_every_precision_has_one_dtype() -> None:
    catalogue = load_catalogue()
    assert set(WORKLOAD.defaults) == set(WORKLOAD.slots)
    for slot, name in WORKLOAD.defaults.items():
        assert name in catalogue.implementations(slot)
    assert all(len(found.dtypes) == 1 for found in catalogue.implementations("precision").values())
