"""Puts together what a training is made of, part by part: where one part cannot be told, the others are."""

from __future__ import annotations

from typing import Any

import torch

from bench.audited import Precision, Steps
from bench.worker.audit import asked
from bench.worker.audit.compiling import describe_compiling
from bench.worker.audit.facts import Facts, device_of
from bench.worker.audit.guard import Notes
from bench.worker.audit.model import adapters, describe_model, gradients, quantized
from bench.worker.audit.optimizers import describe_optimizers
from bench.worker.audit.profiled import attention_kernels, checkpointing, liger_pieces, module_classes
from bench.worker.audit.profiling import Profiling
from bench.worker.audit.sharing import describe_deepspeed, describe_sharing


def describe(facts: Facts, profiling: Profiling, optimizers: list[Any], notes: Notes) -> None:
    """Fills `facts` with all but what is counted to the end."""
    scene, marks, timeline = profiling.scene, profiling.marks, profiling.timeline
    facts.memory = profiling.memory
    with notes.guarded("the device"):
        facts.device = device_of(list(scene.root.parameters()))
    with notes.guarded("the model"):
        facts.model = describe_model(scene)
    with notes.guarded("the training loop"):
        facts.frameworks = asked.frameworks(scene)
        facts.arguments = asked.arguments(scene)
    with notes.guarded("the gradients"):
        facts.gradients = facts.gradients or gradients(scene.root.parameters())
    with notes.guarded("the optimizer"):
        wrapped = next((name for name in ("deepspeed", "accelerate") if name in facts.frameworks), None)
        facts.optimizers = describe_optimizers(optimizers, wrapped)
    with notes.guarded("quantized modules"):
        facts.quantized = quantized(scene)
    with notes.guarded("adapters"):
        facts.adapters = adapters(scene)
    with notes.guarded("sharding"):
        facts.sharding = describe_sharing(scene)
        facts.deepspeed = describe_deepspeed(scene)
    with notes.guarded("modules"):
        facts.modules = module_classes(scene, marks, timeline)
        facts.checkpointing = checkpointing(scene, marks)
        facts.liger = liger_pieces(scene, timeline.kernel_names() if timeline is not None and timeline.cuda else None)
    with notes.guarded("compiling"):
        facts.compiled = describe_compiling(scene, timeline.compiled_calls() if timeline is not None else None)
    with notes.guarded("precision"):
        facts.precision = _precision(profiling)
    if marks is not None and timeline is not None:
        with notes.guarded("attention"):
            facts.attention = attention_kernels(scene, marks, timeline)
        if not marks.watches_modules:
            notes.add("parts of the model are compiled: what happens within them is told by names of kernels and operators alone")
        if not marks.batches:
            notes.add("the model's inputs could not be seen, so neither tokens nor batches of a step are told")
    facts.steps = Steps(0, 0, "", (), (), (), None, None, phases_s=profiling.phases_s)


def _precision(profiling: Profiling) -> Precision:
    marks, timeline = profiling.marks, profiling.timeline
    autocast = sorted(marks.autocast - {"off"}) if marks is not None else []
    return Precision(
        autocast_dtype=autocast[0] if autocast else None,
        matmul_inputs=timeline.matmul_shares() if timeline is not None else {},
        float32_matmul=torch.get_float32_matmul_precision(),
    )
