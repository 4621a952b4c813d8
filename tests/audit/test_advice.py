"""What is advised next: only what is off, with the plan's memory, the database's speed on this GPU, and the setting to paste."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from bench.audit.advice import Advice, Next, advise
from bench.audit.findings import findings
from bench.audit.recognised import recognise
from bench.audit.told import audit_lines
from bench.audited import Adapters, Checkpointing, Compiled, DeepSpeed, Device, Precision, Quantized, Sharding
from bench.plan.fits import CHECKPOINT_COST
from bench.records import Environment, Pass
from bench.store import Store
from tests import factories
from tests.audit.seen import GIB, MEMORY, MODEL, OPTIMIZER, STEPS, attention, audit, liger, report, tensors

SLOTS = {
    "attention": "eager", "rms_norm": "eager", "rope": "eager", "swiglu": "eager", "linear_cross_entropy": "eager", "linear": "plain",
    "optimizer": "adamw_foreach", "compile": "none", "checkpointing": "none", "precision": "bf16_pure", "adaptation": "full", "qat": "none",
}  # fmt: skip
WIDE = dataclasses.replace(MODEL, parameters=(tensors("float32"),))
EIGHT = dataclasses.replace(OPTIMIZER, class_name="AdamW8bit", package="bitsandbytes", optimizer_bits=8)
PIECES = tuple(liger(piece, 1, 1) for piece in ("rms_norm", "rope", "swiglu", "fused_linear_cross_entropy"))


def step_of(advice: Advice, name: str) -> Next | None:
    return next((step for step in advice.steps if step.switch.name == name), None)


def measured_steps(
    path: Path, arms: dict[str, float], *, gpu: str = "NVIDIA H200", trials: int = 3, seq_len: int = 4096, hidden_size: int = 2048
) -> Path:
    """A database with a run of training steps: `slot=name` to seconds; `-` changes nothing."""
    run = factories.run(suite="train_step", suite_data={"name": "train_step", "workload": "train_step"}, device="cuda")
    with Store.open(path) as store:
        store.add_run(run)
        for arm, time_s in arms.items():
            change = {} if arm == "-" else dict(part.split("=") for part in arm.split())
            case = dataclasses.replace(
                factories.case(), workload="train_step", subject={**SLOTS, **change}, pass_=Pass.STEP, dtype="bf16", device="cuda",
                params={"model": "llama-3.2-1b", "hidden_size": hidden_size, "layers": 16, "seq_len": seq_len, "batch": 2},
            )  # fmt: skip
            for index in range(trials):
                row = factories.result(run.id, case, index=index, time_s=time_s * (1 + 0.001 * index))
                hard = Environment({"device": "cuda", "gpu_model": gpu}, {})
                store.add_result(dataclasses.replace(row, environment=hard))
    return path


def test_what_is_off_is_advised_with_its_memory_and_its_setting() -> None:
    advice = advise(audit(), None)
    attention_step, loss, again = (step_of(advice, name) for name in ("flash_attention", "liger", "checkpointing"))
    assert attention_step is not None
    assert loss is not None
    assert again is not None
    assert attention_step.setting == "from_pretrained(attn_implementation='sdpa')"
    assert "use_liger_kernel=True" in loss.setting
    assert again.saved_bytes is not None
    assert again.saved_bytes > 0
    assert [step.worth for step in advice.steps] == sorted((step.worth for step in advice.steps), reverse=True)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("flash_attention", {"attention": (attention("sdpa_flash"),)}),
        ("flash_attn2", {"attention": (attention("flash_attn2"),)}),
        ("liger", {"liger": PIECES}),
        ("fused_optimizer", {"optimizers": (dataclasses.replace(OPTIMIZER, fused=True, foreach=False),)}),
        (
            "optimizer_8bit",
            {"optimizers": (EIGHT,)},
        ),
        ("checkpointing", {"checkpointing": Checkpointing(16, "LlamaDecoderLayer", 16, 16, False)}),
        ("autocast", {}),
        ("tf32", {}),
        ("quantized_base", {}),
    ],
)
def test_what_is_on_or_has_no_place_is_never_advised(name: str, changes: dict[str, Any], tmp_path: Path) -> None:
    faster = measured_steps(
        tmp_path / "x.db",
        dict.fromkeys(
            ("-", "attention=sdpa_flash", "rms_norm=liger rope=liger swiglu=liger linear_cross_entropy=liger", "checkpointing=full",
             "optimizer=adamw_fused", "optimizer=adamw8bit_bnb", "precision=bf16_amp", "precision=tf32", "linear=nf4_bnb"),
            0.5,
        ) | {"-": 1.0},
    )  # fmt: skip
    with Store.open(faster) as store:
        assert step_of(advise(audit(**changes), store), name) is None


def test_speed_is_what_the_database_holds_of_this_gpu_with_its_interval(tmp_path: Path) -> None:
    path = measured_steps(tmp_path / "x.db", {"-": 1.0, "attention=sdpa_flash": 0.8, "optimizer=adamw_fused": 0.99})
    with Store.open(path) as store:
        advice = advise(audit(), store)
        elsewhere = advise(audit(device=dataclasses.replace(report().device, name="NVIDIA A100")), store)
    step = step_of(advice, "flash_attention")
    assert step is not None
    assert step.gain is not None
    assert step.gain.promised
    assert step.gain.ratio.value == pytest.approx(0.8)
    assert (step.gain.model, step.gain.seq_len, step.gain.processes) == ("llama-3.2-1b", 4096, 3)
    words = "\n".join(audit_lines(audit(), findings(audit()), advice))
    assert "1.25× faster" in words
    assert "measured on NVIDIA H200 with llama-3.2-1b at 4096 tokens, batch 2 (3 processes a side" in words
    other = step_of(elsewhere, "flash_attention")
    assert other is not None
    assert other.gain is None
    assert "the database has no training step of this GPU" in "\n".join(audit_lines(audit(), (), elsewhere))


def test_two_processes_a_side_give_a_ratio_and_no_interval(tmp_path: Path) -> None:
    with Store.open(measured_steps(tmp_path / "x.db", {"-": 1.0, "attention=sdpa_flash": 0.8}, trials=2)) as store:
        step = step_of(advise(audit(), store), "flash_attention")
    assert step is not None
    assert step.gain is not None
    assert step.gain.ratio.interval is None
    assert step.gain.promised


def test_of_several_pairs_the_one_nearest_to_the_script_is_told(tmp_path: Path) -> None:
    path = measured_steps(
        tmp_path / "x.db",
        {"-": 1.0, "attention=sdpa_flash": 0.8, "optimizer=adamw_fused": 0.99, "optimizer=adamw_fused attention=sdpa_flash": 0.5},
    )
    measured_steps(path, {"-": 1.0, "attention=sdpa_flash": 0.4}, seq_len=16384)
    fused = dataclasses.replace(OPTIMIZER, fused=True, foreach=False)
    with Store.open(path) as store:
        plain = step_of(advise(audit(), store), "flash_attention")
        other = step_of(advise(audit(optimizers=(fused,)), store), "flash_attention")
    assert plain is not None
    assert other is not None
    assert plain.gain is not None
    assert other.gain is not None
    assert plain.gain.ratio.value == pytest.approx(0.8)
    assert other.gain.ratio.value == pytest.approx(0.5 / 0.99, rel=1e-3)


def test_a_step_of_another_magnitude_says_nothing_of_the_scripts(tmp_path: Path) -> None:
    path = measured_steps(tmp_path / "x.db", {"-": 1.0, "attention=sdpa_flash": 1.5}, seq_len=64, hidden_size=256)
    with Store.open(path) as store:
        advice = advise(audit(), store)
    step = step_of(advice, "flash_attention")
    assert step is not None
    assert step.gain is None
    assert "in a step of like size" in "\n".join(audit_lines(audit(), (), advice))


@pytest.mark.parametrize(("times", "trials", "told"), [((1.0, 0.97), 1, False), ((1.0, 0.9), 1, True), ((1.0, 0.97), 5, True)])
def test_a_gain_within_what_processes_differ_by_is_no_promise(
    times: tuple[float, float], trials: int, told: bool, tmp_path: Path
) -> None:
    arms = {"-": times[0], "compile=layer": times[1]}
    with Store.open(measured_steps(tmp_path / "x.db", arms, trials=trials)) as store:
        assert (step_of(advise(audit(), store), "compiled_layers") is not None) is told


def test_one_process_a_side_shows_no_small_difference(tmp_path: Path) -> None:
    with Store.open(measured_steps(tmp_path / "x.db", {"-": 1.0, "attention=sdpa_flash": 0.998}, trials=1)) as store:
        lines = audit_lines(audit(), (), advise(audit(), store))
    assert any("speed: not shown to differ (0.998× the time), measured on NVIDIA H200" in line for line in lines)


def test_of_pairs_as_near_one_with_an_interval_is_told_and_where_it_differs(tmp_path: Path) -> None:
    fused = "optimizer=adamw_fused"
    path = measured_steps(tmp_path / "x.db", {fused: 1.0, f"{fused} attention=sdpa_flash": 0.8}, trials=1)
    measured_steps(path, {fused: 1.0, f"{fused} attention=sdpa_flash": 0.7}, seq_len=8192)
    with Store.open(path) as store:
        advice = advise(audit(), store)
    step = step_of(advice, "flash_attention")
    assert step is not None
    assert step.gain is not None
    assert (step.gain.seq_len, step.gain.otherwise) == (8192, {"optimizer": "adamw_fused"})
    assert "at 8192 tokens, batch 2, optimizer adamw_fused (3 processes a side" in "\n".join(audit_lines(audit(), (), advice))


def test_a_switch_that_nobody_has_formulas_for_is_told_for_its_measured_speed(tmp_path: Path) -> None:
    with Store.open(measured_steps(tmp_path / "x.db", {"-": 1.0, "compile=layer": 0.7})) as store:
        step = step_of(advise(audit(), store), "compiled_layers")
    assert step is not None
    assert step.saved_bytes is None
    assert step.why_not_predicted is not None
    assert "no formulas" in step.why_not_predicted


def test_what_costs_time_by_rule_counts_less() -> None:
    step = step_of(advise(audit(), None), "checkpointing")
    assert step is not None
    assert step.saved_share is not None
    assert step.worth == pytest.approx(step.saved_share + 1 - CHECKPOINT_COST["full"])


def test_a_loop_of_ones_own_gets_words_of_torch_and_not_of_the_trainer() -> None:
    step = step_of(advise(audit(frameworks=()), None), "checkpointing")
    assert step is not None
    assert step.setting.startswith("model.gradient_checkpointing_enable(")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"config": {"model_type": "mamba"}}, "no formulas for mamba"),
        ({"model": dataclasses.replace(MODEL, config={})}, "does not tell model_type"),
        ({"steps": dataclasses.replace(STEPS, batch_shapes=())}, "shape of the model's inputs was not seen"),
        ({"attention": (attention("xformers"),)}, "no formulas for this script's attention"),
        ({"optimizers": (dataclasses.replace(OPTIMIZER, class_name="Sophia", package="elsewhere"),)}, "this script's optimizer"),
        ({"compiled": Compiled(("LlamaForCausalLM",), 1, 0, (), 3, False)}, "compile"),
    ],
)  # fmt: skip
def test_what_has_no_formulas_is_said_and_nothing_is_predicted(changes: dict[str, Any], why: str) -> None:
    advice = advise(audit(**changes), None)
    assert advice.predicted is None
    assert why in str(advice.why_not_predicted)
    assert all(step.saved_bytes is None for step in advice.steps)


@pytest.mark.parametrize(
    ("slot", "word", "changes"),
    [
        ("attention", "flash_attn2", {"attention": (attention("flash_attn2"),)}),
        ("optimizer", "paged_adamw8bit_bnb", {"optimizers": (dataclasses.replace(EIGHT, paged=True),)}),
        ("optimizer", "adamw4bit_ao", {"optimizers": (dataclasses.replace(OPTIMIZER, class_name="AdamW4bit", package="torchao"),)}),
        ("optimizer", "adamw_forloop", {"optimizers": (dataclasses.replace(OPTIMIZER, foreach=False),)}),
        ("precision", "bf16_amp", {"model": WIDE, "precision": Precision("bfloat16", {}, "highest")}),
        ("precision", "tf32", {"model": WIDE, "precision": Precision(None, {}, "high")}),
        ("precision", "fp16_amp_dynamic", {"model": WIDE, "precision": Precision("float16", {}, "high", 1.0, 0)}),
        ("linear", "nf4_bnb_double", {"quantized": (Quantized("bitsandbytes nf4", 1, 2, 1, True),)}),
        ("adaptation", "lora", {"adapters": (Adapters("peft LoRA", 1, (8,), ("q_proj",), 10),)}),
        ("checkpointing", "every_second", {"checkpointing": Checkpointing(16, "x", 8, 8)}),
        ("sharding", "zero3", {"world_size": 2, "sharding": Sharding("deepspeed", 2), "deepspeed": DeepSpeed({}, {"zero_stage": 3}, 0)}),
        ("offload", "optimizer", {"deepspeed": DeepSpeed({}, {"offload_optimizer_device": "cpu"}, 0)}),
        ("rms_norm", "liger", {"liger": PIECES}),
        ("rms_norm", "eager", {"liger": (liger("rms_norm", 3, 33),)}),
    ],
)  # fmt: skip
def test_what_runs_has_the_name_that_suites_use(slot: str, word: str, changes: dict[str, Any]) -> None:
    assert recognise(audit(**changes)).filled[slot] == word


@pytest.mark.parametrize(("share", "doubtful"), [(1.0, False), (3.0, True)])
def test_the_prediction_stands_beside_what_was_measured_and_is_doubted_where_it_is_far_off(share: float, doubtful: bool) -> None:
    predicted = advise(audit(), None).predicted
    assert predicted is not None
    assert predicted.peak_bytes > 10 * GIB
    made = audit(memory=dataclasses.replace(MEMORY, peak_bytes=int(predicted.peak_bytes / share)))
    words = "\n".join(audit_lines(made, (), advise(made, None)))
    assert "of what was measured" in words
    assert ("the memory above is doubtful" in words) is doubtful


def test_a_difference_of_some_bytes_is_told_as_none() -> None:
    step = step_of(advise(audit(), None), "checkpointing")
    assert step is not None
    lines = audit_lines(
        audit(), (), dataclasses.replace(advise(audit(), None), steps=(dataclasses.replace(step, saved_share=-1e-6),))
    )
    assert "     memory: the same peak, predicted" in lines


def test_of_a_script_on_a_processor_the_gpu_is_modelled_with_what_takes_its_numbers_there() -> None:
    here = Device(name="cpu", kind="cpu", threads=2)
    made = audit(device=here, model=WIDE, precision=Precision(None, {}, "highest"), attention=(attention("sdpa_flash"),))
    plan = advise(made, None).predicted
    assert plan is not None
    assert plan.train.attention == "sdpa_efficient"
    assert any("memory-efficient kernel, which is modelled" in note for note in plan.notes)


def test_words_to_paste_name_the_models_family() -> None:
    step = step_of(advise(audit(frameworks=()), None), "liger")
    assert step is not None
    assert step.setting.startswith("liger_kernel.transformers.apply_liger_kernel_to_llama()")


def test_a_trainer_gets_its_own_settings_where_the_rest_has_no_words_of_its_own_or_no_formulas() -> None:
    alone = (dataclasses.replace(OPTIMIZER, foreach=False),)
    step = step_of(advise(audit(optimizers=alone), None), "optimizer_8bit")
    assert step is not None
    assert step.setting == "TrainingArguments(optim='adamw_bnb_8bit')"


def test_a_setting_of_liger_keeps_the_pieces_that_are_in(tmp_path: Path) -> None:
    pieces = (liger("rms_norm", 33, 33), *(dataclasses.replace(piece, applied=0) for piece in PIECES[1:]))
    step = step_of(advise(audit(liger=pieces), None), "liger")
    assert step is not None
    assert dict(step.change) == {"rope": "liger", "swiglu": "liger", "linear_cross_entropy": "liger"}
    assert "'rms_norm': True, 'rope': True" in step.setting


def test_without_formulas_the_settings_are_there_all_the_same(tmp_path: Path) -> None:
    path = measured_steps(tmp_path / "x.db", {"-": 1.0, "attention=sdpa_flash": 0.8})
    with Store.open(path) as store:
        step = step_of(advise(audit(config={"model_type": "mamba"}), store), "flash_attention")
    assert step is not None
    assert (step.saved_bytes, step.setting) == (None, "from_pretrained(attn_implementation='sdpa')")
