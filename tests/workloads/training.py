"""Tiny cases of a training step, filled as told and by default otherwise."""

from __future__ import annotations

from typing import Any

import torch

from bench.catalogue import load_catalogue
from bench.records import Case, Pass
from bench.workloads.precision import NUMERICS
from bench.workloads.train_step import WORKLOAD
from bench.workloads.train_step._assemble import assemble
from bench.workloads.train_step._data import make_batch
from bench.workloads.train_step._step import TrainingStep

SHAPE = {
    "architecture": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "layers": 2,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 16,
    "vocab_size": 256,
    "tied_embeddings": False,
    "norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position": 4096,
    "sliding_window": None,
    "rope_factor": None,
}


def training(precision: str = "fp32", *, fills: dict[str, str] | None = None, **params: Any) -> Case:
    """A step of a two-layer Llama on two sequences of 16 tokens; `params` are of the workload or of the shape."""
    values: dict[str, Any] = {param.name: param.default for param in WORKLOAD.params if param.only_where is None}
    values |= {"model": "tiny", **SHAPE, "seq_len": 16, "batch": 2, **params}
    if values["packing"] == "packed":
        values.setdefault("documents", 3)
    return Case(
        workload=WORKLOAD.name,
        workload_version=WORKLOAD.version,
        subject={**WORKLOAD.defaults, **(fills or {}), "precision": precision},
        pass_=Pass.STEP,
        dtype=NUMERICS[precision].compute,
        device="cpu",
        cache="warm",
        timer="wall",
        params=values,
    )


def step_of(case: Case, seed: int = 7) -> TrainingStep:
    """The step of a case, made without a worker, in one thread as in a trial."""
    torch.set_num_threads(1)
    catalogue = load_catalogue()
    implementations = {slot: catalogue.implementation(slot, name) for slot, name in case.subject.items()}
    return assemble(WORKLOAD.spec(case), implementations, seed, torch.device("cpu"))


def losses(step: TrainingStep, steps: int, seed: int = 3) -> list[float]:
    """Of that many steps, each on a batch of its own."""
    generator = torch.Generator().manual_seed(seed)
    return [float(step(make_batch(step.spec, generator))["loss"]) for _ in range(steps)]
