"""What fits, as `bench plan` shows it: ways to train by expected cost, and the measured steps that the order rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from bench.cli.fitting import folded_table, paragraph, terminal_columns
from bench.cli.terminal import note, say
from bench.errors import StoreError
from bench.plan.costs import MeasuredStep
from bench.plan.devices import Host
from bench.plan.fits import FUSED, LONGEST, Choice, rule_additions, rule_factors, same_training

GIB = 2**30
AT_LEAST = "≥"
LEAST_ADDED = 0.005
SET_ASIDE = "5 % of the peak and 0.6 GiB for the context set aside"
FUSED_KERNELS = tuple(slot for slot in FUSED if slot != "optimizer")


def measured_steps(database: str) -> tuple[MeasuredStep, ...]:
    """Of the database, where there is one. Raises StoreError for one that was typed and cannot be read; that of BENCH_DB may lack."""
    source = click.get_current_context().get_parameter_source("database")
    if source is ParameterSource.DEFAULT and not Path(database).exists():
        return ()
    from bench.store import steps

    try:
        return steps.measured_steps(database)
    except StoreError as error:
        if source is ParameterSource.COMMANDLINE:
            raise
        note(f"costs are by the rule alone: {error}")
        return ()


def show(ways: Sequence[Choice], memory: int, host: Host, database: str) -> None:
    """What fits, a way a line, with what its cost rests on."""
    common = _common(ways)
    room = terminal_columns()
    offloaded, on_disk = any(way.host_bytes for way in ways), any(way.disk_bytes for way in ways)
    say()
    into = f"{memory / GIB:.1f} GiB ({SET_ASIDE})"
    into += "" if host.memory_bytes is None else f" and the host's {host.memory_bytes / GIB:.1f} GiB"
    if any(way.fits for way in ways):
        order = "by expected cost"
        if len({same_training(way.train, ways[0].train) for way in ways[1:]}) > 1:
            order += "; rows with another adaptation or linear come last"
        say(paragraph(f"what fits into {into}, {order}", room))
    else:
        say(paragraph(f"nothing here fits into {into}; what needs least", room))
    lines = []
    for index, way in enumerate(ways):
        lines.append(
            (
                str(index), "yes" if way.fits else "no", f"{way.peak_bytes / GIB:.2f}",
                *([f"{way.host_bytes / GIB:.2f}"] if offloaded else []), *([f"{way.disk_bytes / GIB:.2f}"] if on_disk else []),
                f"{AT_LEAST if way.cost_is_least else ''}{way.cost:.2f}", _evidence(way),
                _most(way.longest_context, is_least=way.longest_context_is_least),
                _most(way.largest_batch, is_least=way.largest_batch_is_least), _switched(way, common) or "as asked for",
            )
        )  # fmt: skip
    elsewhere = [*(["host GiB"] if offloaded else []), *(["disk GiB"] if on_disk else [])]
    heads = ("row", "fits", "peak GiB", *elsewhere, "cost", "by", "longest context", "largest batch", "switched on")
    numbers = [index for index, head in enumerate(heads) if head not in ("row", "fits", "by", "switched on")]
    say(folded_table(heads, lines, room, right=numbers))
    if len(common) > 1:
        say(paragraph(f"fused: {', '.join(common)}", room))
    if ways[0].train.adaptation == "full" and any(way.train.adaptation == "lora" for way in ways):
        say(f"adaptation=lora: adapters of rank {ways[0].train.lora_rank} learn, the model's own weights do not")
    for words in _about_costs(ways, database):
        say(paragraph(words, room))


def _most(found: int | None, *, is_least: bool) -> str:
    return "-" if found is None else f"{AT_LEAST if is_least else ''}{found}"


def show_row(ways: Sequence[Choice], row: int) -> None:
    """Which row of the table of ways the table of causes above it is for: a line for all but the first, which is as asked for."""
    if row:
        say(f"row {row}: {_switched(ways[row], _common(ways))}")


def _kernels(way: Choice) -> tuple[str, ...]:
    return tuple(change for change in way.changes if change.partition("=")[0] in FUSED_KERNELS)


def _common(ways: Sequence[Choice]) -> tuple[str, ...]:
    """The kernels that most ways switch on together, which are told once; fewer than two where there are none."""
    named = [_kernels(way) for way in ways]
    return max(named, key=lambda kernels: (len(kernels) > 1, named.count(kernels)))


def _switched(way: Choice, common: tuple[str, ...]) -> str:
    """What is switched on beyond what was asked for; empty where nothing is."""
    kernels = _kernels(way)
    shorter = len(common) > 1 and kernels == common
    return ", ".join([*(["fused"] if shorter else kernels), *(change for change in way.changes if change not in kernels)])


def _evidence(way: Choice) -> str:
    """What the cost of a row rests on."""
    step = way.measured
    return "rule" if step is None else f"{step.tokens_per_s:,.0f} tokens/s, {step.gpu}, run {step.run_id[:13]}"


def _about_costs(ways: Sequence[Choice], database: str) -> Iterator[str]:
    ruled = [way.train for way in ways if way.measured is None]
    factors = {name: f"{factor:.2f}" for train in ruled for name, factor in rule_factors(train) if factor != 1}
    additions: dict[str, set[float]] = {}
    for name, addition in (entry for train in ruled for entry in rule_additions(train)):
        if addition >= LEAST_ADDED:
            additions.setdefault(name, set()).add(round(addition, 2))
    # What is added may hang on the row's other techniques: four bits are unpacked once more where layers are computed again.
    added = {
        name: "+" + "–".join(f"{bound:.2f}" for bound in sorted({min(all_of), max(all_of)})) for name, all_of in additions.items()
    }
    yield "cost: expected time of a step, 1 with fused kernels and nothing else switched on; by the rule: " + (
        ", ".join(f"{name} {words}" for name, words in {**factors, **added}.items()) or "1 for each technique here"
    )
    if any(way.longest_context_is_least or way.largest_batch_is_least for way in ways):
        yield f"{AT_LEAST} of a context or a batch: more than {LONGEST} tokens of a micro-batch were not looked at"
    if any(way.cost_is_least for way in ways):
        yield f"{AT_LEAST}: plain kernels take longer than fused ones, and by how much only measured steps tell"
    if step := next((way.measured for way in ways if way.measured is not None), None):
        gpus = "" if step.world_size == 1 else f" on each of {step.world_size} GPUs"
        yield f"measured: {step.model}, {step.seq_len} tokens, batch {step.batch}{gpus}, the nearest that {database} has"
    else:
        yield f"measured: none of these ways at a comparable size in {database}; `bench run` and `bench db import` bring training steps"
