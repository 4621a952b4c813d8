"""`bench plan --validate` and `--grid`: predictions held against what was measured, and the suites that measure it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.cli.terminal import say, say_json, table

if TYPE_CHECKING:
    from bench.plan.validate import Comparison, Measured
    from bench.records import Result

GIB = 2**30
TOTAL = "peak_total_bytes"
NOTHING = 3
"""The exit code where nothing could be compared."""
SHOWN_PARAMS = ("model", "seq_len", "batch", "accumulation", "packing", "dropout")


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


def validate(database: str, *, as_json: bool) -> int:
    """The error table of all rows of `train_step` on CUDA. 0 where all are within their tolerance, 1 where one is not, 3 without any."""
    from bench.plan.validate import compare
    from bench.store import Store

    with Store.open(database, create=False, read_only=True) as store:
        metrics = [TOTAL, *_cause_metrics()]
        found = store.results([run.id for run in store.runs()], metrics=metrics)
    lines = compare(_measured(found))
    if as_json:
        say_json([_as_json(line) for line in lines])
    else:
        _show(lines)
    judged = [line.passed for line in lines if line.passed is not None]
    if not judged:
        return NOTHING
    return 0 if all(judged) else 1


def _cause_metrics() -> list[str]:
    from bench.metrics import PEAK_CAUSES

    return [f"peak_{cause}_bytes" for cause, _ in PEAK_CAUSES]


def _measured(results: Sequence[Result]) -> Iterator[Measured]:
    from bench.metrics import PEAK_CAUSES
    from bench.plan.validate import Measured
    from bench.records import Status
    from bench.stats import median

    cases: dict[str, list[Result]] = {}
    for result in results:
        wanted = result.case.workload == "train_step" and result.case.device.startswith("cuda") and result.status is Status.OK
        if wanted and result.measurement(TOTAL) is not None:
            cases.setdefault(result.case.key, []).append(result)
    for trials in cases.values():
        case = trials[0].case

        def middle(metric: str, trials: list[Result] = trials) -> float | None:
            values = [found.samples[0] for trial in trials if (found := trial.measurement(metric)) is not None and found.samples]
            return median(values) if values else None

        peak = middle(TOTAL)
        causes = {cause: value for cause, _ in PEAK_CAUSES if (value := middle(f"peak_{cause}_bytes")) is not None}
        if peak:
            yield Measured(case.params, case.subject, peak, causes)


def _named(line: Comparison) -> tuple[str, str]:
    from bench.plan.spec import DEFAULTS

    params, subject = line.measured.params, line.measured.subject
    where = " ".join(f"{name}={params[name]}" for name in SHOWN_PARAMS if params.get(name) not in (None, 0.0))
    ways = " ".join(f"{slot}={name}" for slot, name in subject.items() if DEFAULTS.get(slot) != name)
    return where, ways or "defaults"


def _show(lines: Sequence[Comparison]) -> None:
    if not lines:
        say("no rows of train_step on CUDA with peak_total_bytes: measure some with bench run, see --grid")
        return
    rows = []
    for line in lines:
        where, ways = _named(line)
        predicted = "-" if line.prediction is None else f"{line.prediction.peak_bytes / GIB:.2f}"
        error = "-" if line.error is None else f"{line.error * 100:+.1f} %"
        verdict = {True: "within", False: "off", None: "no formulas"}[line.passed]
        causes = line.refused or ", ".join(
            f"{cause} {ours / GIB:.2f} for {theirs / GIB:.2f}" for cause, (ours, theirs) in line.causes_off().items()
        )
        rows.append((where, ways, predicted, f"{line.measured.peak_bytes / GIB:.2f}", error, verdict, causes))
    heads = ("case", "switched on", "predicted GiB", "measured GiB", "error", "verdict", "causes that are off")
    say(table(heads, rows, right=[2, 3, 4], widest=110))
    errors = [abs(line.error) for line in lines if line.error is not None]
    if errors:
        say()
        say(f"{len(errors)} of {len(lines)} cases predicted, largest error {max(errors) * 100:.1f} %")
        say("within: 5 % of the whole, and of each cause 10 % or 100 MiB")


def _as_json(line: Comparison) -> dict[str, Any]:
    return {
        "params": dict(line.measured.params),
        "subject": dict(line.measured.subject),
        "measured_bytes": line.measured.peak_bytes,
        "measured_causes": dict(line.measured.causes),
        "predicted_bytes": None if line.prediction is None else line.prediction.peak_bytes,
        "predicted_causes": {} if line.prediction is None else line.prediction.peak.by_category(),
        "error": line.error,
        "passed": line.passed,
        "refused": line.refused,
    }
