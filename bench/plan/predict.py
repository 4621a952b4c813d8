"""From a model and a way to train it to the peak: the entries of the memory model, and what each prediction leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from bench.plan.moments import Step, Target
from bench.plan.sources import strange_versions
from bench.plan.spec import ZERO_STAGES, ModelSpec, PlanError, TrainSpec, ZeroOptions
from bench.plan.terms import Prediction

OFFLOAD_OF_SLOT: Mapping[str, str] = {
    "none": "none",
    "optimizer_cpu": "optimizer",
    "optimizer_cpu_ao": "optimizer_ao",
    "optimizer_nvme": "optimizer_nvme",
    "parameters_optimizer_cpu": "parameters",
}
"""What fills the slot `offloading` to the word of the plan."""
UNKNOWN_WORKSPACES: Mapping[str, str] = {
    "sdpa_cudnn": "workspaces of cuDNN's attention",
    "flash_attn4": "fp32 sums of FlashAttention-4's backward",
    "flex": "buffers of the kernels that inductor generates for FlexAttention",
    "sdpa_efficient": "workspaces of the memory-efficient kernel's backward",
}
"""Attention to what of it has no formula here."""


def predict(case_params: Mapping[str, Any], subject: Mapping[str, str], target: Target | None = None) -> Prediction:
    """Of a case of the workload `train_step`, from its parameters (and `world_size`) and what fills its slots. Raises PlanError."""
    return predict_step(*specs(case_params, subject), target)


def model_of(case_params: Mapping[str, Any]) -> ModelSpec:
    """What such a case trains. Raises PlanError, and TypeError where a size is missing."""
    sizes = {field.name: case_params[field.name] for field in fields(ModelSpec) if field.name in case_params}
    return ModelSpec(**{"name": str(case_params.get("model") or "model"), **sizes})


def specs(case_params: Mapping[str, Any], subject: Mapping[str, str]) -> tuple[ModelSpec, TrainSpec]:
    """The same, and how. Raises them as well."""
    model = model_of(case_params)
    known = {field.name for field in fields(TrainSpec)}
    said = {name: value for name, value in case_params.items() if name in known and value is not None}
    if case_params.get("zero_options", "defaults") != "defaults":
        said["zero"] = ZeroOptions(**{field.name: case_params[f"zero_{field.name}"] for field in fields(ZeroOptions)})
    subject = dict(subject)
    offloading = subject.pop("offloading", "none")
    if offloading not in OFFLOAD_OF_SLOT:
        raise PlanError(f"offloading: the memory model has no formulas for {offloading!r}; it has {', '.join(OFFLOAD_OF_SLOT)}")
    subject["offload"] = OFFLOAD_OF_SLOT[offloading]
    unknown = sorted(set(subject) - known)
    if unknown:
        raise PlanError(f"the memory model knows no slot {', '.join(unknown)}")
    return model, TrainSpec(**{**said, **subject})


def predict_step(model: ModelSpec, train: TrainSpec, target: Target | None = None) -> Prediction:
    """The peak of one step on one GPU. Raises PlanError for what cannot be, or has no formulas."""
    step = Step(model, train, target or Target())
    return Prediction(step.moments(), step.away, _notes(model, train))


def peak_bytes(model: ModelSpec, train: TrainSpec, target: Target | None = None) -> int:
    """The peak alone, for searches: no terms are made for it."""
    return Step(model, train, target or Target()).highest_bytes()


def _notes(model: ModelSpec, train: TrainSpec) -> tuple[str, ...]:
    notes = list(strange_versions(train))
    if train.attention in UNKNOWN_WORKSPACES:
        notes.append(f"not in it: {UNKNOWN_WORKSPACES[train.attention]}")
    if train.linear_cross_entropy == "liger":
        notes.append("Liger's loss is taken to hold one buffer of logits a chunk, as the source of 0.8 reads")
    notes += _notes_of_sharding(train)
    if train.offload != "none":
        notes.append("host memory is that of a step; a model that each process loads whole before it is shared comes on top")
    if train.linear != "plain":
        notes.append(
            "the other weights stay as they are; PEFT's prepare_model_for_kbit_training would keep embedding and last layer in fp32"
        )
    if train.optimizer.startswith("paged"):
        notes.append("paged states count as host memory, wherever their pages are")
    if train.optimizer == "adafactor":
        notes.append("the update's temporaries of Adafactor are taken as two copies of the largest tensor")
    if model.sliding_window is not None and model.sliding_window < train.seq_len and train.attention != "eager":
        notes.append("the mask of a sliding window, which SDPA gets as a matrix, is not in it")
    return tuple(notes)


def _notes_of_sharding(train: TrainSpec) -> tuple[str, ...]:
    if train.sharding == "none":
        return ()
    if train.world_size == 1:
        found = [f"{train.sharding} on one GPU shares nothing out: this is what it takes by itself (--world-size for several)"]
    else:
        found = [
            f"{train.sharding}: buffers as the library's source has them, of the GPU that needs most; NCCL's own memory is not in it"
        ]
    if train.sharding in ZERO_STAGES:
        bucket = train.zero.reduce_bucket
        size = bucket * train.weight_bytes / 2**30
        missing = "; not in it: the copy of a bucket in which two shares meet" if train.sharding == "zero1" else ""
        found.append(f"buckets hold {bucket / 1e6:g} million weights, so {size:.2f} GiB each, whatever the model's size{missing}")
    return tuple(found)
