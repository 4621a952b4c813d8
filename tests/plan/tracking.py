"""Counts live bytes of the workload's own training step: of fake tensors through torch's dispatcher, of real ones through the profiler."""

from __future__ import annotations

import contextlib
import gc
import importlib
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bench.catalogue.shapes import read_models
from bench.plan import TrainSpec
from bench.workloads.precision import NUMERICS
from bench.workloads.train_step import WORKLOAD
from bench.workloads.train_step._assemble import assemble
from bench.workloads.train_step._spec import DecoderShape, TrainStepSpec


class LiveBytes(TorchDispatchMode):
    """Bytes of all storages that operators have made and nobody has let go of, with the highest of each phase."""

    def __init__(self) -> None:
        super().__init__()
        self.live = 0
        self.phase = ""
        self.peaks: dict[str, int] = {}
        self._sizes: dict[int, int] = {}

    def note(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key not in self._sizes and size:
            self._sizes[key] = size
            self.live += size
            self.peaks[self.phase] = max(self.live, self.peaks.get(self.phase, 0))
            weakref.finalize(storage, self._gone, key)

    def _gone(self, key: int) -> None:
        self.live -= self._sizes.pop(key)

    def begin(self, phase: str) -> None:
        self.phase = phase
        self.peaks[phase] = max(self.live, self.peaks.get(phase, 0))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                self.note(tensor)
        return out


def made_step(model: str, train: TrainSpec, layers: int | None = None) -> tuple[Any, dict[str, torch.Tensor]]:
    """The workload's step as `train` describes it, of so many of the model's layers, and inputs."""
    # As the fork server does: collections beside the step need not walk through torch and whatever else tests have imported.
    gc.collect()
    gc.freeze()
    dims = read_models()[model].dims() | ({} if layers is None else {"layers": layers})
    assert (train.sharding, train.offload) == ("none", "none"), "a step of one process that stays in its memory"
    fills = {**WORKLOAD.defaults, **{slot: getattr(train, slot) for slot in WORKLOAD.slots if slot != "offloading"}}
    spec = TrainStepSpec(
        shape=DecoderShape(**{name: dims[name] for name in WORKLOAD.dims}),  # type: ignore[arg-type]
        batch=train.batch,
        seq_len=train.seq_len,
        accumulation=train.accumulation,
        clip_norm=train.clip_norm,
        packing=train.packing,
        documents=None,
        dropout=train.dropout,
        loss_weight=1.0,
        lr=1e-4,
        data_seed=0,
        dtype=NUMERICS[train.precision].compute,
        fills=tuple(sorted(fills.items())),
    )
    implementations = {
        slot: getattr(importlib.import_module(f"bench.workloads.{slot}.{name}"), name) for slot, name in fills.items()
    }
    rows = train.batch * train.accumulation
    inputs = {name: torch.zeros(rows, train.seq_len, dtype=torch.int64) for name in ("input_ids", "labels")}
    inputs["position_ids"] = torch.arange(train.seq_len)[None]
    step = assemble(spec, implementations, 0, torch.device("cpu"))
    # Peaks are those of later steps; the first ones look at their gradients, and fake tensors hold nothing to look at.
    step.first_update.settle()
    return step, inputs


def tracked_peaks(model: str, train: TrainSpec, *, fake: bool = True, layers: int | None = None) -> dict[str, int]:
    """Highest live bytes of each phase in the second step, all that is resident included."""
    with FakeTensorMode() if fake else contextlib.nullcontext():
        step, inputs = made_step(model, train, layers)
        live = LiveBytes()
        for tensor in (*step.model.parameters(), *step.model.buffers(), *step.update.masters, *inputs.values()):
            live.note(tensor)
        with live:
            step.phased(inputs, live.begin)
            step.update.clear_gradients()
            gc.collect()
            live.peaks.clear()
            live.phase = "forward"
            step.phased(inputs, live.begin)
    return live.peaks


def profiled_peak(model: str, train: TrainSpec) -> int:
    """Highest bytes above what is resident, as torch's CPU allocator reports them: without any mode that changes what autograd does."""
    step, inputs = made_step(model, train)
    for _ in range(2):
        step.phased(inputs, lambda phase: None)
    step.update.clear_gradients()
    gc.collect()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        step.phased(inputs, lambda phase: None)
    return max(_running_sums(profile))


def _running_sums(profile: Any) -> Iterator[int]:
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    live = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        yield live
