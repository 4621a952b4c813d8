"""What is on is listed part by part: dtypes with their bytes and place, how ranks share, how batches come; and the step by phase."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from bench.audit.listed import switches
from bench.audit.told import audit_lines
from bench.audited import Adapters, Compiled, DeepSpeed, Precision, Quantized, Sharding, ShardingUnit
from tests.audit.seen import MEMORY, MODEL, OPTIMIZER, STEPS, attention, audit, liger, tensors

ENGINE = DeepSpeed(
    {},
    {"zero_stage": 2, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2, "gradient_clipping": 1.0,
     "offload_optimizer_device": "cpu", "offload_param_device": "none", "zero_optimizer_class": "DeepSpeedZeroOptimizer"},
    0,
)  # fmt: skip
LAYERS = ShardingUnit("LlamaDecoderLayer", 16, 60_000_000, root=False)
AWAY = dataclasses.replace(OPTIMIZER, states=(tensors("float32", what="exp_avg", place="cpu"), tensors("uint8", what="state1")))


@pytest.mark.parametrize(
    ("name", "words", "changes"),
    [
        ("weights", "2.30 GiB bfloat16", {}),
        ("gradients", "4.60 GiB float32", {"gradients": (tensors("float32"),)}),
        ("optimizer", "AdamW of torch, foreach", {}),
        ("optimizer states", "4.60 GiB float32 on cpu, 1.15 GiB uint8", {"optimizers": (AWAY,)}),
        ("weights", "2.30 GiB bfloat16", {"model": dataclasses.replace(MODEL, parameters=(tensors(), tensors("float32", 100)))}),
        ("autocast", "bfloat16", {"precision": Precision("bfloat16", {}, "highest")}),
        ("products of", "bfloat16, float32", {"precision": Precision(None, {"float32": 0.3, "bfloat16": 0.66, "float16": 0.04}, None)}),
        ("checkpointing", "0 of 16 layers", {}),
        ("Liger rms_norm", "30 of 33", {"liger": (liger("rms_norm", 30, 33),)}),
        ("quantized bitsandbytes nf4", "112 modules, 512 MiB", {"quantized": (Quantized("bitsandbytes nf4", 112, 10**9, 2**29, True),)}),
        ("peft LoRA", "rank 16 in 32 modules (q_proj)", {"adapters": (Adapters("peft LoRA", 32, (16,), ("q_proj",), 10),)}),
        ("compiled", "Block: 2 graphs, 1 breaks", {"compiled": Compiled(("Block",), 2, 1, (), 3, False)}),
        (
            "DeepSpeed", "ZeRO stage 2, micro-batch 4, accumulation 2, clipping 1.0, states on cpu, by DeepSpeedZeroOptimizer",
            {"deepspeed": ENGINE},
        ),
        (
            "fsdp2 units", "16 × LlamaDecoderLayer; reshard after forward True",
            {"sharding": Sharding("fsdp2", 2, (LAYERS,), options={"reshard_after_forward": True, "param_dtype": None})},
        ),
        ("ddp options", "static graph False", {"sharding": Sharding("ddp", 2, options={"static_graph": False})}),
        ("micro-batches of an update", "1", {}),
        ("batch shapes", "2×4096, 2×512", {"steps": dataclasses.replace(STEPS, batch_shapes=((2, 4096), (2, 512)))}),
        ("data workers", "2", {}),
    ],
)  # fmt: skip
def test_a_part_is_told_with_what_it_is(name: str, words: str, changes: dict[str, Any]) -> None:
    assert switches(audit(**changes))[name] == words


def test_what_was_not_seen_is_not_listed() -> None:
    bare = {
        "gradients": (),
        "optimizers": (),
        "precision": None,
        "checkpointing": None,
        "sharding": None,
        "data": None,
        "model": None,
    }
    assert switches(audit(**bare)).keys() <= {"attention", "compile", "linear", "adaptation", "sharding", "offload",
                                              "batch shapes", "micro-batches of an update"}  # fmt: skip
    assert switches(audit(steps=None)) == {}


def test_the_peak_and_the_time_are_told_by_phase_and_the_allocators_retries_are_counted() -> None:
    steps = dataclasses.replace(STEPS, phases_s={"other": 0.1, "forward": 0.1, "loss": 0.0, "backward": 0.2})
    lines = audit_lines(audit(steps=steps), (), None)
    assert "By phase it is 20.0 GiB in the forward, 30.0 GiB in the backward, 16.0 GiB in the optimizer." in lines
    assert "The allocator holds 31.0 GiB and had to try again 0 times." in lines
    assert "Of a step's time 25 % is in the forward, 50 % is in the backward, 25 % is between them." in lines
    on_cpu = dataclasses.replace(MEMORY, reserved_bytes=None, allocator_retries=None)
    assert not any("allocator" in line for line in audit_lines(audit(memory=on_cpu), (), None))


def test_kernels_are_told_by_name_without_what_their_templates_were_made_with() -> None:
    names = (
        "FlashAttnFunc",
        "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>>",
        "void flash::flash_fwd_kernel<other>",
        "c" * 90,
    )
    kernel = dataclasses.replace(attention("flash_attn2"), names=names)
    text = "\n".join(audit_lines(audit(attention=(kernel,)), (), None))
    assert f"FlashAttnFunc, flash::flash_fwd_kernel, {'c' * 59}… (16 calls, 20 % of the device's time)" in text
