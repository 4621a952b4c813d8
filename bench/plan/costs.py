"""What ways to train cost where they were measured: rows of `train_step` as plain data, and which of them an order may rest on.

Tokens per second compare ways only on common ground: one model and GPU, at one length, batch and number of GPUs. The ground that is nearest
to what is planned and has two ways or more of those offered decides: their measured times are put on the scale of the rule that holds for
ways without rows, so that both can stand in one order. Where the ground has other sizes than the plan, what is carried over is by how much
a way was dearer there than its rule; what is many times smaller or larger says nothing of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from bench.plan.spec import MODELLED, ModelSpec, TrainSpec
from bench.plan.weights import parameters

WAYS = (*MODELLED, "sharding", "offload")
"""What tells one way to train from another, by the fields of a TrainSpec."""
COMPARABLE_PARAMETERS, COMPARABLE_TOKENS = 10, 16
"""Times by which a measured model, or its micro-batch, may be smaller or larger than what is planned."""


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """All `ok` trials of one case of `train_step` on one kind of GPU."""

    ways: Mapping[str, str]
    """Field of `WAYS` to what fills it."""
    model: str
    parameters: int
    gpu: str
    """As its driver calls it."""
    seq_len: int
    batch: int
    accumulation: int
    dropout: float
    world_size: int
    tokens_per_s: float
    """The median of the trials, each its median."""
    trials: int
    run_id: str
    """Of the latest of them."""

    @property
    def ground(self) -> tuple[str, str, int, int, int, int]:
        """What two steps must have in common for their times to say something of their ways."""
        return self.gpu, self.model, self.seq_len, self.batch, self.accumulation, self.world_size


@dataclass(frozen=True, slots=True)
class Costs:
    """Expected costs of ways, in steps of what the rule has as 1."""

    rule: Callable[[TrainSpec], float]
    measured: Mapping[tuple[str, ...], MeasuredStep] = field(default_factory=dict)
    s_per_token: float = 1.0
    """Of a cost of 1, on the ground that was measured."""

    def step(self, train: TrainSpec) -> MeasuredStep | None:
        """Where this very way was measured on the ground."""
        return self.measured.get(_way(train))

    def of(self, train: TrainSpec) -> float:
        """Measured, else by the rule."""
        step = self.step(train)
        if step is None:
            return self.rule(train)
        return self.rule(train) * _s_per_rule(step, train, self.rule) / self.s_per_token


def costs(
    steps: Iterable[MeasuredStep],
    model: ModelSpec,
    asked: TrainSpec,
    gpu: str | None,
    offered: Sequence[TrainSpec],
    rule: Callable[[TrainSpec], float],
) -> Costs:
    """By the nearest ground with two of the offered ways, else with one, else by the rule alone. `gpu`: by name, None for any."""
    grounds: dict[tuple[str, str, int, int, int, int], dict[tuple[str, ...], MeasuredStep]] = {}
    ours = parameters(model)
    for step in (step for step in steps if step.dropout == asked.dropout and _comparable(step, ours, asked)):
        grounds.setdefault(step.ground, {})[tuple(step.ways[name] for name in WAYS)] = step
    ways = {_way(train): train for train in offered}
    known = [found for found in grounds.values() if ways.keys() & found.keys()]
    if not known:
        return Costs(rule)

    def order(found: Mapping[tuple[str, ...], MeasuredStep]) -> tuple[bool, tuple[float, ...]]:
        return len(ways.keys() & found.keys()) < 2, _distance(next(iter(found.values())), model, ours, asked, gpu)

    nearest = min(known, key=order)
    here = [(nearest[way], train) for way, train in ways.items() if way in nearest]
    # What the rule has as 1 is what the others are told beside: where it was measured, best with what is asked to learn, it is the scale.
    plainest = [(step, train) for step, train in here if rule(_at(step, train)) == 1]
    alike = [(step, train) for step, train in plainest if train.adaptation == asked.adaptation]
    return Costs(rule, nearest, median(_s_per_rule(step, train, rule) for step, train in alike or plainest or here))


def same_gpu(name: str, measured: str) -> bool:
    """Whether a GPU by its name here (`a100-80gb`) is the one that its driver calls so (`NVIDIA A100-SXM4-80GB`)."""
    words = set(measured.lower().replace(" ", "-").split("-"))
    return set(name.strip().lower().replace(" ", "-").removeprefix("nvidia-").split("-")) <= words | {"rtx"}


def _way(train: TrainSpec) -> tuple[str, ...]:
    return tuple(getattr(train, name) for name in WAYS)


def _s_per_rule(step: MeasuredStep, train: TrainSpec, rule: Callable[[TrainSpec], float]) -> float:
    """Of a token, in what the rule says of this way at the step's own sizes."""
    return 1 / step.tokens_per_s / rule(_at(step, train))


def _at(step: MeasuredStep, train: TrainSpec) -> TrainSpec:
    """The way at the sizes of the step that was measured."""
    return replace(train, seq_len=step.seq_len, batch=step.batch, accumulation=step.accumulation, world_size=step.world_size)


def _comparable(step: MeasuredStep, ours: int, asked: TrainSpec) -> bool:
    tokens = step.seq_len * step.batch / (asked.seq_len * asked.batch)
    return (
        max(step.parameters / ours, ours / step.parameters) <= COMPARABLE_PARAMETERS
        and max(tokens, 1 / tokens) <= COMPARABLE_TOKENS
    )


def _distance(step: MeasuredStep, model: ModelSpec, ours: int, asked: TrainSpec, gpu: str | None) -> tuple[float, ...]:
    """The GPU first, then the model, then the rest."""
    return (
        0.0 if gpu is None or same_gpu(gpu, step.gpu) else 1.0,
        0.0 if step.model == model.name else 1 + abs(math.log(step.parameters / ours)),
        abs(math.log(step.world_size / asked.world_size)),
        abs(math.log(step.seq_len * step.batch / (asked.seq_len * asked.batch))),
        abs(math.log(step.seq_len / asked.seq_len)),
        abs(step.accumulation - asked.accumulation),
    )
