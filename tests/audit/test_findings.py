"""Each finding appears where it should, with its gravity and its words, and does not where all is well or nothing was seen."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from bench.audit.finding import Severity
from bench.audit.findings import findings
from bench.audit.findings.attention import ANSWERS
from bench.audit.findings.sharding import differing
from bench.audit.listed import switches
from bench.audit.recognised import recognise
from bench.audit.whole import put_together
from bench.audited import (
    ATTENTION_KINDS,
    Adapters,
    Audited,
    Cause,
    Checkpointing,
    Compiled,
    Data,
    DeepSpeed,
    Ended,
    Precision,
    Quantized,
    Sharding,
    ShardingUnit,
)
from bench.worker.audit.attention_kinds import _KERNELS, _OPERATORS
from tests.audit.seen import (
    ELEMENTS,
    GIB,
    MEMORY,
    MODEL,
    OPTIMIZER,
    STEPS,
    attention,
    audit,
    found,
    liger,
    report,
    tensors,
)

FINE, LOOK, WRONG = Severity.FINE, Severity.LOOK, Severity.WRONG


def changed(thing: Any, **changes: Any) -> Any:
    return dataclasses.replace(thing, **changes)


def optimizer(**changes: Any) -> dict[str, Any]:
    return {"optimizers": (changed(OPTIMIZER, **changes),)}


def memory(**changes: Any) -> dict[str, Any]:
    return {"memory": changed(MEMORY, **changes)}


def precision(**changes: Any) -> Precision:
    return changed(Precision(autocast_dtype=None, matmul_inputs={"bfloat16": 1.0}, float32_matmul="highest"), **changes)


def data(**changes: Any) -> dict[str, Any]:
    return {"data": changed(Data(wait_share=0.02, workers=2, pin_memory=True, padding_share=0.01), **changes)}


def checkpointing(**changes: Any) -> dict[str, Any]:
    return {"checkpointing": changed(Checkpointing(16, "LlamaDecoderLayer", 0, 0), **changes)}


def weights(*groups: Any, **changes: Any) -> dict[str, Any]:
    return {"model": changed(MODEL, parameters=groups, **changes), "gradients": groups}


FP32 = weights(tensors("float32"))
EIGHT = {
    "class_name": "AdamW", "package": "bitsandbytes", "optimizer_bits": 8, "small_tensor_elements": 4096, "foreach": None, "fused": None,
}  # fmt: skip
DEEPSPEED = DeepSpeed(
    given={"zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"}, "bf16": {"enabled": True}},
    resolved={"zero_stage": 2, "zero": {"reduce_bucket_size": 4096}, "bf16": True},
    skipped_steps=0,
)
LAYERS = ShardingUnit("LlamaDecoderLayer", 16, 60_000_000, root=False)
ROOT = ShardingUnit("LlamaForCausalLM", 1, 262_670_336, root=True)
COMPILED = Compiled(("LlamaForCausalLM",), graphs=1, graph_breaks=0, break_reasons=(), ran=3, recompiled_while_timed=False)
NF4 = Quantized("bitsandbytes nf4", 112, 973_078_528, 547_356_672, double_quantized=True, compute_dtype="bfloat16")
LORA = Adapters("peft LoRA", 32, (16,), ("q_proj", "v_proj"), 3_407_872)

CASES: dict[str, tuple[str, dict[str, Any], Severity, str]] = {
    "flash as asked": (
        "attention", {"config": {"attn_implementation": "flash_attention_2"}, "attention": (attention("flash_attn2"),)}, FINE,
        "flash_attention_2 requested, 16 of 16 layers ran it",
    ),
    "flash asked, eager ran": (
        "attention", {"config": {"attn_implementation": "flash_attention_2"}}, WRONG, "16 of 16 layers ran something else",
    ),
    "sdpa asked, weights wanted": (
        "attention", {"config": {"attn_implementation": "sdpa", "output_attentions": True}}, WRONG, "output_attentions needs",
    ),
    "some layers otherwise": (
        "attention",
        {"config": {"attn_implementation": "sdpa"}, "attention": (attention("sdpa_flash", modules=12), attention("eager", modules=4))},
        WRONG, "4 of 16 layers ran something else",
    ),
    "sdpa chose its plain path": (
        "attention_without_a_fused_kernel",
        {"config": {"attn_implementation": "sdpa"}, "attention": (attention("sdpa_math"),)}, LOOK, "grow with the square",
    ),
    "liger in": ("liger_rms_norm", {"liger": (liger("rms_norm", 33, 33),)}, FINE, "in 33 of 33 places, its kernels ran"),
    "liger not patched": (
        "liger_rms_norm", {"asked": {"use_liger_kernel": True}, "liger": (liger("rms_norm", 0, 33),)}, WRONG,
        "Liger rms_norm not applied: model class not patched",
    ),
    "liger in and not called": ("liger_rope", {"liger": (liger("rope", 1, 1, ran=False),)}, WRONG, "none of its kernels ran"),
    "liger in part": ("liger_rms_norm", {"liger": (liger("rms_norm", 30, 33),)}, LOOK, "in 30 of 33 places"),
    "liger without a place": ("liger", {"asked": {"use_liger_kernel": True}}, WRONG, "no place"),
    "fp32 without autocast": (
        "precision", {**FP32, "precision": precision(matmul_inputs={"float32": 1.0})}, LOOK, "autocast is off",
    ),
    "bf16 asked and not on": (
        "precision", {**FP32, "asked": {"bf16": True}, "precision": precision(matmul_inputs={"float32": 1.0})}, WRONG, "without autocast",
    ),
    "bf16 configured and not kept": (
        "precision", {**FP32, "config": {"dtype": "bfloat16"}, "precision": precision(matmul_inputs={"float32": 1.0})}, WRONG,
        "configuration says bfloat16, and its weights are fp32",
    ),
    "bf16 configured and kept": ("precision", {"config": {"dtype": "bfloat16"}}, FINE, "in the dtype of the weights"),
    "autocast": ("precision", {**FP32, "precision": precision(autocast_dtype="bfloat16")}, FINE, "autocast computes in bfloat16"),
    "tf32 off": ("tf32_off", {**FP32, "precision": precision(matmul_inputs={"float32": 1.0})}, LOOK, "TF32 is off"),
    "updates of 16 bits": ("updated_in_16_bits", {}, LOOK, "lost"),
    "scaler overflows": (
        "skipped_steps", {"precision": precision(scaler_scale=1.0, scaler_skipped=15)}, WRONG, "left out 15 of 20 updates",
    ),
    "scaler skips more than it lets through": (
        "skipped_steps", {"precision": precision(scaler_scale=1.0, scaler_skipped=38, scaler_asked=58)}, WRONG, "left out 38 of 58 updates",
    ),
    "scaler begins": ("skipped_steps", {"precision": precision(scaler_scale=2.0, scaler_skipped=3)}, LOOK, "left out 3 of 20"),
    "scaler well": ("skipped_steps", {"precision": precision(scaler_scale=2.0, scaler_skipped=0)}, FINE, "left out 0 of 20"),
    "no scaler": ("no_scaler", {**FP32, "precision": precision(autocast_dtype="float16")}, WRONG, "without a GradScaler"),
    "optim as asked": ("optimizer", {"asked": {"optim": "adamw_torch"}}, FINE, "AdamW of torch, foreach runs"),
    "fused asked": ("optimizer", {"asked": {"optim": "adamw_torch_fused"}}, WRONG, "no a fused update"),
    "8 bits asked": ("optimizer", {"asked": {"optim": "paged_adamw_8bit"}}, WRONG, "no 8-bit states and no pages"),
    "foreach at the peak": (
        "foreach_copy", memory(phase="optimizer", causes=(Cause("parameters", 15 * GIB), Cause("temporaries", 15 * GIB))), LOOK,
        "AdamW foreach keeps a second copy at the step: 15.0 GiB",
    ),
    "foreach near the peak": (
        "foreach_copy", memory(phase_peaks={"backward": 30 * GIB, "optimizer": 29 * GIB}), LOOK, "comes near the peak",
    ),
    "8 bits of which many are 32": (
        "eight_bit_states",
        optimizer(**EIGHT, states=(tensors("uint8", 800, what="state1"), tensors("float32", 200, what="state1"))), LOOK, "20 % of them",
    ),
    "8 bits of which none": (
        "eight_bit_states", optimizer(**EIGHT, states=(tensors("float32", what="state1"),)), WRONG, "all of them are 32-bit",
    ),
    "8 bits": ("eight_bit_states", optimizer(**EIGHT, states=(tensors("uint8", what="state1"),)), FINE, "keeps 8-bit states"),
    "pages without a driver": ("paged_states", optimizer(paged=True), LOOK, "pages do nothing here"),
    "wide states": (
        "wide_states",
        optimizer(states=(tensors("float32", what="exp_avg"), tensors("float32", what="exp_avg_sq"))) | memory(peak_bytes=20 * GIB),
        LOOK, "of the peak",
    ),
    "numbers that nobody updates": ("not_updated", optimizer(elements=ELEMENTS - 1000), LOOK, "1000 numbers"),
    "checkpointing lies": (
        "checkpointing", {"asked": {"gradient_checkpointing": True}} | checkpointing(), WRONG, "0 of 16 layers (LlamaDecoderLayer)",
    ),
    "checkpointing of all": ("checkpointing", checkpointing(recomputed=16, enabled=16, reentrant=False), FINE, "all 16 layers"),
    "checkpointing of some": ("checkpointing", checkpointing(recomputed=8), LOOK, "8 of 16 layers"),
    "checkpointing unseen": ("checkpointing", checkpointing(recomputed=None, enabled=16), LOOK, "could not be watched"),
    "reentrant": ("reentrant_checkpointing", checkpointing(recomputed=16, reentrant=True), LOOK, "reentrant"),
    "padding": ("padding", data(padding_share=0.43), LOOK, "padding share 43 %"),
    "little padding": ("padding", data(padding_share=0.04), FINE, "padding share 4.0 %"),
    "waiting for data": ("data_loader", data(wait_share=0.25, workers=0), LOOK, "waits for data 25 % of the time"),
    "not waiting": ("data_loader", data(), FINE, "waits for data 2.0 %"),
    "pageable batches": ("pin_memory", data(pin_memory=False), LOOK, "pinned"),
    "compiled": ("compile", {"compiled": COMPILED}, FINE, "compiled without a graph break"),
    "compiled function": ("compile", {"compiled": changed(COMPILED, modules=())}, FINE, "a function is compiled without"),
    "compile asked": ("compile", {"asked": {"torch_compile": True}}, WRONG, "no compiled code ran"),
    "compiled and never run": ("compile", {"compiled": changed(COMPILED, ran=0)}, WRONG, "no compiled code ran"),
    "graph breaks": (
        "compile", {"compiled": changed(COMPILED, graph_breaks=2, break_reasons=("call to print",))}, LOOK, "2 graph breaks: call to print",
    ),
    "compiles on": ("recompiles", {"compiled": changed(COMPILED, recompiled_while_timed=True)}, LOOK, "compiled again"),
    "deepspeed as given": ("deepspeed", {"deepspeed": DEEPSPEED}, FINE, "auto became zero_optimization.reduce_bucket_size = 4096"),
    "deepspeed otherwise": (
        "deepspeed", {"deepspeed": changed(DEEPSPEED, resolved={"zero_stage": 3})}, LOOK, "zero_optimization.stage 2 became 3",
    ),
    "deepspeed shares nothing": (
        "deepspeed_stage_0", {"deepspeed": changed(DEEPSPEED, given={"zero_optimization": {"stage": 0}}, resolved={"zero_stage": 0})}, LOOK,
        "shares nothing",
    ),
    "deepspeed overflows": ("skipped_steps", {"deepspeed": changed(DEEPSPEED, skipped_steps=12)}, WRONG, "left out 12 of 20"),
    "fsdp of one unit": ("fsdp_units", {"sharding": Sharding("fsdp2", 2, (ROOT,))}, WRONG, "one unit, the whole model"),
    "fsdp of layers": ("fsdp_units", {"sharding": Sharding("fsdp2", 2, (LAYERS,))}, FINE, "16 × LlamaDecoderLayer"),
    "embedding in the root": (
        "fsdp_root_unit", {"sharding": Sharding("fsdp2", 2, (LAYERS, ROOT), ("model.embed_tokens.weight",))}, LOOK,
        "root unit holds model.embed_tokens.weight",
    ),
    "gradients twice": (
        "ddp_buckets", {"sharding": Sharding("ddp", 2, options={"gradient_as_bucket_view": False})}, LOOK, "gradients twice",
    ),
    "unused parameters": (
        "ddp_unused_parameters", {"sharding": Sharding("ddp", 2, options={"find_unused_parameters": True})}, LOOK, "unused",
    ),
    "nf4": ("quantized", {"quantized": (NF4,)}, FINE, "112 modules are bitsandbytes nf4: 522 MiB, 4.5 bits a number, scales quantized too"),
    "nothing quantized": (
        "quantized", {"config": {"quantization": {"load_in_4bit": True}}}, WRONG, "load_in_4bit is in the model's configuration",
    ),
    "nf4 computes wide": ("quantized_compute_dtype", {"quantized": (changed(NF4, compute_dtype="float32"),)}, LOOK, "compute in fp32"),
    "adapters": (
        "adapters", {"adapters": (LORA,), "model": changed(MODEL, trained_elements=3_407_872)}, FINE,
        "peft LoRA in 32 modules (q_proj, v_proj)",
    ),
    "adapters and all else": ("adapters", {"adapters": (LORA,)}, LOOK, "is trained beside them"),
    "the peak": ("peak", {}, FINE, "the peak of 30.0 GiB lies in the backward; 60 % of it is what is kept"),
    "retries": ("allocator_retries", memory(allocator_retries=3), LOOK, "emptied its cache 3 times"),
    "refusals": ("out_of_memory", memory(out_of_memories=2), LOOK, "2 refusals"),
    "fragments": ("reserved_memory", memory(reserved_bytes=40 * GIB), LOOK, "holds 10.0 GiB more"),
    "loading is higher": ("peak_before_the_steps", memory(since_start_bytes=40 * GIB), LOOK, "40.0 GiB against 30.0 GiB"),
    "pinned": ("pinned_memory", memory(pinned_bytes=GIB), FINE, "1.00 GiB of host memory"),
    "raised": ("ending", {"ended": Ended("raised", "ValueError", "no such file")}, WRONG, "(ValueError: no such file)"),
    "out of memory": ("ending", {"ended": Ended("raised", "OutOfMemoryError", "2 GiB", out_of_memory=True)}, WRONG, "ran out of memory"),
    "interrupted": ("ending", {"ended": Ended("interrupted")}, WRONG, "was interrupted"),
    "died": ("ending", {"ended": Ended("running")}, WRONG, "died without a word; the command ended with exit status 0"),
    "too short": ("no_timed_step", {"steps": changed(STEPS, seen=1, timed_s=())}, LOOK, "ended after 1 update,"),
    "died early": (
        "no_timed_step", {"steps": changed(STEPS, seen=4, timed_s=()), "ended": Ended("running")}, LOOK, "last heard of after 4 updates",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_finding_appears_with_its_gravity_and_its_words(case: str) -> None:
    name, changes, severity, words = CASES[case]
    one = found(name, **changes)
    assert one is not None
    assert (one.severity, words in one.text) == (severity, True), one
    assert all(value is None or isinstance(value, int | float | str) for value in one.evidence.values())


ONLY_WHERE_SOMETHING_IS = sorted(
    {name for name, *_ in CASES.values()} - {"attention", "precision", "updated_in_16_bits", "padding", "data_loader", "peak"}
)


@pytest.mark.parametrize("name", ONLY_WHERE_SOMETHING_IS)
def test_it_does_not_where_all_is_well(name: str) -> None:
    assert found(name) is None


QUIET: dict[str, dict[str, Any]] = {
    "attention": {"attention": ()},
    "precision": {"precision": None},
    "updated_in_16_bits": FP32,
    "padding": data(padding_share=None),
    "data_loader": data(wait_share=None),
    "peak": {"memory": None},
}


@pytest.mark.parametrize("name", QUIET)
def test_what_was_not_seen_is_not_judged(name: str) -> None:
    assert found(name, **QUIET[name]) is None


def test_the_fused_loss_makes_the_other_loss_no_missing_piece() -> None:
    pieces = (liger("fused_linear_cross_entropy", 1, 1), liger("cross_entropy", 0, 1))
    assert found("liger_cross_entropy", liger=pieces) is None
    assert found("liger_fused_linear_cross_entropy", liger=pieces) is not None


def test_a_flag_in_pinned_memory_is_not_worth_a_word() -> None:
    assert found("pinned_memory", **memory(pinned_bytes=12)) is None


def test_a_dtype_of_next_to_no_weights_is_not_named() -> None:
    one = found("precision", **weights(tensors("bfloat16", 10**9), tensors("float32", 10**5)))
    assert one is not None
    assert one.text.endswith("weights are kept in 100 % bfloat16")


def test_a_master_copy_quiets_the_warning_of_lost_updates() -> None:
    master = changed(OPTIMIZER, states=(*OPTIMIZER.states, tensors("float32", what="master_param")))
    assert found("updated_in_16_bits", optimizers=(master,)) is None


def test_nobody_is_told_to_take_8_bit_states_that_there_are_not() -> None:
    wide = {"states": (tensors("float32"), tensors("float32")), "foreach": None}
    told = [found("wide_states", **optimizer(class_name=name, **wide)) for name in ("AdamW", "LBFGS")]
    assert [one is not None and one.advice is not None for one in told] == [True, False]


def test_a_fused_optimizer_has_no_second_copy() -> None:
    near = memory(phase_peaks={"backward": 30 * GIB, "optimizer": 29 * GIB})
    assert found("foreach_copy", **near, **optimizer(fused=True, foreach=False)) is None


def test_settings_that_only_look_otherwise_are_the_same() -> None:
    given = {"gradient_clipping": 1, "bf16": {"enabled": "True"}, "unknown": 3}
    assert differing(given, {"gradient_clipping": 1.0, "bf16": True}) == ({}, {})


def test_of_a_forward_that_nobody_watched_no_precision_is_told() -> None:
    unwatched = precision(matmul_inputs={}, autocast_watched=False)
    asked_for = {**FP32, "asked": {"bf16": True}}
    assert found("precision", **asked_for, precision=unwatched) is None
    told = audit(report(**asked_for, precision=unwatched))
    assert "autocast" not in switches(told)
    assert "precision" not in recognise(told).filled


def test_a_compiled_function_is_no_compiled_layer_and_flex_attention_compiles_itself() -> None:
    by_function = changed(COMPILED, modules=())
    assert "compile" in recognise(audit(compiled=by_function)).doubts
    assert recognise(audit(compiled=by_function, attention=(attention("flex"),))).filled["compile"] == "none"


UNTRAINED: dict[str, tuple[Severity, str, dict[str, Any]]] = {
    "no_update": (WRONG, "no torch optimizer made a step", {"steps": None, "ended": Ended("finished")}),
}
SKIPPED_ALL = Precision(None, {}, None, scaler_scale=1.0, scaler_skipped=9, scaler_asked=9)


@pytest.mark.parametrize("name", UNTRAINED)
def test_without_an_update_only_the_ending_is_told(name: str) -> None:
    severity, words, changes = UNTRAINED[name]
    (one,) = findings(audit(report(**changes)))
    assert (one.name, one.severity, words in one.text) == (name, severity, True)
    assert found(name) is None


def test_of_two_ranks_that_failed_the_first_to_do_so_is_told() -> None:
    follows = report(ended=Ended("raised", "RuntimeError", "connection closed by peer", at_s=20.0), world_size=2)
    one = found("ending", follows, report(ended=Ended("raised", "ValueError", "spoilt", at_s=19.0), rank=1, world_size=2))
    assert one is not None
    assert one.text == "the script failed by itself on rank 1 (ValueError: spoilt)"


def test_where_the_scaler_left_out_all_updates_it_is_told() -> None:
    (one,) = findings(audit(report(steps=None, ended=Ended("finished"), precision=SKIPPED_ALL)))
    assert "the scaler left out all 9" in one.text


def test_a_command_without_python_is_told_as_one() -> None:
    told = findings(put_together([], command="true", status=3, ended="exit status 3", steps_asked=20))
    assert [one.name for one in told] == ["ending", "no_update"]
    assert told[0].text == "the command ended with exit status 3"


def test_of_ranks_that_failed_before_an_update_their_own_error_is_told_and_not_the_launchers() -> None:
    launcher = report(steps=None, ended=Ended("raised", "ChildFailedError", "====="), script="torchrun")
    rank = report(steps=None, ended=Ended("raised", "ValueError", "no such file"), launched_by=("torchrun",), world_size=2)
    one = found("ending", launcher, rank)
    assert one is not None
    assert "(ValueError: no such file)" in one.text


PAIR = report(world_size=2), report(rank=1, world_size=2)
RANKED: dict[str, tuple[Severity, str, tuple[Audited, ...], tuple[Audited, ...]]] = {
    "uneven_ranks": (LOOK, "rank 1 needs 40.0 GiB", (PAIR[0], changed(PAIR[1], **memory(peak_bytes=40 * GIB))), PAIR),
    "uneven_data": (LOOK, "rank 1 waits", (PAIR[0], changed(PAIR[1], **data(wait_share=0.5))), PAIR),
    "silent_ranks": (WRONG, "ranks 1 left", PAIR[:1], PAIR),
    "several_trainings": (LOOK, "made 2 trainings", (report(steps=changed(STEPS, seen=9)), report()), (report(),)),
}
"""Name, then its gravity and words, the reports that show it, and those that do not."""


@pytest.mark.parametrize("name", RANKED)
def test_what_several_reports_show_together_is_told(name: str) -> None:
    severity, words, showing, quiet = RANKED[name]
    one = found(name, *showing)
    assert one is not None
    assert (one.severity, words in one.text) == (severity, True), one
    assert found(name, *quiet) is None


def test_of_several_trainings_the_longest_is_told() -> None:
    short = report(steps=changed(STEPS, seen=9))
    made = audit(short, report())
    assert made.steps is not None
    assert made.steps.seen == 20


def test_the_gravest_comes_first() -> None:
    severities = [one.severity for one in findings(audit(**data(padding_share=0.5), asked={"torch_compile": True}))]
    assert severities == sorted(severities, key=[WRONG, LOOK, FINE].index)


def test_the_peak_names_every_cause_in_its_evidence() -> None:
    one = found("peak", **memory(causes=(Cause("gradients", 30 * GIB),)))
    assert one is not None
    assert one.evidence["gradients_bytes"] == 30 * GIB


def test_no_config_is_needed() -> None:
    assert (
        findings(
            audit(
                model=None, optimizers=(), precision=None, attention=(), checkpointing=None, sharding=None, data=None, memory=None
            )
        )
        == ()
    )


def test_answers_are_kinds_that_a_probe_tells() -> None:
    told = {kind for kinds in ANSWERS.values() for kind in kinds}
    assert told <= ATTENTION_KINDS.keys()
    assert {kind for kind, _ in (*_OPERATORS, *_KERNELS)} <= ATTENTION_KINDS.keys()
