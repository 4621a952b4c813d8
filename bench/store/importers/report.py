"""Our own HTML report: the rows of which it holds the trial medians, so that two pages that were mailed can be compared.

A page is less than the database it was made of: it tells the median of each trial and not its samples, how many of them there were, and
neither logs nor seeds; of its checks all, or in older versions those nearest to their limit. So these rows are other rows than the
measured ones: ids of their own, made of what the page tells, and `imported` as the run's reason. Cases, hardware and method are those
that were measured, and comparisons hold such rows against any others. A run without a label is labelled with the id that the page prints.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from bench.machine.named_processes import BUSY, OTHER
from bench.metrics import METRICS
from bench.records import IMPORTED, Json, Measurement, Proof, Result, Run, Status, Trial, canonical_json, dump
from bench.store.anonymous import nameless_processes
from bench.store.intake import Intake
from bench.store.page_data import NoPage, PageCase, PageData, PageTrial, read_page_data
from bench.store.source import Source

NAME = "report"
MAPPING_VERSION = 2
"""Raised when the same page is read in another way."""
NOT_TOLD = ("samples", "seed", "duration_s", "log", "clocks", "block", "position")
OTHER_CHECKS = "checks but the nearest"
_HOW_FAR = ("state", "finished_at", "planned_trials")
"""What a later page of the same run tells otherwise."""


def is_from_page(run: Run) -> bool:
    """Whether a stored run came with a report page, and not from another tool."""
    source = run.options.get("source")
    return run.reason == IMPORTED and isinstance(source, dict) and source.get("format") == NAME


def recognises(head: str) -> bool:
    return head.lstrip("\ufeff \t\r\n")[:15].lower() == "<!doctype html>"


def read(source: Source, intake: Intake) -> None:
    try:
        page = read_page_data("".join(source.text_lines()))
    except NoPage as error:
        source.refuse(str(error), number=1)
    origin: dict[str, Json] = {
        "format": NAME,
        "file": source.path.name,
        "sha256": source.sha256,
        "mapping_version": MAPPING_VERSION,
    }
    origin |= {"written_by": page.written_by, "rendered_at": page.generated_at}
    if not page.trials:
        source.refuse("the page holds no results", number=1)
    runs = [_run(run, origin) for run in page.runs]
    for number, run in enumerate(runs):
        _hand_in(intake, page, number, run, origin)


def _hand_in(intake: Intake, page: PageData, number: int, run: Run, origin: dict[str, Json]) -> None:
    own = [trial for trial in page.trials if page.cases[trial.case].run == number]
    made = {_result_id(run, page.cases[trial.case], trial): trial for trial in own}
    known = intake.known(made)
    intake.count_same(results=len(known))
    if not made.keys() - known:
        intake.count_same(runs=1)
        return
    intake.run(run, f"run {page.runs[number].id}")
    places: dict[str, int] = {}
    for result_id, trial in made.items():
        if result_id not in known:
            block = places.setdefault(page.cases[trial.case].case.point_key, len(places))
            result = _result(result_id, run, page, trial, block, origin | {"run": page.runs[number].id})
            intake.result(result, f"result {trial.result}")


def _run(run: Run, origin: dict[str, Json]) -> Run:
    told = {name: value for name, value in dump(run).items() if name not in _HOW_FAR}
    return replace(
        run,
        id=_id("run", canonical_json(told)),
        # Which page it came from differs between two pages of one run, so it stands in the rows.
        options={**run.options, "source": {"format": NAME, "run": run.id}},
        label=run.label or run.id,
        reason=IMPORTED,
        parent_run_id=None,
        harness_version=run.harness_version or str(origin["written_by"]),
    )


def _result_id(run: Run, case: PageCase, trial: PageTrial) -> str:
    """The same for the same row, and another one where a page tells other numbers."""
    said = [
        trial.result,
        case.case.key,
        case.arm,
        trial.index,
        trial.attempt,
        str(trial.status),
        dict(trial.medians),
        run.started_at,
    ]
    return _id("result", canonical_json(said))


def _result(result_id: str, run: Run, page: PageData, trial: PageTrial, block: int, origin: dict[str, Json]) -> Result:
    case = page.cases[trial.case]
    began = _moment(run.started_at, trial.at_s)
    unknown = {
        "started_at": began is None,
        "command": not case.command,
        OTHER_CHECKS: trial.checks is not None and not trial.checks.whole,
    }
    not_told = [*NOT_TOLD, *(what for what, absent in unknown.items() if absent)]
    # What a page tells of them speaks for or against a trial: whether others computed on its GPU, and in which numerics it trained.
    told = {**trial.conditions, **nameless_processes(trial.conditions)}
    conditions: dict[str, Json] = {**told, "source": {**origin, "result": trial.result, "not_told": not_told}}
    if trial.gpu is not None:
        conditions["gpu_uuid"] = trial.gpu
    if trial.busy_share is not None:
        conditions = {BUSY: [OTHER], **conditions, "machine_busy_share": trial.busy_share}
    proof = Proof(case.proof, (), "as a report tells it") if case.proof is not None and trial.status is Status.OK else None
    return Result(
        id=result_id,
        run_id=run.id,
        trial=Trial(case.case, trial.index, block, 0, case.arm, attempt=trial.attempt),
        status=trial.status,
        reason=trial.reason,
        environment=page.environments[trial.environment],
        started_at=began or run.started_at,
        duration_s=None,
        seed=None,
        command=case.command or f"# the report does not tell how it was measured ({origin['file']}, result {trial.result})",
        measurements=tuple(_measurements(trial)),
        proof=proof,
        cost=case.cost,
        conditions=conditions,
        checks=() if trial.checks is None else trial.checks.shown,
        method_version=trial.method_version,
        harness_version=run.harness_version,
    )


def _measurements(trial: PageTrial) -> Iterable[Measurement]:
    for name, value in trial.medians.items():
        metric = METRICS.get(name)
        if metric is not None:
            many = f"of {trial.samples} samples" if trial.samples is not None and metric.unit == "s" else "of its samples"
            yield Measurement(name, metric.unit, (value,), note=f"one number, the median {many}, as a report tells it")


def _moment(started_at: str, after_s: float | None) -> str | None:
    if after_s is None:
        return None
    try:
        return (datetime.fromisoformat(started_at) + timedelta(seconds=after_s)).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):
        return None


def _id(*parts: str) -> str:
    """A UUID of version 8 from a hash, so that the same content has one id on every machine."""
    digest = int.from_bytes(hashlib.sha256("\x00".join((NAME, *parts)).encode("utf-8", "surrogatepass")).digest()[:16], "big")
    return str(uuid.UUID(int=digest & ~(0xF << 76) & ~(0b11 << 62) | 0x8 << 76 | 0b10 << 62))
