"""Puts together what a training is made of, part by part: where one part cannot be told, the others are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from bench.audited import Audited, Precision, Steps
from bench.worker.audit import asked
from bench.worker.audit.compiling import describe_compiling
from bench.worker.audit.guard import Notes
from bench.worker.audit.model import adapters, describe_model, gradients, quantized
from bench.worker.audit.optimizers import describe_optimizers
from bench.worker.audit.profiled import attention_kernels, checkpointing, liger_pieces, module_classes
from bench.worker.audit.profiling import Profiling
from bench.worker.audit.report import device_of
from bench.worker.audit.scene import class_of
from bench.worker.audit.sharing import describe_deepspeed, describe_sharing


def describe(known: Audited, profiling: Profiling, optimizers: list[Any], notes: Notes) -> Audited:
    """`known` with all but what is counted to the end."""
    scene, marks, timeline = profiling.scene, profiling.marks, profiling.timeline
    known = replace(known, memory=profiling.memory)
    with notes.guarded("the device"):
        known = replace(known, device=device_of(list(scene.root.parameters())))
    with notes.guarded("the model"):
        known = replace(known, model=describe_model(scene))
    if scene.beside:
        others = ", ".join(class_of(module).__name__ for module in scene.beside)
        notes.add(f"of several models that are updated the largest is told; weights, modules and batches of {others} are not")
    with notes.guarded("the training loop"):
        known = replace(known, frameworks=asked.frameworks(scene), asked=asked.arguments(scene))
    with notes.guarded("the gradients"):
        known = replace(known, gradients=known.gradients or gradients(scene.root.parameters()))
    with notes.guarded("the optimizer"):
        wrapped = next((name for name in ("deepspeed", "accelerate") if name in known.frameworks), None)
        known = replace(known, optimizers=describe_optimizers(optimizers, wrapped))
    with notes.guarded("quantized modules"):
        known = replace(known, quantized=quantized(scene))
    with notes.guarded("adapters"):
        known = replace(known, adapters=adapters(scene))
    with notes.guarded("sharding"):
        known = replace(known, sharding=describe_sharing(scene))
        known = replace(known, deepspeed=describe_deepspeed(scene))
    with notes.guarded("modules"):
        known = replace(known, modules=module_classes(scene, marks, timeline))
        known = replace(known, checkpointing=checkpointing(scene, marks))
        kernels = timeline.kernel_names() if timeline is not None and timeline.cuda else None
        known = replace(known, liger=liger_pieces(scene, kernels))
    with notes.guarded("compiling"):
        known = replace(known, compiled=describe_compiling(scene, timeline.compiled_calls() if timeline is not None else None))
    with notes.guarded("precision"):
        known = replace(known, precision=_precision(profiling))
    if marks is not None and timeline is not None:
        with notes.guarded("attention"):
            known = replace(known, attention=attention_kernels(scene, marks, timeline))
        if not marks.watches_modules:
            notes.add("parts of the model are compiled: what happens within them is told by names of kernels and operators alone")
        if not marks.root_called:
            notes.add(
                f"{class_of(scene.root).__name__} holds what is updated and was not called itself: "
                "what its parts do forwards is told as between the phases"
            )
        elif not marks.batches:
            notes.add("the model's inputs could not be seen, so neither tokens nor batches of a step are told")
    return replace(known, steps=Steps(0, 0, "", (), (), (), None, None, phases_s=profiling.phases_s))


def _precision(profiling: Profiling) -> Precision:
    marks, timeline = profiling.marks, profiling.timeline
    autocast = sorted(marks.autocast - {"off"}) if marks is not None else []
    return Precision(
        autocast_dtype=autocast[0] if autocast else None,
        matmul_inputs=timeline.matmul_shares() if timeline is not None else {},
        float32_matmul=torch.get_float32_matmul_precision(),
        autocast_watched=marks is not None and marks.watches_autocast,
    )
