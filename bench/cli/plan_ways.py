"""What fits, as `bench plan` shows it: ways to train by expected cost, and the measured steps that the order rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from bench.cli.terminal import note, say, table
from bench.errors import StoreError
from bench.plan.costs import MeasuredStep
from bench.plan.fits import FUSED, Choice, rule_factors

GIB = 2**30
FUSED_KERNELS = tuple(slot for slot in FUSED if slot != "optimizer")


def measured_steps(database: str) -> tuple[MeasuredStep, ...]:
    """Of the database, where there is one. Raises StoreError for one that was named and cannot be read; the default one may lack."""
    named = click.get_current_context().get_parameter_source("database") is not ParameterSource.DEFAULT
    if not named and not Path(database).exists():
        return ()
    from bench.store import steps

    try:
        return steps.measured_steps(database)
    except StoreError as error:
        if named:
            raise
        note(f"costs are by the rule alone: {error}")
        return ()


def show(ways: Sequence[Choice], memory: int, database: str) -> None:
    """What fits, a way a line, with what its cost rests on."""
    named = [tuple(change for change in way.changes if change.partition("=")[0] in FUSED_KERNELS) for way in ways]
    common = max(named, key=lambda kernels: (len(kernels) > 1, named.count(kernels)))
    say()
    say(f"what fits into {memory / GIB:.1f} GiB (5 % of the peak and 0.6 GiB for the context set aside), by expected cost")
    lines = []
    for index, (way, kernels) in enumerate(zip(ways, named, strict=True)):
        shorter = len(common) > 1 and kernels == common
        switched = [*(["fused"] if shorter else kernels), *(change for change in way.changes if change not in kernels)]
        lines.append(
            (
                str(index), "yes" if way.fits else "no", f"{way.peak_bytes / GIB:.2f}", f"{way.cost:.2f}", _evidence(way),
                "-" if way.longest_context is None else str(way.longest_context),
                "-" if way.largest_batch is None else str(way.largest_batch), ", ".join(switched) or "as asked for",
            )
        )  # fmt: skip
    heads = ("row", "fits", "peak GiB", "cost", "by", "longest context", "largest batch", "switched on")
    say(table(heads, lines, right=(2, 3, 5, 6), widest=200))
    if len(common) > 1:
        say(f"fused: {', '.join(common)}")
    if ways[0].train.adaptation == "full" and any(way.train.adaptation == "lora" for way in ways):
        say(f"adaptation=lora: adapters of rank {ways[0].train.lora_rank} learn, the model's own weights do not")
    for words in _about_costs(ways, database):
        say(words)


def _evidence(way: Choice) -> str:
    """What the cost of a row rests on."""
    step = way.measured
    return "rule" if step is None else f"{step.tokens_per_s:,.0f} tokens/s, {step.gpu}, run {step.run_id[:13]}"


def _about_costs(ways: Sequence[Choice], database: str) -> Iterator[str]:
    factors = {name: factor for way in ways if way.measured is None for name, factor in rule_factors(way.train) if factor != 1}
    yield "cost: expected time of a step, 1 for the plainest way; by the rule: " + (
        ", ".join(f"{name} {factor:.2f}" for name, factor in factors.items()) or "1 for each technique here"
    )
    if step := next((way.measured for way in ways if way.measured is not None), None):
        gpus = "" if step.world_size == 1 else f" on each of {step.world_size} GPUs"
        yield f"measured: {step.model}, {step.seq_len} tokens, batch {step.batch}{gpus}, the nearest that {database} has"
    else:
        yield f"measured: nothing comparable in {database}; `bench run` and `bench db import` bring training steps"
