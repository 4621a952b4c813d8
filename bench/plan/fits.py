"""What fits, and what it is expected to cost: combinations by what was measured of them, else by a rule that is written down here.

The rule is a factor of time for what is computed again, by its share of a step's FLOPs (a full second forward is one part in three more),
and for what is sent. What is done once a step or once a micro-batch, however many tokens there are, is added: it takes a time that grows
with the model as the time of a token does, so it is told in tokens, as steps of a 1B and an 8B model took them on an H200 beside 16 cores,
and weighs less the more tokens there are. Fused kernels count as 1 although they are faster, since all that is offered has them. Measured
steps take the rule's place where they can be compared (`costs.py`). What changes what is learned comes after everything that does not.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from bench.plan.alike import Alike
from bench.plan.costs import Costs, MeasuredStep, costs
from bench.plan.devices import Host
from bench.plan.moments import Step, Target
from bench.plan.rounding import host_needed_bytes, needed_bytes
from bench.plan.spec import ZERO_STAGES, ModelSpec, PlanError, TrainSpec
from bench.plan.terms import DISK, HOST, PINNED, away_bytes

FUSED: Mapping[str, str] = {
    "attention": "sdpa_flash",
    "rms_norm": "liger",
    "rope": "liger",
    "swiglu": "liger",
    "linear_cross_entropy": "liger",
    "optimizer": "adamw_fused",
}
"""Kernels that cost nothing but their packages."""
PLAIN_KERNELS = frozenset({"eager", "sdpa_math", "adamw_foreach", "adamw_forloop"})
"""What fills these slots and takes longer than what is fused, by a time that the rule does not have."""
CHECKPOINT_COST: Mapping[str, float] = {"none": 1.0, "selective": 1.05, "every_second": 7 / 6, "full": 4 / 3, "full_offloaded": 1.4}
OPTIMIZER_TOKENS: Mapping[str, int] = {"adamw_fused": 0, "adamw8bit_bnb": 1400, "adamw8bit_ao": 1400, "paged_adamw8bit_bnb": 1600}
"""Tokens in whose time an update of all weights is slower than torch's fused one; torchao's as bitsandbytes', which was measured."""
FOUR_BIT_TOKENS = 650
"""In whose time frozen weights are unpacked once: for the forward and the backward of a micro-batch, and to compute it again."""
SHARDING_COST: Mapping[str, float] = {
    "none": 1.0,
    "ddp": 1.0,
    "zero0": 1.0,
    "zero1": 1.0,
    "zero2": 1.02,
    "fsdp2_kept": 1.05,
    "fsdp2": 1.1,
    "fsdp2_root_unit": 1.1,
    "zero3": 1.15,
}
OFFLOAD_TOKENS: Mapping[str, int] = {
    "none": 0, "optimizer": 24_000, "optimizer_ao": 7_000, "optimizer_nvme": 340_000, "parameters": 24_000
}  # fmt: skip
"""In whose time all weights are updated on the host, with the way there and back; through files 14 times as long, as one small model took
it with one disk."""
BESIDES_TOKENS = 300
"""In whose time a step of a few tokens is done: weights are read, and torch's fused update runs; by their bytes and the bandwidth."""
CARRYING_TOKENS = 6_000
"""In whose time offloaded weights come to the GPU twice in a micro-batch: 4 bytes each over PCIe 5; not measured."""
ALONE = (("none", "none"), ("none", "optimizer_ao"), ("zero2", "optimizer"), ("zero3", "parameters"), ("fsdp2", "parameters"))
"""Sharding and offload that one GPU is offered: an engine only for what it moves."""
TOGETHER = tuple(itertools.product(("fsdp2", *ZERO_STAGES), ("none", "optimizer", "parameters")))
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
    host_bytes: int
    """In the host's memory, for each GPU."""
    pinned_bytes: int
    """The part of it that is page-locked."""
    disk_bytes: int
    """In files, for each GPU."""
    fits: bool
    """Into the GPU's memory, and into the host's where that is known."""
    cost: float
    """Expected time of a step, in steps with fused kernels and nothing else switched on."""
    cost_is_least: bool
    """Whether it may take any longer than that: plain kernels, whose time is in no rule, and no row of them."""
    measured: MeasuredStep | None
    """What the cost rests on; None for the rule."""
    longest_context: int | None
    """At the same batch; None where not even the shortest fits, or the row is not searched."""
    longest_context_is_least: bool
    """Whether the search ended there, and not the memory."""
    largest_batch: int | None
    """At the same context."""
    largest_batch_is_least: bool


def choices(
    model: ModelSpec,
    asked: TrainSpec,
    memory_bytes: int,
    *,
    most: int = 12,
    steps: Iterable[MeasuredStep] = (),
    gpu: str | None = None,
    target: Target | None = None,
    host: Host | None = None,
    optimizers: Collection[str] = tuple(OPTIMIZER_TOKENS),
) -> tuple[Choice, ...]:
    """What was asked for, then what else fits, at most so many rows; where nothing fits, the smallest of all.

    By expected cost; what learns something else than was asked for comes after all that does not.

    `steps` were measured, on whichever GPU; those on `gpu` are preferred. `host`: whose memory must suffice, too, where it is known.
    `optimizers`: those of `OPTIMIZER_TOKENS` that may be offered; costs are on one scale, whichever they are.
    """
    plan = _Plan(model, asked, memory_bytes, host or Host(), target or Target(), Alike())
    first = plan.sized(asked)
    found = []
    for train in _ways(asked):
        with contextlib.suppress(PlanError):  # combinations that cannot be are no answers
            found.append(plan.sized(train))
    # Kernels that are not fused are no part of the rule, so what was asked for sets its scale only where it is offered as well.
    expected = costs(steps, model, asked, gpu, [way.train for way in found], rule_cost)
    allowed = [way for way in found if way.train.optimizer in optimizers]
    others = sorted(allowed, key=lambda way: (_rank(way.train, asked, expected), way.peak))
    fitting = _undominated([way for way in others if way.needed <= memory_bytes], expected)
    if fitting or first.needed <= memory_bytes:
        offered = _mixed([way for way in fitting if way.train != asked], asked, most - 1)
    else:
        offered = sorted((way for way in others if way.train != asked), key=lambda way: way.needed)[:3]
    return tuple(plan.choice(expected, *way) for way in (first, *offered))


class _Sized(NamedTuple):
    """A way with its peak, and with what it needs to fit, in bytes of the GPU."""

    train: TrainSpec
    peak: int
    needed: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """What all ways have in common."""

    model: ModelSpec
    asked: TrainSpec
    memory_bytes: int
    host: Host
    target: Target
    alike: Alike

    def sized(self, train: TrainSpec) -> _Sized:
        step = Step(self.model, train, self.target, self.alike)
        peak = step.highest_bytes()
        return _Sized(train, peak, max(needed_bytes(peak), self._needed_of_host(step)))

    def _needed_of_host(self, step: Step) -> int:
        """As large a part of the GPU's memory as is needed of the host's, so that one limit serves both."""
        if self.host.memory_bytes is None:
            return 0
        needed = host_needed_bytes(away_bytes(step.away, HOST, PINNED), self.host.gpus)
        return -(-needed * self.memory_bytes // self.host.memory_bytes)

    def choice(self, expected: Costs, train: TrainSpec, peak: int, needed: int) -> Choice:
        def with_context(steps: int) -> int:
            return self.sized(replace(train, seq_len=steps * CONTEXT_STEP)).needed

        def with_batch(batch: int) -> int:
            return self.sized(replace(train, batch=batch)).needed

        away = Step(self.model, train, self.target, self.alike).away
        blocks, rest = divmod(train.seq_len, CONTEXT_STEP)
        known = {} if rest else {blocks: needed}
        longest = largest(with_context, self.memory_bytes, most=LONGEST // CONTEXT_STEP, guess=max(1, blocks), known=known)
        most = max(1, LONGEST // train.seq_len)
        batch = largest(with_batch, self.memory_bytes, most=most, guess=train.batch, known={train.batch: needed})
        context = longest and longest * CONTEXT_STEP
        furthest = longest == LONGEST // CONTEXT_STEP
        host, pinned, disk = (away_bytes(away, *places) for places in ((HOST, PINNED), (PINNED,), (DISK,)))
        return Choice(
            train,
            _changes(train, self.asked),
            peak,
            host,
            pinned,
            disk,
            needed <= self.memory_bytes,
            expected.of(train),
            expected.step(train) is None and any(getattr(train, slot) in PLAIN_KERNELS for slot in FUSED),
            expected.step(train),
            context,
            furthest,
            batch,
            batch == most,
        )


def _mixed(ways: Sequence[_Sized], asked: TrainSpec, most: int) -> list[_Sized]:
    """The first so many; of those that learn something else a third at least, if there are as many."""
    same = [way for way in ways if same_training(way.train, asked)]
    other = [way for way in ways if not same_training(way.train, asked)]
    same = same[: max(most - len(other), most - most // 3)]
    return [*same, *other[: most - len(same)]]


def _undominated(ways: Sequence[_Sized], expected: Costs) -> list[_Sized]:
    """A way that costs no less than one before it and needs no less memory answers no question."""
    kept: list[_Sized] = []
    for way in ways:
        if not any(other.peak <= way.peak and expected.of(other.train) <= expected.of(way.train) for other in kept):
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
    adaptations = ("full", "lora", "qlora") if asked.adaptation == "full" else ("lora", "qlora")
    for adaptation, (sharding, offload), checkpointing, optimizer in itertools.product(
        adaptations, ALONE if asked.world_size == 1 else TOGETHER, CHECKPOINT_COST, OPTIMIZER_TOKENS
    ):
        if adaptation != "full" and (optimizer != "adamw_fused" or offload != "none"):
            continue  # adapters are small: their states are not what does not fit
        if offload != "none" and optimizer != "adamw_fused":
            continue  # states that have left the GPU need not be small
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
    return not same_training(train, asked), expected.of(train), len(_changes(train, asked))


def same_training(train: TrainSpec, asked: TrainSpec) -> bool:
    """Whether the same weights learn, kept in the same format."""
    return train.adaptation == asked.adaptation and train.linear == asked.linear


def rule_cost(train: TrainSpec) -> float:
    """The product of the techniques' factors, and what others add."""
    cost = 1.0
    for _, factor in rule_factors(train):
        cost *= factor
    return cost + sum(addition for _, addition in rule_additions(train))


def rule_factors(train: TrainSpec) -> tuple[tuple[str, float], ...]:
    """Technique to its factor, of those that have one."""
    return (
        (f"checkpointing {train.checkpointing}", CHECKPOINT_COST[train.checkpointing]),
        (train.sharding, SHARDING_COST[train.sharding]),
    )


def rule_additions(train: TrainSpec) -> tuple[tuple[str, float], ...]:
    """Technique to the time that it adds to a step of 1. Updates are shared out with the states; adapters are updated in no time."""
    tokens = train.seq_len * train.batch
    step, micro_batch = tokens * train.accumulation + BESIDES_TOKENS, tokens + BESIDES_TOKENS / train.accumulation
    shares = train.world_size if train.sharding not in ("none", "ddp", "zero0") else 1
    of_update = (train.adaptation == "full") / (step * shares)
    passes = 2 + 3 * (CHECKPOINT_COST[train.checkpointing] - 1)
    carrying = CARRYING_TOKENS / micro_batch if train.offload == "parameters" else 0.0
    return (
        (train.optimizer, OPTIMIZER_TOKENS.get(train.optimizer, 0) * of_update),
        (f"linear {train.linear}", 0.0 if train.linear == "plain" else FOUR_BIT_TOKENS * passes / micro_batch),
        (f"offload {train.offload}", OFFLOAD_TOKENS[train.offload] * of_update + carrying),
    )


def _changes(train: TrainSpec, asked: TrainSpec) -> tuple[str, ...]:
    slots = (*FUSED, "checkpointing", "adaptation", "linear", "sharding", "offload")
    return tuple(f"{slot}={getattr(train, slot)}" for slot in slots if getattr(train, slot) != getattr(asked, slot))


def largest(size: Callable[[int], int], limit: int, *, most: int, guess: int, known: Mapping[int, int] | None = None) -> int | None:
    """The largest n up to `most` with size(n) <= limit, for a size that grows with n; None where size(1) is above it.

    `known`: sizes that need not be asked for again.
    """
    sizes = dict(known or {})

    def sized(n: int) -> int:
        if n not in sizes:
            sizes[n] = size(n)
        return sizes[n]

    if sized(1) > limit:
        return None
    # size(low) fits; size(high) does not, or nobody asks; `below` is what `low` was before.
    low, high, below = 1, most + 1, 1
    first = min(max(guess, 2), most)
    if first > 1:
        low, high = (first, high) if sized(first) <= limit else (low, first)
    slow = 0
    while high - low > 1:
        # Of a curve the line through both ends meets the limit on one side, and the line on from the points below it on the other.
        one, other = (below, low) if high not in sizes or (slow == 1 and below < low) else (low, high)
        growth = (sizes[other] - sizes[one]) / (other - one) if other > one else 0.0
        n = low + int((limit - sizes[low]) / growth) if growth > 0 else high
        if slow > 1:
            n = (low + high) // 2
        # Beyond what was looked at a line may be wrong by any factor.
        n = min(max(n, low + 1), high - 1, high if high in sizes else 16 * low)
        before = high - low
        low, high, below = (n, high, low) if sized(n) <= limit else (low, n, below)
        slow = slow + 1 if 2 * (high - low) > before and high in sizes and slow < 2 else 0
    return low
