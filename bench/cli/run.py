"""`bench run`: says the plan, measures with progress, then says what came out and what to type next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.cli.options import MOST_TRIALS, database_option, duration, examples, json_option, no_wait_option, plugin_option
from bench.cli.plan_words import plan_data, say_plans
from bench.cli.planning import plan_all
from bench.cli.report import demand_writable, kind_of
from bench.cli.session import Session
from bench.cli.terminal import say, say_json
from bench.plaintext import plain

if TYPE_CHECKING:
    from bench.run import RunOptions


@click.command(
    epilog=examples(
        "bench run attention --profile quick --dry-run          # cases, trials, minutes",
        "bench run rms_norm rope --profile cpu --report r.html  # two suites, a report",
        "bench run attention --filter attention=eager,sdpa_flash --set seq_len=256",
        "bench run --resume latest                              # what a run lacks",
    )
)
@click.argument("suites", nargs=-1, metavar="[SUITE]...")
@click.option("--profile", metavar="P", help="A profile of the suite, such as quick or cpu.")
@click.option(
    "--trials", type=click.IntRange(1, MOST_TRIALS), metavar="N", help="Fresh processes per case. Default: the suite's protocol."
)
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="K=V",
    help="Only cases with this value; K=V1,V2 for either. Several must all hold.",
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="K=V",
    help="Override an axis or a setting of the suite: seq_len=128,256, protocol.timeout_s=60.",
)
@click.option("--shard", metavar="I/N", help="Only the I-th of N parts of the plan (whole blocks).")
@click.option(
    "--resume", metavar="RUN", help="Go on with a run (id, beginning of an id, label, or latest): what is stored is skipped."
)
@click.option(
    "--budget",
    metavar="TIME",
    callback=duration,
    help="Stop between blocks when this much time is spent: 90s, 20m, 1h30m. For all suites together.",
)
@click.option("--dry-run", is_flag=True, help="Say cases, trials and minutes, measure nothing.")
@click.option("--label", metavar="TEXT", help="A name for the run, by which other commands find it.")
@click.option(
    "--device",
    metavar="D",
    default=None,
    help="auto, cuda, cuda:N, cpu, or cpu-interpreter: Triton's kernels on the CPU, for numbers and memory, without any time.  "
    "[default: auto: the first GPU, else the CPU]",
)
@click.option(
    "--gpus",
    metavar="all|N,N",
    help="Measure on several GPUs of this node at the same time, each with blocks of its own, in one run: all, or numbers such as 0,1. "
    "--resume goes on with those that began.",
)
@plugin_option
@click.option(
    "--weights",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Measure with the real weights of a model in this folder (*.safetensors, named as Hugging Face does) instead of random ones, "
    "where the workload can. All of it is read once: rows name it by its content.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**31 - 1), metavar="N", help="Seed of the order and of all inputs. Default: a new one."
)
@no_wait_option
@database_option
@click.option(
    "--report",
    "report_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Render a report of what was measured, after Ctrl-C as well; format by ending (.html, .md, .json, .csv).",
)
@json_option
def run(
    suites: tuple[str, ...],
    profile: str | None,
    trials: int | None,
    filters: tuple[str, ...],
    sets: tuple[str, ...],
    shard: str | None,
    resume: str | None,
    budget: float | None,
    dry_run: bool,
    label: str | None,
    device: str | None,
    gpus: str | None,
    plugins: tuple[Path, ...],
    weights: Path | None,
    seed: int | None,
    no_wait: bool,
    database: str,
    report_file: Path | None,
    as_json: bool,
) -> int:
    """Measure suites (files, or names of files in suites/).

    Every trial is a fresh process and a row of its own, committed before the next one starts; Ctrl-C loses nothing. Exit code 0: every
    planned trial has a row, or the budget is spent; 2: also where a GPU of several was lost; 3: no row is ok; 130: interrupted.
    """
    from bench.run import find_gpus
    from bench.run.weights import demand_weights
    from bench.store import Store

    if report_file is not None:
        kind_of(report_file, None)
    if gpus is not None and device is not None:
        raise click.UsageError("--gpus and --device both say where to measure: leave one out")
    found = find_gpus(gpus) if gpus is not None else ()
    if len(found) == 1:
        device, gpus = found[0].torch_name, None

    if resume is not None:
        given = {"SUITE": suites, "--profile": profile, "--trials": trials, "--filter": filters, "--set": sets, "--shard": shard,
                 "--label": label, "--plugin": plugins, "--weights": weights, "--seed": seed, "--dry-run": dry_run}  # fmt: skip
        clash = [name for name, value in given.items() if value]
        if clash:
            raise click.UsageError(
                f"--resume takes all but --budget, --device, --gpus and --report from the run itself: leave out {', '.join(clash)}"
            )
        if report_file is not None:
            demand_writable(report_file)
        with Store.open(database, create=False) as store:
            session = Session(store, report_file, as_json=as_json)
            session.notices()
            session.resume(resume, device, budget, wait=not no_wait, gpus=found)
            return session.close()
    if not suites:
        raise click.UsageError("say which suite to measure, such as suites/attention.yaml; `bench list suites` shows what there is")
    device = found[0].torch_name if found else device
    options = replace(_options(profile, sets, filters, trials, shard, label, device, plugins, weights, seed, no_wait), gpus=gpus)
    device_found, catalogue, planned = plan_all(suites, options, database)
    demand_weights([case for entry in planned for case in entry.plan.cases], catalogue, options.weights)
    if as_json and dry_run:
        names = [gpu.torch_name for gpu in found]
        say_json({"device": device_found.name, "gpus": names, "suites": [plan_data(entry) for entry in planned]})
    elif not as_json:
        for one in found or [device_found]:
            say(f"device: {plain(one.name)}" + (f" ({one.torch_name})" if one.torch_name != one.kind else ""))
        say_plans(planned, budget_s=budget, gpus=len(found) or 1, at_length=dry_run, on_cpu=device_found.kind == "cpu")
    if dry_run:
        return 0
    if report_file is not None:
        demand_writable(report_file)
    with Store.open(database) as store:
        session = Session(store, report_file, as_json=as_json)
        session.notices()
        session.measure(planned, device_found, catalogue, budget, gpus=found)
        return session.close()


def _options(
    profile: str | None,
    sets: tuple[str, ...],
    filters: tuple[str, ...],
    trials: int | None,
    shard: str | None,
    label: str | None,
    device: str | None,
    plugins: tuple[Path, ...],
    weights: Path | None,
    seed: int | None,
    no_wait: bool,
) -> RunOptions:
    from bench.machine import scrub
    from bench.run import RunOptions, parse_shard
    from bench.run.weights import weights_setting

    folder = None if weights is None else str(weights.resolve())
    if label is not None and label.strip().lower() == "latest":
        raise click.UsageError("--label cannot be `latest`: that word means the run begun last; take another one")
    return RunOptions(
        profile=profile,
        sets=sets if folder is None else weights_setting(folder, sets),
        filters=filters,
        trials=trials,
        shard=parse_shard(shard) if shard is not None else None,
        label=scrub(label) if label is not None else None,
        device=device or "auto",
        plugins=tuple(str(path.resolve()) for path in plugins),
        weights=folder,
        seed=seed,
        wait_for_lock=not no_wait,
    )
