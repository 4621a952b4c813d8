"""What fits on a GPU of so much memory: of each kind of training the way that is expected to be the fastest of those that fit.

What computes in other numbers, as an optimizer with 8-bit states does, is told beside it where it is expected to be faster, and never in
its place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from bench.plan.costs import MeasuredStep
from bench.plan.devices import gpu_named
from bench.plan.fits import FUSED, OPTIMIZER_TOKENS, Choice, choices, same_training
from bench.plan.moments import Target
from bench.plan.spec import DEFAULTS, TrainSpec, model_named
from bench.report.answers.numerics import OPTIMIZERS
from bench.report.answers.trained import Step, Trained, way_of_plan

CARDS: Mapping[str, str] = MappingProxyType({"24 GB": "rtx-4090", "48 GB": "l40s", "80 GB": "h100", "141 GB": "h200"})
"""Memory as it is sold to the GPU that stands for it: of those of the plan's table one of the smallest."""
KINDS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "all weights, bf16": MappingProxyType({}),
        "all weights, fp32 beside bf16": MappingProxyType({"precision": "bf16_master"}),
        "LoRA": MappingProxyType({"adaptation": "lora"}),
        "QLoRA": MappingProxyType({"adaptation": "lora", "linear": "nf4_bnb"}),
    }
)
"""Kinds of training to what is asked for."""
TOLD = (*FUSED, "checkpointing", "sharding", "offload")


@dataclass(frozen=True, slots=True)
class Fit:
    """The answer for one kind of training."""

    choice: Choice | None
    """None where nothing that is known fits."""
    trained: Trained | None
    """The same way, measured on the GPU of the table's times, whichever card this is."""
    otherwise: Choice | None = None
    """What is expected to be faster, or alone fits, and computes in other numbers than the kind of training asks for."""

    @property
    def switched(self) -> tuple[str, ...]:
        """What is switched on beyond fused kernels, as `bench plan` says it: `checkpointing=full`."""
        return () if self.choice is None else switched_on(self.choice)


def switched_on(choice: Choice) -> tuple[str, ...]:
    """What a way has beyond fused kernels."""
    usual = {**DEFAULTS, **FUSED, "sharding": "none", "offload": "none"}
    train = choice.train
    return tuple(f"{name}={getattr(train, name)}" for name in TOLD if getattr(train, name) != usual[name])


@dataclass(frozen=True, slots=True)
class Card:
    """One line: a model on GPUs of these sizes, which all have the same answers."""

    model: str
    sizes: tuple[str, ...]
    gpus: tuple[str, ...]
    fits: tuple[Fit, ...]
    """In the order of `KINDS`, with the peaks of the last GPU."""


@dataclass(frozen=True, slots=True)
class Cards:
    """The table."""

    seq_len: int
    gpu: str
    """The one that measured what is told as measured."""
    rows: tuple[Card, ...]


def by_memory(models: Sequence[str], seq_len: int, gpu: str, found: Mapping[Step, Trained], steps: Iterable[MeasuredStep]) -> Cards:
    """All models on all cards at one length, a sequence at a time. `steps` on `gpu` are preferred for the order."""
    known = tuple(steps)
    rows: list[Card] = []
    for model in models:
        for size, name in CARDS.items():
            fits = tuple(_fit(model, seq_len, asked, name, gpu, found, known) for asked in KINDS.values())
            last = rows[-1] if rows and rows[-1].model == model else None
            if last is not None and _answers(last.fits) == _answers(fits):
                rows[-1] = Card(model, (*last.sizes, size), (*last.gpus, name), fits)
            else:
                rows.append(Card(model, (size,), (name,), fits))
    return Cards(seq_len, gpu, tuple(rows))


def _answers(fits: Sequence[Fit]) -> list[tuple[bool, tuple[str, ...], tuple[str, ...] | None]]:
    return [(fit.choice is None, fit.switched, None if fit.otherwise is None else switched_on(fit.otherwise)) for fit in fits]


def _fit(
    model: str,
    seq_len: int,
    asked: Mapping[str, str],
    card: str,
    gpu: str,
    found: Mapping[Step, Trained],
    steps: Sequence[MeasuredStep],
) -> Fit:
    device, slots = gpu_named(card), dict[str, Any](asked)
    train = TrainSpec(seq_len=seq_len, attention=FUSED["attention"], **slots)
    target = Target(workspace_bytes=device.workspace_bytes)

    def first(optimizers: Collection[str]) -> Choice | None:
        ways = choices(
            model_named(model), train, device.memory_bytes, most=2, steps=steps, gpu=gpu, target=target, optimizers=optimizers
        )
        return next((way for way in ways[1:] if way.fits and same_training(way.train, train)), None)

    best = first([name for name in OPTIMIZER_TOKENS if name in OPTIMIZERS])
    # Adapters are offered no other optimizers.
    other = None if train.adaptation != "full" else first([name for name in OPTIMIZER_TOKENS if name not in OPTIMIZERS])
    if best is None:
        return Fit(None, None, other)
    measured = found.get(Step(model, seq_len, way_of_plan(best.train)))
    return Fit(best, measured, other if other is not None and other.cost < best.cost else None)
