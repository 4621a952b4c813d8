"""Runs as one of two ranks, started by torchrun: takes steps in every way that ranks share them, and writes down what each held.

torchrun --nproc-per-node 2 -m tests.workloads.sharded_steps FOLDER
"""

from __future__ import annotations

import dataclasses
import gc
import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from bench.catalogue import load_catalogue
from bench.worker.build import build
from bench.workloads.precision import NUMERICS
from bench.workloads.train_step import WORKLOAD
from bench.workloads.train_step._data import make_batch
from bench.workloads.train_step._learning import part_of
from bench.workloads.train_step._memory import holdings, memory_findings
from bench.workloads.train_step._plain import PlainStep
from bench.workloads.train_step._stability import gradient_findings
from bench.workloads.train_step._witness import proofs
from tests.workloads.training import step_of, training

STEPS = 4
SEED = 3
MODEL_SEED = 7
BUCKETS: dict[str, Any] = {
    "zero_options": "set",
    "zero_reduce_bucket": 100_000,
    "zero_gather_bucket": 100_000,
    "zero_overlap_comm": "default",
    "zero_contiguous_gradients": True,
    "zero_prefetch_bucket": 100_000,
    "zero_persistence_threshold": 0,
}
"""Small enough for a tiny model: DeepSpeed's own would take gigabytes."""

WAYS = ("ddp", "fsdp2", "fsdp2_root_unit", "fsdp2_kept", "zero0", "zero1", "zero2", "zero3")
PRECISIONS = ("fp32", "bf16_master")
MORE: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "ddp accumulates": ("fp32", {"sharding": "ddp"}, {"accumulation": 2}),
    "zero2 accumulates": ("fp32", {"sharding": "zero2"}, {"accumulation": 2}),
    "fsdp2 accumulates": ("fp32", {"sharding": "fsdp2"}, {"accumulation": 2}),
    "zero3 checkpointed": ("fp32", {"sharding": "zero3", "checkpointing": "full"}, {}),
    "fsdp2 checkpointed": ("fp32", {"sharding": "fsdp2", "checkpointing": "full"}, {}),
    "zero2 with adapters": ("bf16_master", {"sharding": "zero2", "adaptation": "lora"}, {}),
    "zero2 with quantized weights": ("bf16_master", {"sharding": "zero2", "adaptation": "lora", "linear": "int8_bnb"}, {}),
    "none": ("fp32", {}, {}),
    "zero0 fp16": ("fp16_master", {"sharding": "zero0"}, {"lr": 1e-4}),
    "zero2 fp16": ("fp16_master", {"sharding": "zero2"}, {"lr": 1e-4}),
    "zero3 fp16": ("fp16_master", {"sharding": "zero3"}, {"lr": 1e-4}),
    "fsdp2 fp16": ("fp16_master", {"sharding": "fsdp2"}, {"lr": 1e-4}),
    "zero1 in autocast": ("bf16_amp", {"sharding": "zero1"}, {}),
    "fsdp2 on the host": ("fp32", {"sharding": "fsdp2", "offloading": "parameters_optimizer_cpu"}, {}),
    "ddp on the host": ("fp32", {"sharding": "ddp", "offloading": "optimizer_cpu"}, {}),
}
"""Name to precision, fills and parameters, beside each way in each precision."""


ALONE: dict[str, tuple[str, dict[str, Any]]] = {
    "alone fp32": ("fp32", {}),
    "alone bf16_master": ("bf16_master", {}),
    "alone accumulates": ("fp32", {"accumulation": 2}),
}
"""Name to precision and parameters of one process that takes the micro-batches of all."""


def cases() -> dict[str, tuple[str, dict[str, str], dict[str, Any]]]:
    """All of them."""
    return {f"{way} {precision}": (precision, {"sharding": way}, {}) for precision in PRECISIONS for way in WAYS} | MORE


def _result(precision: str, fills: dict[str, str], params: dict[str, Any]) -> dict[str, Any]:
    step = step_of(training(precision, fills=fills, **BUCKETS, **params), MODEL_SEED)
    driver = step.driver
    spec = step.spec
    whole: Any = step_of_all(spec, driver.ranks)
    generator = torch.Generator().manual_seed(SEED)
    losses = []
    for _ in range(STEPS):
        batch = make_batch(whole, generator)
        losses.append(driver.mean(step(part_of(batch, driver.rank, driver.ranks))["loss"]))
    found = memory_findings(step)
    held = {cause: sum(tensor.numel() * tensor.element_size() for tensor in tensors) for cause, tensors in holdings(step).items()}
    verdicts = {slot: proof.detail for slot, proof in proofs(step).items() if proof.verdict != "proved"}
    found |= gradient_findings(step)
    return {
        "losses": losses,
        "findings": found,
        "holdings": held,
        "unproved": verdicts,
        "facts": dict(WORKLOAD.facts(spec, _Bound(step))),
    }


def _alone(precision: str, params: dict[str, Any], ranks: int) -> list[float]:
    """Losses of plain PyTorch in one process, over all ranks' micro-batches."""
    case = training(precision, **BUCKETS, **params)
    spec = step_of_all(WORKLOAD.spec(case), ranks)
    adaptation = load_catalogue().implementation("adaptation", "full")
    plain = PlainStep(spec, NUMERICS[precision], adaptation, "adamw", MODEL_SEED, torch.device("cpu"))
    generator = torch.Generator().manual_seed(SEED)
    return [plain(make_batch(spec, generator)) for _ in range(STEPS)]


class _Bound:
    """What `facts` looks at of a bound subject."""

    def __init__(self, step: Any) -> None:
        self.forward = step


def step_of_all(spec: Any, ranks: int) -> Any:
    """The spec of one process that takes all ranks' micro-batches."""
    return dataclasses.replace(spec, accumulation=spec.accumulation * ranks)


OFFLOADED: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    f"{way} {offloading} {optimizer} {precision}": (
        precision,
        {"sharding": way, "offloading": offloading, "optimizer": optimizer},
        {},
    )
    for way, offloading, optimizer, precision in (
        ("zero1", "optimizer_cpu", "adamw_foreach", "fp32"),
        ("zero2", "optimizer_cpu", "adamw_cpu_deepspeed", "bf16_master"),
        ("zero3", "optimizer_cpu", "adamw_foreach", "bf16_master"),
        ("zero3", "parameters_optimizer_cpu", "adamw_cpu_deepspeed", "fp32"),
        ("fsdp2", "parameters_optimizer_cpu", "adamw_foreach", "fp32"),
        ("zero0", "optimizer_cpu", "adamw_foreach", "fp32"),
        ("zero2", "parameters_optimizer_cpu", "adamw_foreach", "fp32"),
        ("fsdp2", "optimizer_cpu", "adamw_foreach", "fp32"),
        ("none", "optimizer_cpu", "adamw_foreach", "fp32"),
        ("zero3", "none", "adamw_foreach", "fp32"),
    )
}


def buckets_left() -> list[int]:
    """How many reduce buckets of stage 3 are alive: with one engine, with a second, without it again, and after a step of the first."""
    bucket = BUCKETS["zero_reduce_bucket"]

    def alive() -> int:
        gc.collect()
        found = (value for value in gc.get_objects() if type(value) is torch.Tensor)
        return len({tensor.untyped_storage().data_ptr() for tensor in found if tensor.numel() == bucket})

    def made() -> Any:
        step = step_of(training("fp32", fills={"sharding": "zero3"}, **BUCKETS), MODEL_SEED)
        step(make_batch(step.spec, torch.Generator().manual_seed(SEED)))
        return step

    first = made()
    counts = [alive()]
    second = made()
    counts.append(alive())
    second.driver.release()
    del second
    counts.append(alive())
    first(make_batch(first.spec, torch.Generator().manual_seed(SEED)))
    return [*counts, alive()]


def _allow_fp16() -> None:
    """DeepSpeed refuses fp16 on most CPUs, which compute in it, only slowly."""
    from deepspeed.accelerator import get_accelerator

    type(get_accelerator()).is_fp16_supported = lambda self: True


def main(what: str, folder: Path) -> None:
    if what == "shared":
        dist.init_process_group("gloo")
        _allow_fp16()
    elif (trouble := build("cpu", "cpu_adam")) is not None:
        sys.exit(trouble)
    found: dict[str, Any] = {}
    for name, (precision, fills, params) in (cases() if what == "shared" else OFFLOADED).items():
        try:
            found[name] = _result(precision, fills, params)
        except Exception as error:  # what a way refuses is looked at by the test, as is what breaks
            found[name] = {"error": f"{type(error).__name__}: {error}"}
        if what == "shared":
            dist.barrier()
    ranks = dist.get_world_size() if what == "shared" else 1
    for name, (precision, params) in ALONE.items():
        found[name] = {"losses": _alone(precision, params, ranks)}
    if what == "offloaded":
        found["buckets left"] = buckets_left()
    (folder / f"{dist.get_rank()}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
