"""`bench run`: says the plan, measures with progress, then says what came out and what to type next."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.options import database_option, duration, json_option, plugin_option, spell_duration
from bench.cli.terminal import note, plain, say, say_json, table
from bench.errors import BenchError, HarnessError, Problem, SelectionError, StoreError, SuiteError

if TYPE_CHECKING:
    from bench.catalogue import Catalogue
    from bench.machine import Device
    from bench.run import Plan, Progress, RunOptions, RunSummary
    from bench.store import Store
    from bench.suite import Suite

INTERRUPTED = 130
NOTHING_OK = 3


@dataclass(frozen=True, slots=True)
class Planned:
    """One suite with its plan."""

    suite: Suite
    plan: Plan
    options: RunOptions
    not_measured: tuple[tuple[str, str, str, int], ...]
    """Subject, status, reason, and how many cases: known before anything is started."""


@click.command()
@click.argument("suites", nargs=-1, metavar="[SUITE]...")
@click.option("--profile", metavar="P", help="A profile of the suite, such as quick or cpu.")
@click.option("--trials", type=click.IntRange(min=1), metavar="N", help="Fresh processes per case. Default: the suite's protocol.")
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
    "--device", metavar="D", default=None, help="auto, cuda, cuda:N or cpu.  [default: auto: the first GPU, else the CPU]"
)
@plugin_option
@click.option(
    "--seed", type=click.IntRange(0, 2**31 - 1), metavar="N", help="Seed of the order and of all inputs. Default: a new one."
)
@click.option("--no-wait", is_flag=True, help="Fail where another run holds the device, instead of waiting for it.")
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
    plugins: tuple[Path, ...],
    seed: int | None,
    no_wait: bool,
    database: str,
    report_file: Path | None,
    as_json: bool,
) -> int:
    """Measure suites (files, or names of files in suites/).

    Every trial is a fresh process and a row of its own, committed before the next one starts; Ctrl-C loses nothing. Exit code 0: every
    planned trial has a row, or the budget is spent; 3: no row is ok; 130: interrupted.
    """
    from bench.store import Store

    if resume is not None:
        given = {"SUITE": suites, "--profile": profile, "--trials": trials, "--filter": filters, "--set": sets, "--shard": shard,
                 "--label": label, "--plugin": plugins, "--seed": seed, "--dry-run": dry_run}  # fmt: skip
        clash = [name for name, value in given.items() if value]
        if clash:
            raise click.UsageError(
                f"--resume takes all but --budget, --device and --report from the run itself: leave out {', '.join(clash)}"
            )
        with Store.open(database, create=False) as store:
            session = _Session(store, database, report_file, as_json)
            session.notices()
            session.resume(resume, device, budget, wait=not no_wait)
            return session.close()
    if not suites:
        raise click.UsageError("say which suite to measure, such as suites/attention.yaml; `bench list suites` shows what there is")
    options = _options(profile, sets, filters, trials, shard, label, device, plugins, seed, no_wait)
    device_found, catalogue, planned = _plans(suites, options, database)
    if as_json and dry_run:
        say_json({"device": device_found.name, "suites": [_plan_data(entry) for entry in planned]})
    elif not as_json:
        say(f"device: {plain(device_found.name)}" + (f" ({device_found.torch_name})" if device_found.kind == "cuda" else ""))
        for entry in planned:
            _say_plan(entry)
    if dry_run:
        return 0
    with Store.open(database) as store:
        session = _Session(store, database, report_file, as_json)
        session.notices()
        session.measure(planned, device_found, catalogue, budget)
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
    seed: int | None,
    no_wait: bool,
) -> RunOptions:
    from bench.machine import scrub
    from bench.run import RunOptions, parse_shard

    return RunOptions(
        profile=profile,
        sets=sets,
        filters=filters,
        trials=trials,
        shard=parse_shard(shard) if shard is not None else None,
        label=scrub(label) if label is not None else None,
        device=device or "auto",
        plugins=tuple(str(path.resolve()) for path in plugins),
        seed=seed,
        wait_for_lock=not no_wait,
    )


def suite_path(text: str) -> Path:
    """The file that `text` means: itself, or the one of that name in suites/."""
    path = Path(text)
    named = Path("suites") / f"{text}.yaml"
    return named if not path.exists() and path.name == text and named.exists() else path


def _plans(suites: Sequence[str], options: RunOptions, database: str) -> tuple[Device, Catalogue, list[Planned]]:
    """Everything is checked before anything is measured: all files, all names, the device."""
    from bench.catalogue import load_catalogue
    from bench.machine import find_device
    from bench.run import make_plan
    from bench.suite import expand, load_suite, parse_filters

    catalogue = load_catalogue([Path(path) for path in options.plugins])
    device = find_device(options.device)
    wanted = parse_filters(options.filters)
    loaded = []
    problems: list[Problem] = []
    for path in dict.fromkeys(suite_path(text) for text in suites):
        try:
            suite = load_suite(path, catalogue, profile=options.profile, sets=options.sets)
            loaded.append((path, suite, expand(suite, catalogue, device=device.kind, filters=wanted)))
        except SuiteError as error:
            problems += error.problems
    if problems:
        raise SuiteError(problems)
    earlier = _earlier_results(database)
    planned = []
    try:
        for path, suite, expansion in loaded:
            own = replace(options, suite_file=str(path))
            plan = make_plan(suite, expansion, own, store=earlier)
            if not plan.trials:
                raise SelectionError(f"{path}: part {options.shard} of the plan is empty; there are fewer blocks than parts")
            planned.append(Planned(suite, plan, own, _not_measured(plan, catalogue)))
    finally:
        if earlier is not None:
            earlier.__exit__(None, None, None)
    return device, catalogue, planned


def _earlier_results(database: str) -> Store | None:
    """The database where there is one already: planning must not make one, and an unfit one is reported when it is needed."""
    from bench.store import Store

    try:
        return Store.open(database, create=False, read_only=True)
    except StoreError:
        return None


def _not_measured(plan: Plan, catalogue: Catalogue) -> tuple[tuple[str, str, str, int], ...]:
    from bench.run.preflight import preflight

    counts: Counter[tuple[str, str, str]] = Counter()
    for case in plan.cases:
        refusal = preflight(case, catalogue)
        if refusal is not None:
            counts[case.subject_label, str(refusal.status), refusal.reason or ""] += 1
    return tuple((*key, count) for key, count in counts.items())


def _say_plan(planned: Planned) -> None:
    plan, suite = planned.plan, planned.suite
    without = sum(count for *_, count in planned.not_measured)
    say(f"\n{plain(suite.name)}: {plain(suite.question)}")
    say(
        f"  {len(plan.cases)} cases, {len(plan.trials)} trials in {len(plan.blocks)} blocks, "
        f"about {spell_duration(_seconds(planned))} ({plan.estimate_source})"
    )
    left_out = [f"{plan.excluded} cases by the suite's rules"] if plan.excluded else []
    left_out += [f"{plan.filtered} by --filter"] if plan.filtered else []
    if left_out:
        say(f"  left out: {', '.join(left_out)}")
    if without:
        say(f"  {without} cases get a row without being started:")
        rows = [(f"  {subject}", f"{count} {status}", reason) for subject, status, reason, count in planned.not_measured]
        for line in table(("", "", ""), rows, widest=110).splitlines()[1:]:
            say(f"  {line}")


def _seconds(planned: Planned) -> float:
    """The plan's guess, without the trials that start no process."""
    plan = planned.plan
    refused = {subject for subject, *_ in planned.not_measured}
    idle = [trial for trial in plan.trials if trial.case.subject_label in refused] if refused else []
    return max(plan.estimated_s - plan.seconds(idle), 0.0)


def _plan_data(planned: Planned) -> dict[str, Any]:
    plan = planned.plan
    return {
        "suite": planned.suite.name,
        "file": planned.options.suite_file,
        "cases": len(plan.cases),
        "trials": len(plan.trials),
        "blocks": len(plan.blocks),
        "estimated_s": round(_seconds(planned), 1),
        "estimate_source": plan.estimate_source,
        "excluded_cases": plan.excluded,
        "filtered_cases": plan.filtered,
        "not_measured": [
            {"subject": subject, "status": status, "reason": reason, "cases": count}
            for subject, status, reason, count in planned.not_measured
        ],
    }


class _Session:
    """What one call of the command measured, and how it ends: a report and an exit code whatever happened in between."""

    def __init__(self, store: Store, database: str, report_file: Path | None, as_json: bool) -> None:
        self._store = store
        self._database = database
        self._report_file = report_file
        self._as_json = as_json
        self._summaries: list[RunSummary] = []
        self._interrupted = False

    def notices(self) -> None:
        for notice in self._store.notices:
            note(notice)

    def measure(self, planned: Sequence[Planned], device: Device, catalogue: Catalogue, budget_s: float | None) -> None:
        """All suites, the most important first; the budget is for all of them."""
        from bench.run import execute

        began = time.monotonic()
        for position, entry in enumerate(planned):
            left_s = None if budget_s is None else budget_s - (time.monotonic() - began)
            if left_s is not None and left_s <= 0:
                names = ", ".join(rest.suite.name for rest in planned[position:])
                note(f"the budget is spent; not begun: {names}")
                return
            options = replace(entry.options, budget_s=left_s)
            if not self._as_json:
                say(f"\nmeasuring {plain(entry.suite.name)}")
            try:
                summary = execute(entry.plan, entry.suite, self._store, device, catalogue, options, progress=self._progress)
            except KeyboardInterrupt:
                self._interrupted = True
                return
            except (BenchError, HarnessError):
                self._leave_report()
                raise
            self._took(summary)
            if self._interrupted:
                return

    def resume(self, text: str, device: str | None, budget_s: float | None, *, wait: bool) -> None:
        from bench.run import resume

        self._took(resume(text, self._store, device=device, budget_s=budget_s, wait_for_lock=wait, progress=self._progress))

    def _took(self, summary: RunSummary) -> None:
        self._summaries.append(summary)
        self._interrupted = self._interrupted or summary.exit_code == INTERRUPTED
        if not self._as_json:
            _say_summary(self._store, summary)

    def _progress(self, progress: Progress) -> None:
        left = f"{spell_duration(progress.left_s)} left" if progress.done < progress.planned else "done"
        wide = len(str(progress.planned))
        note_line = f"[{progress.done:>{wide}}/{progress.planned}, {left}] {progress.text}" if progress.result else progress.text
        click.echo(plain(note_line), err=True)

    def _leave_report(self) -> Path | None:
        """Renders what there is; None without --report or without a run."""
        from bench.cli.report import kind_of, write_report

        if self._report_file is None:
            return None
        stored = {run.id: run for run in self._store.runs()}
        runs = [stored[summary.run_id] for summary in self._summaries if summary.run_id in stored]
        if not runs:
            note("nothing was measured, so there is no report")
            return None
        write_report(self._store, runs, self._report_file, kind_of(self._report_file, None))
        return self._report_file

    def close(self) -> int:
        """The report, the last words, and the exit code."""
        written = self._leave_report()
        if self._as_json:
            self._say_json(written)
        elif written is not None:
            say(f"\nreport: {written}")
        if self._interrupted:
            return INTERRUPTED
        return 0 if any(summary.exit_code == 0 for summary in self._summaries) else NOTHING_OK

    def _say_json(self, written: Path | None) -> None:
        from bench.report import rows_json

        stored = {run.id: run for run in self._store.runs()}
        say_json(
            {
                "runs": [
                    {
                        "run": summary.run_id,
                        "suite": stored[summary.run_id].suite,
                        "state": str(summary.state),
                        "planned_trials": summary.planned,
                        "rows_before": summary.before,
                        "rows": {str(status): count for status, count in summary.counts.items()},
                        "duration_s": summary.duration_s,
                        **rows_json([stored[summary.run_id]], self._store.results([summary.run_id])),
                    }
                    for summary in self._summaries
                    if summary.run_id in stored
                ],
                "report": str(written) if written is not None else None,
            }
        )


def _say_summary(store: Store, summary: RunSummary) -> None:
    from bench.cli.tables import answers, case_table, status_line

    if not summary.results and not summary.before:
        say(f"\nrun {summary.run_id}: {summary.state} before its first row")
        return
    run = store.find_run(summary.run_id)
    results = store.results([run.id])
    say(f"\n{case_table(run, results)}\n")
    for line in answers(run, results):
        say(line)
    rows = f"{len(results)} of {summary.planned} trials have a row: {status_line(results)}"
    say(f"\nrun {run.id} is {run.state} after {spell_duration(summary.duration_s)}; {rows}")
    if len(results) < summary.planned:
        say(f"  bench run --resume {run.id[:SHORT_ID]}   goes on")
    say(f"  bench report {run.id[:SHORT_ID]}         the report as one HTML file")
    if results:
        say(f"  bench show {results[0].id}   one row in full")


SHORT_ID = 13
"""Digits of an id that carry its time: enough to be unique among the runs of one person."""
