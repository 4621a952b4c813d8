"""What the settings of a tool leave unsaid though a prediction counts on it: told in words, since a reader would take them for the whole.

A tool that has no field for something may do it in code, or by how it is started; and what it does by itself may need more than predicted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from bench.plan.predict import peak_bytes
from bench.plan.spec import DEFAULTS, ModelSpec, TrainSpec, ZeroOptions
from bench.plan.weights import weights

HELD: Mapping[str, tuple[str, ...]] = {
    "accelerate": ("precision",),
    "deepspeed": ("precision", "optimizer"),
    "torchtune": ("precision", "optimizer", "checkpointing", "adaptation", "linear"),
}
"""Tool to the slots that its settings decide; the Trainer's decide all of them."""
BY_ITSELF: Mapping[str, Mapping[str, str]] = {
    "torchtune": {**DEFAULTS, "attention": "sdpa_flash", "linear_cross_entropy": "chunked"},
}
"""Tool to what fills the slots where nobody says anything; others than these do as `DEFAULTS` have it."""
OWN_UNITS = "1.14"
"""Version of accelerate from which embedding and last layer are units of FSDP2 of their own (`fsdp2_prepare_model`)."""


def differences(tool: str, model: ModelSpec, train: TrainSpec) -> tuple[str, ...]:
    """What the tool does otherwise than the prediction has it, though no setting says so; and what is to be said elsewhere."""
    found = [*_by_the_tool(tool, model, train), *_started(tool, train)]
    if left := _left_to_code(tool, train):
        found.append(
            f"{tool} has no setting for what the prediction counts on besides; where it is to hold, say it in code: {', '.join(left)}"
        )
    return tuple(found)


def loaded_dtype(train: TrainSpec) -> str:
    """Of the weights that training starts from, by torch's name: fp32 under FSDP2 with fp32 copies, 16 bits under DeepSpeed."""
    loaded = "fp32" if train.sharding.startswith("fsdp2") and train.master_bytes else train.numerics.weights
    return {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}[loaded]


def _by_the_tool(tool: str, model: ModelSpec, train: TrainSpec) -> Iterator[str]:
    if tool == "hf" and train.optimizer.endswith("8bit_bnb") and train.adaptation == "full":
        moments = 1 if train.optimizer.startswith("lion") else 2
        more = moments * 3 * model.vocab_size * model.hidden_size
        yield (
            "the Trainer has bitsandbytes keep the states of embeddings in fp32 (GlobalOptimManager, weight of nn.Embedding): "
            f"{more / 2**30:.2f} GiB more than predicted"
        )
    if tool in ("hf", "accelerate") and train.sharding == "ddp":
        learned = sum(weight.total * weight.element_bytes for weight in weights(model, train) if weight.learns)
        yield (
            f"DistributedDataParallel keeps gradients and buckets apart there, {learned / 2**30:.2f} GiB more than predicted, unless "
            "accelerate's DistributedDataParallelKwargs(gradient_as_bucket_view=True) is passed in code"
        )
    if tool in ("hf", "accelerate") and train.sharding.startswith("fsdp2") and not model.tied_embeddings:
        yield _units(model, train)
    if tool == "torchtune" and train.linear_cross_entropy == "liger":
        yield "torchtune takes the loss in chunks with torch's kernels, where the prediction has Liger's"
    if tool == "torchtune" and train.linear == "nf4_bnb":
        double = peak_bytes(model, replace(train, linear="nf4_bnb_double"))
        yield (
            "torchtune takes 4-bit weights of torchao, whose scales are quantized too: with --linear nf4_bnb_double, which is that, "
            f"{double / 2**30:.2f} GiB are predicted"
        )


def _units(model: ModelSpec, train: TrainSpec) -> str:
    """What another version of accelerate than the one of the row's sharding makes units of FSDP."""
    if train.sharding == "fsdp2_root_unit":
        own = peak_bytes(model, replace(train, sharding="fsdp2"))
        return (
            f"accelerate from {OWN_UNITS} on makes embedding and last layer units of their own: with --sharding fsdp2, which is that, "
            f"{own / 2**30:.2f} GiB are predicted"
        )
    root = peak_bytes(model, replace(train, sharding="fsdp2_root_unit"))
    return (
        f"accelerate before {OWN_UNITS} leaves embedding and last layer in FSDP's root unit, whole on each GPU: with --sharding "
        f"fsdp2_root_unit, which is that, {root / 2**30:.2f} GiB are predicted"
    )


def _started(tool: str, train: TrainSpec) -> Iterator[str]:
    """How many processes, where something is shared out or an engine runs; a file of accelerate says it itself."""
    if tool == "accelerate" or train.sharding == "none":
        return
    if tool == "torchtune":
        recipe = "full_finetune_distributed" if train.adaptation == "full" else "lora_finetune_distributed"
        yield f"to be started with a process for each GPU: tune run --nproc_per_node {train.world_size} {recipe} --config FILE"
    else:
        yield f"to be started with a process for each GPU: torchrun --nproc-per-node {train.world_size} SCRIPT"


def _left_to_code(tool: str, train: TrainSpec) -> list[str]:
    """What the settings do not hold, where the tool by itself would do otherwise."""
    if tool not in HELD:
        return []
    held = {*HELD[tool]}
    if tool == "accelerate" and train.sharding.startswith("fsdp2") and train.checkpointing == "full":
        held.add("checkpointing")
    if tool == "torchtune" and train.linear_cross_entropy == "liger":
        held.add("linear_cross_entropy")
    usual = BY_ITSELF.get(tool, DEFAULTS)
    left = [
        f"{slot} {getattr(train, slot)}"
        for slot, by_itself in usual.items()
        if getattr(train, slot) != by_itself and slot not in held
    ]
    return [*left, *_left_beside_slots(tool, train)]


def _left_beside_slots(tool: str, train: TrainSpec) -> Iterator[str]:
    engine = train.sharding.startswith("zero")
    if train.precision == "tf32":
        yield "precision tf32"
    if train.dropout:
        yield f"dropout {train.dropout:g}"
    if tool == "torchtune":
        return
    if train.adaptation == "lora":
        yield f"lora_rank {train.lora_rank}"
    if not (engine and train.master_bytes):
        yield f"weights loaded in {loaded_dtype(train)}"
    yield f"seq_len {train.seq_len}"
    if tool == "accelerate":
        yield f"batch {train.batch}"
    if tool == "accelerate" and not engine:
        yield f"accumulation {train.accumulation}"
        yield f"clip_norm {train.clip_norm:g}"
    if tool == "accelerate" and train.zero != ZeroOptions():
        yield "ZeRO's buckets"
