"""`bench plan`: what a training step will need, what fits, and what to switch on, before anybody rents a GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.counts import Number, Whole
from bench.cli.fitting import folded_table, terminal_columns
from bench.cli.options import database_option, json_option
from bench.cli.speech import drawing, language_option
from bench.cli.terminal import note, say, say_json, table
from bench.plan.spec import DEFAULTS, MODELLED, OFFLOADS, SHARDINGS
from bench.plan.terms import CAUSES

if TYPE_CHECKING:
    from bench.plan.devices import Gpu, Host
    from bench.plan.fits import Choice
    from bench.plan.moments import Target
    from bench.plan.published import Figure
    from bench.plan.spec import ModelSpec, TrainSpec
    from bench.plan.terms import Prediction

GIB = 2**30
SLOTS = tuple(slot for slot, known in MODELLED.items() if len(known) > 1)


def _technique_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """An option for each slot that has formulas, named as in suites."""
    for slot in reversed(SLOTS):
        words = f"{', '.join(MODELLED[slot])}; default: {DEFAULTS[slot]}"
        function = click.option(f"--{slot.replace('_', '-')}", slot, metavar="NAME", help=words)(function)
    return function


@click.command()
@click.option("--model", "model_name", metavar="NAME|FILE", default="llama-3-8b", show_default=True,
              help="A model of `bench list models`, or a config.json.")  # fmt: skip
@click.option("--seq-len", type=Whole(1), metavar="N", default=4096, show_default=True, help="Tokens of a sequence.")
@click.option("--batch", type=Whole(1), metavar="N", default=1, show_default=True, help="Sequences of a micro-batch, on each GPU.")
@click.option("--accumulation", type=Whole(1), metavar="N", default=1, show_default=True, help="Micro-batches of a step.")
@click.option(
    "--dropout",
    type=Number(0, 1, max_open=True),
    metavar="P",
    default=0.0,
    show_default=True,
    help="Of attention weights.",
)
@click.option("--clip-norm", type=Number(0), metavar="X", default=1.0, show_default=True, help="Of gradients; 0: none are clipped.")
@click.option("--lora-rank", type=Whole(1), metavar="N", default=16, show_default=True, help="Of adapters.")
@click.option("--gpu", metavar="NAME", help="A GPU by name, such as h200, h100, a100-80gb, rtx-4090.")
@click.option("--gpu-memory", metavar="SIZE", help="Its memory instead: 80GB (1e9) or 79.1GiB (2^30).")
@click.option(
    "--world-size",
    "--gpus",
    "world_size",
    type=Whole(1),
    metavar="N",
    default=1,
    show_default=True,
    help="GPUs that train together.",
)
@click.option("--sharding", metavar="NAME", help=f"{', '.join(SHARDINGS)}; default: none for one GPU, fsdp2 for several.")
@click.option(
    "--offload", metavar="NAME", default="none", show_default=True, help=f"To host memory, or disk: {', '.join(OFFLOADS)}."
)
@click.option("--host-memory", metavar="SIZE", help="Of a host, for training: 512GB or 480GiB; what needs more does not fit.")
@click.option("--gpus-per-host", type=Whole(1), metavar="N", help="GPUs that share it; default: all that train, up to 8.")
@_technique_options
@click.option("--explain", is_flag=True, help="The published figures behind it, and what real code does at the same shape.")
@click.option("--terms", "all_terms", is_flag=True, help="Every term of the peak with its formula and source.")
@click.option("--figure", type=click.Path(dir_okay=False, path_type=Path), help="Draw the ways as stacked bars into this file.")
@click.option("--emit", metavar="TOOL", help="Settings of a row for hf, deepspeed, accelerate or torchtune.")
@click.option(
    "--row",
    type=Whole(0),
    metavar="N",
    default=0,
    show_default=True,
    help="Which row the table of causes, --terms and --emit are for; 0 is as asked for.",
)
@click.option("--validate", is_flag=True, help="The error table of all training steps on CUDA that the database of --db has.")
@click.option("--of-grid", is_flag=True, help="With --validate: only what the suites of --grid have measured.")
@click.option("--markdown", "as_markdown", is_flag=True, help="The table of --validate as Markdown.")
@click.option(
    "--write",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write it: a .json file for programs; a page with marks gets it between them, another becomes it.",
)
@click.option(
    "--grid", type=click.Path(file_okay=False, path_type=Path), help="Write the suites that validate predictions into this folder."
)
@language_option
@database_option
@json_option
def plan(
    model_name: str,
    gpu: str | None,
    gpu_memory: str | None,
    host_memory: str | None,
    gpus_per_host: int | None,
    sharding: str | None,
    explain: bool,
    all_terms: bool,
    figure: Path | None,
    emit: str | None,
    row: int,
    validate: bool,
    of_grid: bool,
    as_markdown: bool,
    write: tuple[Path, ...],
    grid: Path | None,
    database: str,
    as_json: bool,
    **asked: Any,
) -> int:
    """Predict the peak of a training step by cause and phase, and say what fits.

    Sizes are of one GPU and of memory that PyTorch has allocated. Without --gpu or --gpu-memory nothing is said of what fits.
    What lies on the host or on disk is told for each GPU and for a host; whether the host's memory suffices, with --host-memory.

    \b
    bench plan --model llama-3-8b --seq-len 16384 --gpu h200
    bench plan --model config.json --seq-len 8192 --gpu-memory 80GB --world-size 8 --precision bf16_master
    bench plan --model llama-3-8b --precision bf16_master --gpu rtx-4090 --host-memory 128GB
    bench plan --explain
    """
    from bench.cli.plan_away import host_of
    from bench.plan.moments import Target
    from bench.plan.spec import PlanError, TrainSpec, model_named

    if explain:
        _explain(as_json)
        return 0
    if validate or grid is not None:
        from bench.cli import plan_checks

        if grid is not None:
            plan_checks.write_grid(grid)
        return (
            plan_checks.validate(database, of_grid=of_grid, as_json=as_json, as_markdown=as_markdown, write=write)
            if validate
            else 0
        )
    if of_grid or as_markdown or write:
        raise PlanError("--of-grid, --markdown and --write are for the table of --validate")
    model = model_named(model_name)
    chosen = {name: value for name, value in asked.items() if value is not None}
    several = asked["world_size"] > 1
    train = TrainSpec(**chosen, sharding=sharding or ("fsdp2" if several else "none"))
    device = _gpu(gpu, gpu_memory)
    memory = None if device is None else device.memory_bytes
    target = Target() if device is None else Target(workspace_bytes=device.workspace_bytes)
    host = host_of(host_memory, gpus_per_host, train.world_size)
    ways = _ways(model, train, memory, gpu, target, host, database)
    if (row or emit or figure) and row >= max(1, len(ways)):
        raise PlanError(
            f"there is no row {row}: rows are 0 to {max(0, len(ways) - 1)}" + ("" if ways else "; --gpu or --gpu-memory gives more")
        )
    of_row = ways[row].train if ways else train
    if emit is not None:
        from bench.plan.emit import settings
        from bench.plan.unsaid import differences

        say(settings(emit, model, of_row))
        for words in differences(emit, model, of_row):
            note(words)
        return 0
    from bench.plan.predict import predict_step

    prediction = predict_step(model, of_row, target)
    if figure is not None:
        _draw(figure, model, ways, memory, target, f"{model.name}, {train.seq_len} tokens, batch {train.batch}")
    if as_json:
        say_json(_as_json(model, of_row, prediction, ways, memory, host))
        return 0
    from bench.cli import plan_ways

    say(f"{model.name}, {of_row.seq_len} tokens, batch {of_row.batch}, {of_row.precision}, {_gpus(of_row)}")
    plan_ways.show_row(ways, row)
    _show(prediction, host, all_terms)
    if memory is not None:
        plan_ways.show(ways, memory, host, database)
    else:
        note("what fits where: say --gpu h200, or --gpu-memory 80GB")
    for words in prediction.notes:
        note(words)
    if "attention" not in chosen and not row:
        note("attention is eager, as in suites, unless it is said: transformers by itself takes SDPA, so --attention sdpa_flash")
    return 0


def _gpu(gpu: str | None, gpu_memory: str | None) -> Gpu | None:
    from bench.plan.devices import Gpu, gpu_named, parse_size
    from bench.plan.residents import CUBLAS_BYTES
    from bench.plan.spec import PlanError

    if gpu and gpu_memory:
        raise PlanError("--gpu and --gpu-memory say the same thing; give one")
    if gpu_memory:
        return Gpu(parse_size(gpu_memory), CUBLAS_BYTES)
    return gpu_named(gpu) if gpu else None


def _ways(
    model: ModelSpec, train: TrainSpec, memory: int | None, gpu: str | None, target: Target, host: Host, database: str
) -> tuple[Choice, ...]:
    from bench.cli.plan_ways import measured_steps
    from bench.plan.fits import choices

    return (
        () if memory is None else choices(model, train, memory, steps=measured_steps(database), gpu=gpu, target=target, host=host)
    )


def _draw(path: Path, model: ModelSpec, ways: tuple[Choice, ...], memory: int | None, target: Target, title: str) -> None:
    from bench.plan.figure import draw
    from bench.plan.spec import PlanError

    if memory is None:
        raise PlanError("--figure draws what fits: say --gpu or --gpu-memory")
    try:
        with drawing():
            draw(path, model, ways, memory, target, title)
    except (OSError, ValueError) as error:
        raise PlanError(f"{path} cannot be written: {error}") from error
    note(f"figure: {path}")


def _gpus(train: TrainSpec) -> str:
    words = [] if train.sharding == "none" else [train.sharding]
    words += [] if train.offload == "none" else [f"offload {train.offload}"]
    return ", ".join(["1 GPU", *words] if train.world_size == 1 else [f"{train.world_size} GPUs", *words, "of which this is one"])


def _show(prediction: Prediction, host: Host, all_terms: bool) -> None:
    from bench.cli import plan_away

    say()
    moments, peak = prediction.moments, prediction.peak
    unit, size = ("GiB", GIB) if peak.size_bytes >= GIB else ("MiB", 2**20)
    heads = (f"{unit} at the highest of", *(moment.phase for moment in moments))
    rows = []
    for cause in CAUSES:
        sizes = [f"{moment.by_category().get(cause, 0) / size:.2f}" for moment in moments]
        if any(float(shown) for shown in sizes):
            rows.append((cause.replace("_", " "), *sizes))
    rows.append(("sum", *(f"{moment.size_bytes / size:.2f}" for moment in moments)))
    say(table(heads, rows, right=range(1, len(heads))))
    say()
    say(f"peak {peak.size_bytes / size:.2f} {unit} ({peak.size_bytes / 1e9:.2f} GB) in {peak.phase}: {peak.name}")
    plan_away.show(prediction, host)
    if all_terms:
        say()
        lines = [
            (term.name, term.category.replace("_", " "), f"{term.size_bytes / GIB:.4f}", term.formula, term.source)
            for term in sorted(peak.terms, key=lambda term: -term.size_bytes)
        ] + plan_away.terms(prediction)
        heads = ("term", "category", "GiB", "formula", "source")
        say(folded_table(heads, lines, terminal_columns(), right=[2]))


def _as_json(
    model: ModelSpec, train: TrainSpec, prediction: Prediction, ways: tuple[Choice, ...], memory: int | None, host: Host
) -> dict[str, Any]:
    from dataclasses import asdict

    from bench.cli import plan_away

    return {
        "model": asdict(model),
        "train": asdict(train),
        "peak_bytes": prediction.peak_bytes,
        "peak_phase": prediction.peak.phase,
        **plan_away.as_json(prediction, host),
        "moments": [
            {"name": moment.name, "phase": moment.phase, "size_bytes": moment.size_bytes, "by_category": moment.by_category(),
             "terms": [asdict(term) for term in moment.terms]}
            for moment in prediction.moments
        ],
        "gpu_memory_bytes": memory,
        "choices": [asdict(way) for way in ways],
        "notes": list(prediction.notes),
    }  # fmt: skip


def _explain(as_json: bool) -> None:
    from dataclasses import asdict

    from bench.plan.published import founding_figures, real_code, zero_figures

    groups = {
        "an 8B model trained with Adam, and Llama-3-8B at 16384 tokens, as published": founding_figures(),
        "what real code saves at that shape": real_code(),
        "ZeRO with 7.5B parameters on 64 GPUs, as published": zero_figures(),
    }
    if as_json:
        say_json({title: [asdict(figure) for figure in figures] for title, figures in groups.items()})
        return
    for title, figures in groups.items():
        say(title)
        say(table(("", "formula", "here", "published"), [_line(figure) for figure in figures], right=[2, 3]))
        say()
    say(
        "GB are 1e9 bytes, GiB 2^30. The published 1.35 TB is a formula for GPT with dropout; the code of a Llama keeps other things."
    )


def _line(figure: Figure) -> tuple[str, str, str, str]:
    unit = "GB" if figure.unit == 10**9 else "GiB"
    published = "" if figure.published is None else f"{figure.published:g} {unit}"
    return figure.what, figure.formula, f"{figure.size_bytes / figure.unit:.2f} {unit}", published
