"""An audit as a run with one row: marked as somebody's own, so that nothing of it is ever compared with what suites measure.

How it is kept apart. The run's reason is `external`, which histories, nights, comparisons, publishing and `latest` leave out. The workload
is `external:SCRIPT`, so no case of a suite has its key; the hard facts begin with who measured; there is neither check nor proof, and the
version of the method is 0, which no way of measuring of ours has. Interpreter and packages are the script's, not ours.

What was seen is kept whole in the row's conditions. Findings follow from it and are not stored: a later version may find more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from bench.audit.modelled import accumulation, batch_shape
from bench.audit.recognised import recognise
from bench.audit.whole import CONDITION, Audit, from_data
from bench.audited import Audited
from bench.errors import DeviceError, SelectionError
from bench.machine import environment, find_device, harness_version, scrub_data
from bench.metrics import METRICS, PEAK_CAUSES
from bench.records import (
    EXTERNAL,
    NO_METHOD_OF_OURS,
    Case,
    Environment,
    Measurement,
    Pass,
    Result,
    Run,
    RunState,
    Scalar,
    Status,
    Trial,
)
from bench.workloads.precision import NUMERICS

if TYPE_CHECKING:
    from bench.store import Store

LONGEST_NAME = 120
UNKNOWN = "unknown"
QUESTION = "What is switched on in this script, and what should be switched on next?"
SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size")


def store_audit(
    audit: Audit, store: Store, *, label: str | None, started_at: str, finished_at: str, duration_s: float
) -> tuple[Run, Result]:
    """Writes the run and its row, each in one transaction. Raises StoreError."""
    from bench.store import new_id

    shown = from_data(scrub_data(audit.data()))
    name = f"{EXTERNAL}:{shown.script[:LONGEST_NAME]}"
    run = Run(
        id=new_id(),
        suite=name,
        suite_file=None,
        suite_data={"name": name, "workload": name},
        options={"steps": audit.steps_asked},
        question=QUESTION,
        seed=None,
        command=shown.command,
        device="cuda" if audit.on_cuda else "cpu",
        started_at=started_at,
        state=RunState.FINISHED,
        planned_trials=1,
        label=label,
        finished_at=finished_at,
        reason=EXTERNAL,
        harness_version=harness_version(),
    )
    status, reason = _outcome(shown)
    bad = shown.failed
    measured = () if status not in (Status.OK, Status.INVALID) else tuple(_measurements(shown))
    result = Result(
        id=new_id(),
        run_id=run.id,
        trial=Trial(_case(shown, name), 0, 0, 0),
        status=status,
        reason=reason,
        environment=_environment(shown),
        started_at=started_at,
        duration_s=duration_s,
        seed=None,
        command=shown.command,
        error_type=bad.ended.error_type if bad is not None else None,
        measurements=measured,
        conditions={CONDITION: shown.data()},
        method_version=NO_METHOD_OF_OURS,
        harness_version=run.harness_version,
    )
    store.add_run(run)
    store.add_result(result)
    return run, result


def load_audit(store: Store, text: str) -> tuple[Run, Result, Audit]:
    """The audit that a word means: `latest`, a run or a result by id, by the beginning of one, or by label. Raises SelectionError."""
    run = _latest(store) if text == "latest" else None
    if run is None:
        try:
            run = store.find_run(text)
        except SelectionError as no_run:
            try:
                run = store.find_run(store.find_result(text).run_id)
            except SelectionError:
                raise no_run from None
    return audit_of(store, run)


def audit_of(store: Store, run: Run) -> tuple[Run, Result, Audit]:
    """Of a run that is one. Raises SelectionError for any other."""
    if run.reason != EXTERNAL:
        raise SelectionError(
            f"run {run.id} is no audit but a run of {run.suite}: bench compare holds two of those against each other"
        )
    found = store.results([run.id], include_excluded=True)
    if not found:
        raise SelectionError(f"the audit {run.id} has no row: its process died before it was stored")
    return run, found[0], audit_in(found[0])


def audit_in(result: Result) -> Audit:
    """What the row of an audit saw. Raises SelectionError where it holds none, or one of a later version."""
    try:
        return from_data(result.conditions.get(CONDITION))
    except ValueError as error:
        raise SelectionError(f"result {result.id}: {error}") from error


def labelled(store: Store, text: str) -> list[Run]:
    """The audits of this label, oldest first."""
    return [run for run in reversed(store.runs()) if run.reason == EXTERNAL and run.label == text]


def _latest(store: Store) -> Run:
    found = next((run for run in store.runs() if run.reason == EXTERNAL), None)
    if found is None:
        raise SelectionError("the database holds no audit yet: bench audit -- python train.py makes one")
    return found


def _outcome(audit: Audit) -> tuple[Status, str | None]:
    bad = audit.failed
    if bad is not None and bad.ended.how == "interrupted":
        return Status.FAILED, "the script was interrupted"
    if bad is not None:
        said = f"{bad.ended.error_type}: {bad.ended.message}"
        return (Status.OOM if bad.ended.out_of_memory else Status.FAILED), f"the script ended by itself: {said}"
    if audit.status:
        killed = not audit.ended.startswith("exit status")
        return (Status.CRASHED if killed else Status.FAILED), f"the command ended with {audit.ended}"
    if not audit.trained:
        return Status.FAILED, "no update of weights was seen"
    if not audit.step_s:
        return Status.INVALID, "the script ended before an update could be timed undisturbed"
    return Status.OK, None


def _measurements(audit: Audit) -> Iterator[Measurement]:
    if audit.step_s:
        yield Measurement("time_s", "s", audit.step_s)
    if len(audit.ranks) > 1:
        for one in audit.ranks:
            if one.steps is not None and one.steps.timed_s:
                yield Measurement("time_s", "s", one.steps.timed_s, scope=f"rank:{one.rank}")
    if audit.fullest is not None:
        yield from _memory(audit.fullest)
    seen = audit.first
    if seen is not None and seen.optimizers:
        states = [state for one in seen.optimizers for state in one.states]
        yield _single("state_bytes", sum(state.bytes for state in states))
        if audit.on_cuda:
            yield _single("state_host_bytes", sum(state.bytes for state in states if state.place != "cuda"))


def _memory(seen: Audited) -> Iterator[Measurement]:
    memory = seen.memory
    if memory is None:
        return
    known = {cause for cause, _ in PEAK_CAUSES}
    yield _single("peak_total_bytes", memory.peak_bytes)
    for cause in memory.causes:
        if cause.cause in known:
            yield _single(f"peak_{cause.cause}_bytes", cause.bytes)
    for phase in ("forward", "backward", "optimizer"):
        if phase in memory.phase_peaks:
            yield _single(f"{phase}_peak_bytes", memory.phase_peaks[phase])
    if memory.allocator_retries is not None:
        yield _single("allocator_retries", memory.allocator_retries)


def _single(metric: str, value: float) -> Measurement:
    return Measurement(metric, METRICS[metric].unit, (float(value),))


def _case(audit: Audit, name: str) -> Case:
    seen = audit.first
    filled = dict(recognise(audit).filled) if audit.trained else {}
    config: Mapping[str, Scalar] = seen.model.config if seen is not None and seen.model is not None else {}
    params: dict[str, Scalar] = {} if seen is None or seen.model is None else {"model": seen.model.class_name[:LONGEST_NAME]}
    params |= {size: config[size] for size in SIZES if isinstance(config.get(size), int)}
    shape, micro = batch_shape(audit), accumulation(audit)
    if shape is not None:
        params |= {"batch": shape[0], "seq_len": shape[1]}
    if micro is not None:
        params["accumulation"] = micro
    numerics = NUMERICS.get(filled.get("precision", ""))
    return Case(
        workload=name,
        workload_version=1,
        subject=filled or {"script": audit.script[:LONGEST_NAME]},
        pass_=Pass.STEP,
        dtype=numerics.compute if numerics is not None else UNKNOWN,
        device="cuda" if audit.on_cuda else "cpu",
        cache="warm",
        timer="events" if audit.on_cuda else "wall",
        params=params,
        world_size=max(1, seen.world_size) if seen is not None else 1,
    )


def _environment(audit: Audit) -> Environment:
    """Hardware as this machine tells it, software as the script had it."""
    seen = audit.first
    hard: dict[str, Scalar] = {"measured_by": EXTERNAL}
    soft: dict[str, Scalar] = {}
    world = max(1, seen.world_size) if seen is not None else 1
    threads = seen.device.threads if seen is not None and seen.device is not None else None
    try:
        device = find_device("cuda" if audit.on_cuda else "cpu")
        found = environment(device, threads=threads or len(os.sched_getaffinity(0)), world_size=world, variables={})
        hard |= found.hard
        soft |= {name: value for name, value in found.soft.items() if not name.startswith("package:") and name != "python"}
    except DeviceError as error:
        # The script has used a GPU that NVML does not tell us about, and its audit is not thrown away for that.
        hard |= {"device": "cuda", "count": world}
        soft["nvml"] = str(error)
    if audit.gpu is not None:
        hard["gpu_model"] = audit.gpu
    if seen is not None:
        versions = dict(seen.versions)
        soft |= {"python": versions.pop("python", None)} if "python" in versions else {}
        soft |= {f"package:{name}": version for name, version in versions.items()}
        soft |= {f"env:{name}": value for name, value in seen.environment.items()}
    return Environment(hard, {name: value for name, value in soft.items() if value is not None})
