"""What a probe tells of real scripts, with techniques on and off: by what ran, not by what was asked for."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest

from bench.audited import Audited
from tests.worker.auditing import SCRIPTS, Ran, audited, python


@pytest.fixture(scope="module")
def adapted(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """Adapters beside weights in four bits in a checkpointed model, autocast, an 8-bit optimizer, padded batches."""
    pytest.importorskip("peft")
    arguments = ("--nf4", "--lora", "--autocast", "--optimizer", "adamw8bit", "--hidden", "512", "--checkpoint", "reentrant")
    ran = audited(tmp_path_factory.mktemp("adapted") / "out", python("plain_loop.py", *arguments))
    assert ran.status == 0, ran.err
    assert ran.report.notes == ()
    return ran.report


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """A Trainer with two workers that load data, whose config asks for SDPA, around layers that compute attention by themselves."""
    folder = tmp_path_factory.mktemp("trained")
    arguments = {"bf16": True, "gradient_checkpointing": True, "gradient_accumulation_steps": 2, "optim": "adamw_torch"}
    arguments |= {"dataloader_num_workers": 2}
    config = {"attn_implementation": "sdpa", "lies": True}
    ran = audited(folder / "out", python("trained.py", str(folder / "saves"), json.dumps(arguments), json.dumps(config)))
    assert ran.status == 0, ran.err
    assert ran.report.notes == ()
    return ran.report


def test_adapters_and_frozen_weights_are_told_apart(adapted: Audited) -> None:
    (lora,) = adapted.adapters
    assert (lora.kind, lora.modules, lora.ranks, lora.targets) == ("peft LoRA", 6, (4,), ("q_proj", "v_proj"))
    assert adapted.model is not None
    assert adapted.model.class_name == "LlamaForCausalLM"
    assert adapted.model.wrappers == ("PeftModel",)
    assert adapted.model.trained_elements == lora.trained_elements == 3 * 4 * (512 + 512 + 512 + 256)
    assert adapted.model.elements > 100 * lora.trained_elements
    assert sum(row.elements for row in adapted.gradients) == lora.trained_elements


def test_weights_in_four_bits_are_told_with_their_scales(adapted: Audited) -> None:
    (row,) = adapted.quantized
    assert (row.kind, row.modules, row.double_quantized, row.compute_dtype) == ("bitsandbytes nf4", 21, True, "bfloat16")
    assert row.elements / 2 < row.bytes < row.elements * 0.55
    assert adapted.model is not None
    assert adapted.model.config["quantization"]["load_in_4bit"] is True


def test_an_8_bit_optimizer_keeps_some_states_in_32_bits(adapted: Audited) -> None:
    (optimizer,) = adapted.optimizers
    assert (optimizer.class_name, optimizer.package, optimizer.optimizer_bits, optimizer.paged) == (
        "AdamW8bit",
        "bitsandbytes",
        8,
        False,
    )
    assert optimizer.small_tensor_elements == 4096
    states = {(row.what, row.dtype) for row in optimizer.states}
    assert states == {("state1", "float32"), ("state2", "float32")}  # each adapter is smaller than that


def test_autocast_is_told_by_the_numbers_that_were_multiplied(adapted: Audited) -> None:
    assert adapted.precision is not None
    assert adapted.precision.autocast_dtype == "bfloat16"
    assert adapted.precision.matmul_inputs["bfloat16"] > 0.5
    assert adapted.model is not None
    assert {row.dtype for row in adapted.model.parameters} == {"float32", "uint8"}


def test_padding_and_labels_that_teach_nothing_are_counted(adapted: Audited) -> None:
    assert adapted.data is not None
    assert adapted.data.padding_share == adapted.data.ignored_label_share
    assert adapted.data.padding_share is not None
    assert 0.2 < adapted.data.padding_share < 0.3
    assert adapted.steps is not None
    assert (adapted.steps.tokens, adapted.steps.micro_batches, adapted.steps.batch_shapes) == (64.0, 1.0, ((4, 16),))


def test_reentrant_checkpoints_are_seen(adapted: Audited) -> None:
    assert adapted.checkpointing is not None
    assert (adapted.checkpointing.recomputed, adapted.checkpointing.enabled, adapted.checkpointing.reentrant) == (3, 3, True)


def test_a_config_that_lies_is_found_out(trained: Audited) -> None:
    assert trained.model is not None
    assert trained.model.config["attn_implementation"] == "sdpa"
    (attention,) = trained.attention
    assert (attention.kind, attention.modules) == ("eager", 3)
    (row,) = [row for row in trained.modules if row.role == "attention"]
    assert (row.package, row.forward_package) == ("transformers", "__main__")


def test_what_a_trainer_was_asked_for_stands_beside_what_ran(trained: Audited) -> None:
    assert trained.frameworks == ("transformers.Trainer", "accelerate")
    assert trained.asked["bf16"] is True
    assert trained.asked["gradient_accumulation_steps"] == 2
    assert trained.asked["optim"] == "adamw_torch"
    assert trained.asked["use_liger_kernel"] is False
    assert not {"output_dir", "hub_token", "run_name"} & set(trained.asked)
    assert trained.precision is not None
    assert trained.precision.autocast_dtype == "bfloat16"
    assert trained.checkpointing is not None
    assert (trained.checkpointing.recomputed, trained.checkpointing.reentrant) == (3, False)
    assert trained.steps is not None
    assert trained.steps.micro_batches == 2.0
    assert trained.optimizers[0].inner_of == "accelerate"
    assert trained.data is not None
    assert (trained.data.workers, trained.ended.how) == (2, "stopped")


def test_a_compiled_model_is_told_by_names_alone(tmp_path: Path) -> None:
    report = audited(tmp_path / "out", python("bare.py", "--compile")).report
    assert report.compiled is not None
    assert (report.compiled.modules, report.compiled.graphs, report.compiled.ran) == (("Decoder",), 1, 1)
    assert report.compiled.recompiled_while_timed is False
    (attention,) = report.attention
    assert (attention.kind, attention.modules, attention.calls) == ("sdpa_flash", 0, 4)
    assert report.checkpointing is not None
    assert report.checkpointing.recomputed is None
    assert report.model is not None
    assert report.model.wrappers == ("OptimizedModule",)
    assert any("compiled" in note for note in report.notes)


def test_updates_that_a_scaler_leaves_out_are_counted_apart(tmp_path: Path) -> None:
    report = audited(tmp_path / "out", python("bare.py", "--scaler", "--eager", "--steps", "20")).report
    assert report.precision is not None
    assert report.precision.scaler_skipped == 2
    assert report.precision.scaler_scale == 65536 / 4
    assert report.steps is not None
    assert report.steps.seen == 8
    (attention,) = report.attention
    assert (attention.kind, attention.modules, attention.calls) == ("eager", 4, 4)


def test_a_profiler_of_the_scripts_own_is_left_alone(tmp_path: Path) -> None:
    ran = audited(tmp_path / "out", python("bare.py", "--profiles", "--steps", "9"), steps=20)
    assert ran.out.splitlines()[-1] == "trained nobody"
    assert ran.report.attention == ()
    assert ran.report.memory is None
    assert ran.report.model is not None
    assert any("profiler itself" in note for note in ran.report.notes)


@pytest.mark.slow
def test_deepspeeds_engine_is_told_as_it_resolved_itself(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    launcher = [sys.executable, "-m", "deepspeed.launcher.runner", "--num_accelerators", "2", "--master_port", port]
    ran = audited(tmp_path / "out", [*launcher, str(SCRIPTS / "deepspeeded.py"), "3"], variables={"DS_ACCELERATOR": "cpu"})
    assert ran.status == 0, ran.err
    assert len(ran.ranks) == 2
    for report in ran.ranks:
        assert report.notes == ()
        assert report.ended.how == "stopped"
        assert report.deepspeed is not None
        assert report.deepspeed.given["zero_optimization"]["stage"] == 3
        assert report.deepspeed.resolved["zero_stage"] == 3
        assert report.deepspeed.resolved["train_batch_size"] == 8
        assert report.deepspeed.resolved["zero"]["prefetch_bucket_size"] == 50_000_000
        assert report.steps is not None
        assert (report.steps.counted_by, report.steps.seen, report.steps.micro_batches) == ("DeepSpeedEngine", 8, 2.0)
        (optimizer,) = report.optimizers
        assert report.model is not None
        assert 2 * optimizer.elements == report.model.elements
        assert {row.dtype for row in report.model.parameters} == {"bfloat16"}
        assert {row.dtype for row in optimizer.states} == {"float32"}
    _launcher_says_nothing(ran)


def _launcher_says_nothing(ran: Ran) -> None:
    assert all(report.steps is not None and report.steps.seen == 0 for report in ran.reports if report not in ran.ranks)
