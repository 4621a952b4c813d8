"""What fits, and what it is expected to cost: combinations by what was measured of them, else by a rule that is written down here.

The rule is a factor of time for each technique: what is computed again by its share of a step's FLOPs (a full second forward is one part in
three more), what is copied by what others have measured. Fused kernels count as 1 although they are faster, since all that is offered has
them. Measured steps take the rule's place where they can be compared (`costs.py`). What changes what is learned (adapters, frozen weights)
comes after everything that does not.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.plan.costs import Costs, MeasuredStep, costs
from bench.plan.moments import Target
from bench.plan.predict import peak_bytes
from bench.plan.rounding import needed_bytes
from bench.plan.spec import ModelSpec, PlanError, TrainSpec

FUSED: Mapping[str, str] = {
    "attention": "sdpa_flash",
    "rms_norm": "liger",
    "rope": "liger",
    "swiglu": "liger",
    "linear_cross_entropy": "liger",
    "optimizer": "adamw_fused",
}
"""Kernels that cost nothing but their packages."""
CHECKPOINT_COST: Mapping[str, float] = {"none": 1.0, "selective": 1.05, "every_second": 7 / 6, "full": 4 / 3, "full_offloaded": 1.4}
OPTIMIZER_COST: Mapping[str, float] = {"adamw_fused": 1.0, "adamw8bit_bnb": 1.02, "adamw8bit_ao": 1.02, "paged_adamw8bit_bnb": 1.1}
ADAPTATION_COST: Mapping[str, float] = {"full": 1.0, "lora": 1.0, "qlora": 1.25}
SHARDING_COST: Mapping[str, float] = {
    "none": 1.0,
    "ddp": 1.0,
    "zero1": 1.0,
    "zero2": 1.02,
    "fsdp2_kept": 1.05,
    "fsdp2": 1.1,
    "fsdp2_root_unit": 1.1,
    "zero3": 1.15,
}
OFFLOAD_COST: Mapping[str, float] = {"none": 1.0, "optimizer": 1.5, "parameters": 2.5}
CONTEXT_STEP = 128
LONGEST = 2**23
"""Tokens beyond which no search goes."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to train with what it is expected to take."""

    train: TrainSpec
    changes: tuple[str, ...]
    """What is switched on beyond what was asked for."""
    peak_bytes: int
    fits: bool
    cost: float
    """Expected time of a step, in steps of everything switched off."""
    measured: MeasuredStep | None
    """What the cost rests on; None for the rule."""
    longest_context: int | None
    """At the same batch; None where not even the shortest fits, or the row is not searched."""
    largest_batch: int | None
    """At the same context."""


def choices(
    model: ModelSpec,
    asked: TrainSpec,
    memory_bytes: int,
    *,
    most: int = 12,
    steps: Iterable[MeasuredStep] = (),
    gpu: str | None = None,
    target: Target | None = None,
) -> tuple[Choice, ...]:
    """What was asked for, then what fits by expected cost, at most so many rows; where nothing fits, the smallest of all.

    `steps` were measured, on whichever GPU; those on `gpu` are preferred.
    """
    plan = _Plan(model, asked, memory_bytes, target or Target())
    first = plan.sized(asked)
    found = []
    for train in _ways(asked):
        with contextlib.suppress(PlanError):  # combinations that cannot be are no answers
            found.append(plan.sized(train))
    expected = costs(steps, model, asked, gpu, [way[0] for way in found], rule_cost)
    others = sorted(found, key=lambda way: (_rank(way[0], asked, expected), way[1]))
    fitting = _undominated([way for way in others if way[2]])
    shown = [first, *(fitting or sorted(others, key=lambda way: way[1])[:3])][:most]
    return tuple(plan.choice(expected, *way) for way in shown)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What all ways have in common."""

    model: ModelSpec
    asked: TrainSpec
    memory_bytes: int
    target: Target

    def sized(self, train: TrainSpec) -> tuple[TrainSpec, int, bool]:
        peak = peak_bytes(self.model, train, self.target)
        return train, peak, needed_bytes(peak) <= self.memory_bytes

    def choice(self, expected: Costs, train: TrainSpec, peak: int, fits: bool) -> Choice:
        def with_context(steps: int) -> int:
            return needed_bytes(peak_bytes(self.model, replace(train, seq_len=steps * CONTEXT_STEP), self.target))

        def with_batch(batch: int) -> int:
            return needed_bytes(peak_bytes(self.model, replace(train, batch=batch), self.target))

        guess = max(1, train.seq_len // CONTEXT_STEP)
        longest = largest(with_context, self.memory_bytes, most=LONGEST // CONTEXT_STEP, guess=guess)
        batch = largest(with_batch, self.memory_bytes, most=max(1, LONGEST // train.seq_len), guess=train.batch)
        context = longest and longest * CONTEXT_STEP
        return Choice(train, _changes(train, self.asked), peak, fits, expected.of(train), expected.step(train), context, batch)


def _undominated(ways: Sequence[tuple[TrainSpec, int, bool]]) -> list[tuple[TrainSpec, int, bool]]:
    """A way that costs more than another and needs no less memory answers no question."""
    kept: list[tuple[TrainSpec, int, bool]] = []
    for way in ways:
        if not kept or way[1] < min(other[1] for other in kept):
            kept.append(way)
    return kept


def _ways(asked: TrainSpec) -> Iterator[TrainSpec]:
    """Raises nothing: what `TrainSpec` refuses is left out."""
    fused = dict(FUSED)
    for slot in ("rms_norm", "rope", "swiglu", "linear_cross_entropy", "attention"):
        if getattr(asked, slot) not in ("eager", "sdpa_math"):
            fused[slot] = getattr(asked, slot)
    if asked.compute_bytes == 4:
        fused["attention"] = "sdpa_efficient"
    several = asked.world_size > 1
    shardings = ("fsdp2", "zero1", "zero2", "zero3") if several else ("none",)
    adaptations = ("full", "lora", "qlora") if asked.adaptation == "full" else ("lora", "qlora")
    for adaptation, sharding, checkpointing, optimizer, offload in itertools.product(
        adaptations, shardings, CHECKPOINT_COST, OPTIMIZER_COST, OFFLOAD_COST
    ):
        if adaptation != "full" and (optimizer != "adamw_fused" or offload != "none"):
            continue  # adapters are small: their states are not what does not fit
        if sharding.startswith("zero") and optimizer != "adamw_fused":
            continue  # DeepSpeed has optimizers of its own
        changed: dict[str, Any] = {
            **fused,
            "optimizer": optimizer,
            "checkpointing": checkpointing,
            "sharding": sharding,
            "offload": offload,
            "adaptation": "full" if adaptation == "full" else "lora",
            "linear": "nf4_bnb" if adaptation == "qlora" else "plain",
        }
        with contextlib.suppress(PlanError):
            yield replace(asked, **changed)


def _rank(train: TrainSpec, asked: TrainSpec, expected: Costs) -> tuple[bool, float, int]:
    return train.adaptation != asked.adaptation or train.linear != asked.linear, expected.of(train), len(_changes(train, asked))


def rule_cost(train: TrainSpec) -> float:
    """The product of the techniques' factors."""
    cost = 1.0
    for _, factor in rule_factors(train):
        cost *= factor
    return cost


def rule_factors(train: TrainSpec) -> tuple[tuple[str, float], ...]:
    """Technique to its factor, of those that have one."""
    adaptation = "full" if train.adaptation == "full" else "lora" if train.linear == "plain" else "qlora"
    return (
        (f"checkpointing {train.checkpointing}", CHECKPOINT_COST[train.checkpointing]),
        (train.optimizer, OPTIMIZER_COST.get(train.optimizer, 1.0)),
        (adaptation, ADAPTATION_COST[adaptation]),
        (train.sharding, SHARDING_COST[train.sharding]),
        (f"offload {train.offload}", OFFLOAD_COST[train.offload]),
    )


def _changes(train: TrainSpec, asked: TrainSpec) -> tuple[str, ...]:
    slots = (*FUSED, "checkpointing", "adaptation", "linear", "sharding", "offload")
    return tuple(f"{slot}={getattr(train, slot)}" for slot in slots if getattr(train, slot) != getattr(asked, slot))


def largest(size: Callable[[int], int], limit: int, *, most: int, guess: int) -> int | None:
    """The largest n up to `most` with size(n) <= limit, for a size that grows with n; None where size(1) is above it."""
    low, low_size = 1, size(1)
    if low_size > limit:
        return None
    high, high_size = min(most, max(2, guess)), size(min(most, max(2, guess)))
    while high_size <= limit:
        low, low_size = high, high_size
        if high == most:
            return most
        high = min(most, high * 4)
        high_size = size(high)
    while high - low > 1:
        straight = low + int((high - low) * (limit - low_size) / (high_size - low_size))
        # A straight line leaves the bracket uneven where size is a curve: every step takes a quarter of it at least.
        middle = min(max(straight, low + max(1, (high - low) // 64)), high - max(1, (high - low) // 4))
        found = size(middle)
        if found <= limit:
            low, low_size = middle, found
        else:
            high, high_size = middle, found
    return low
