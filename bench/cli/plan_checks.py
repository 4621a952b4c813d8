"""`bench plan --validate` and `--grid`: predictions held against what was measured, and the suites that measure it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cli.fitting import folded_table, terminal_columns
from bench.cli.terminal import note, say, say_json

if TYPE_CHECKING:
    from bench.plan.validate import Comparison, Measured
    from bench.records import Result, Run

GIB = 2**30
TOTAL = "peak_total_bytes"
NOTHING = 3
"""The exit code where nothing could be compared."""
SAME_PEAK = 0.005
"""By how much the pass that tells causes may peak elsewhere; its causes are not used beyond."""


def write_grid(folder: Path) -> None:
    """The suites of the grid, a file each. Raises PlanError where the folder cannot be written."""
    from bench.plan.grid import configurations, suites
    from bench.plan.spec import PlanError

    grid = configurations()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = []
        for name, text in suites(grid):
            (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
            names.append(name)
    except OSError as error:
        raise PlanError(f"{folder} cannot be written: {error}") from error
    say(f"{len(grid)} configurations in {len(names)} suites: bench run {folder}/*.yaml")


def validate(database: str, *, of_grid: bool, as_json: bool, as_markdown: bool, write: Sequence[Path]) -> int:
    """The error table of all rows of `train_step` on CUDA, or those of the grid's suites.

    0 where all are within their tolerance, 1 where one is not, 3 without any.
    """
    from bench.plan import error_table
    from bench.plan.grid import part_of
    from bench.plan.validate import compare
    from bench.store import Store

    with Store.open(database, create=False, read_only=True) as store:
        runs = {run.id: run for run in store.runs()}
        suites = {run.id: run.suite for run in runs.values()}
        wanted = [run for run, suite in suites.items() if part_of(suite) is not None or not of_grid]
        found = [result for result in store.results(wanted, metrics=[TOTAL, *_cause_metrics()]) if _wanted(result)]
    lines, told = compare(_measured(found, suites)), _measured_on(found, runs)
    for path in write if lines else ():
        error_table.write(path, lines, told)
        note(f"error table: {path}")
    if as_json:
        say_json(error_table.as_data(lines, told))
    elif as_markdown and lines:
        say(error_table.markdown(lines, told).rstrip("\n"))
    else:
        _show(lines)
    judged = [line.passed for line in lines if line.passed is not None]
    if not judged:
        return NOTHING
    return 0 if all(judged) else 1


def _cause_metrics() -> list[str]:
    from bench.metrics import PEAK_CAUSES

    return [f"peak_{cause}_bytes" for cause, _ in PEAK_CAUSES]


def _wanted(result: Result) -> bool:
    from bench.plan.stored import WORKLOAD
    from bench.records import Status

    on_cuda = result.case.workload == WORKLOAD and result.case.device == "cuda"
    return on_cuda and result.status is Status.OK and result.measurement(TOTAL) is not None


def _measured(results: Sequence[Result], suites: Mapping[str, str]) -> Iterator[Measured]:
    """Medians over the trials of each case in the latest run that has it."""
    from bench.metrics import PEAK_CAUSES
    from bench.plan.grid import part_of
    from bench.plan.stored import stored
    from bench.plan.validate import OTHER, Measured
    from bench.stats import median

    cases: dict[str, list[Result]] = {}
    for result in results:
        cases.setdefault(result.case.key, []).append(result)
    latest = {key: max(trial.run_id for trial in trials) for key, trials in cases.items()}  # ids of runs sort by time
    cases = {key: [trial for trial in trials if trial.run_id == latest[key]] for key, trials in cases.items()}
    for trials in cases.values():
        case = trials[0].case

        def middle(metric: str, trials: list[Result] = trials) -> float | None:
            values = [found.samples[0] for trial in trials if (found := trial.measurement(metric)) is not None and found.samples]
            return median(values) if values else None

        peak = middle(TOTAL)
        causes = {cause: value for cause, _ in PEAK_CAUSES if (value := middle(f"peak_{cause}_bytes")) is not None}
        foretold = [found.peak_bytes for trial in trials if (found := stored(trial.conditions)) is not None]
        if peak:
            params = {**case.params, "world_size": case.world_size}
            explained = causes if abs(sum(causes.values()) - peak) <= SAME_PEAK * peak else {}
            part, before = part_of(suites[trials[0].run_id]) or OTHER, foretold[0] if foretold else None
            environment = trials[0].environment
            device = f"{environment.hard.get('gpu_model')}, driver {environment.soft.get('driver')}"
            yield Measured(params, case.subject, peak, explained, part, before, device)


def _measured_on(results: Sequence[Result], runs: Mapping[str, Run]) -> dict[str, str]:
    """Device, driver and versions, each with all values that the rows have."""
    found: dict[str, dict[str, None]] = {}
    for result in results:
        facts = {"GPU": result.environment.hard.get("gpu_model"), "driver": result.environment.soft.get("driver")}
        facts |= {item.name: item.version for item in runs[result.run_id].revision}
        for name, value in {**facts, "bench": result.harness_version}.items():
            if value is not None:
                found.setdefault(name, {})[str(value)] = None
    return {name: " and ".join(values) for name, values in found.items()}


def _show(lines: Sequence[Comparison]) -> None:
    from bench.plan.error_table import how, where
    from bench.plan.validate import by_cause, device_constants, summaries

    if not lines:
        say("no rows of train_step on CUDA with peak_total_bytes: measure some with bench run, see --grid")
        return
    rows = []
    for line in lines:
        predicted = "-" if line.prediction is None else f"{line.prediction.peak_bytes / GIB:.2f}"
        verdict = {True: "within", False: "off", None: "no formulas"}[line.passed]
        causes = line.refused or ", ".join(
            f"{cause} {ours / GIB:.2f} for {theirs / GIB:.2f}" for cause, (ours, theirs) in line.causes_off().items()
        )
        rows.append(
            (where(line.measured.params), how(line.measured.subject), line.measured.part, predicted,
             f"{line.measured.peak_bytes / GIB:.2f}", _percent(line.error), _percent(line.foretold_error), verdict, causes)
        )  # fmt: skip
    heads = ("case", "trained with", "part", "predicted GiB", "measured GiB", "error", "foretold", "verdict", "causes that are off")
    say(folded_table(heads, rows, terminal_columns(), right=[3, 4, 5, 6]))
    say()
    for entry in summaries(lines):
        say(
            f"{entry.part}: {entry.predicted} of {entry.cases} cases predicted, {entry.within} within 5 %; error without sign: median "
            f"{entry.median * 100:.2f} %, 95 % below {entry.percentile_95 * 100:.2f} %, largest {entry.largest * 100:.2f} %"
        )
    if furthest := [f"{entry.cause} {entry.largest_bytes / GIB:+.2f} GiB" for entry in by_cause(lines)]:
        say(f"largest distances by cause: {', '.join(furthest)}")
    for constant in device_constants(lines):
        say(
            f"constants of {constant.device}: workspaces {constant.workspace_bytes / 2**20:.1f} MiB in {constant.cases} cases, "
            f"{constant.predicted_bytes / 2**20:.1f} predicted"
        )
    say(
        "within: 5 % of the whole, and of each cause 10 % or 100 MiB; where GPUs share a step 10 % of the whole; "
        "foretold: what was predicted before the row ran"
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:+.2f} %"
