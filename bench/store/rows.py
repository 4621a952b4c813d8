"""Records to rows and back, without a database: what is read equals what was stored.

What one way refuses, the other refuses too. Rows to records: ValueError, KeyError or TypeError says that a row does not read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from bench import stats
from bench.metrics import METRICS
from bench.records import (
    Case,
    Check,
    Cost,
    Environment,
    Json,
    Measurement,
    Pass,
    Proof,
    Result,
    RevisionItem,
    Run,
    RunState,
    Scalar,
    Status,
    Trial,
    canonical_json,
    fingerprint,
)
from bench.store.blobs import pack_log, pack_samples, unpack_samples

Row = dict[str, Any]
Moment = TypeVar("Moment", str, str | None)


_in_order = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def ordered_json(data: Json) -> str:
    """JSON that keeps the order of keys. Raises ValueError on NaN and infinities."""
    return _in_order.encode(data)


# --- records to rows -------------------------------------------------------------------------------------------------------------


def run_row(run: Run) -> Row:
    return {
        "id": run.id,
        "suite": run.suite,
        "suite_file": run.suite_file,
        "suite_data": ordered_json(dict(run.suite_data)),
        "options": ordered_json(dict(run.options)),
        "question": run.question,
        "seed": _whole("seed", run.seed),
        "command": run.command,
        "device": run.device,
        "started_at": _moment("started_at", run.started_at),
        "state": run.state.value,
        "planned_trials": _whole("planned_trials", run.planned_trials),
        "label": run.label,
        "finished_at": _moment("finished_at", run.finished_at),
        "reason": run.reason,
        "harness_version": run.harness_version,
        "parent_run_id": run.parent_run_id,
    }


def revision_rows(run: Run) -> list[Row]:
    return [
        {
            "run_id": run.id,
            "ordinal": ordinal,
            "name": item.name,
            "kind": item.kind,
            "version": item.version,
            "commit_hash": item.commit,
            "dirty": item.dirty,
            "diff_hash": item.diff_hash,
        }
        for ordinal, item in enumerate(run.revision)
    ]


def case_row(case: Case, key: str) -> Row:
    return {
        "key": key,
        "point_key": case.point_key,
        "workload": case.workload,
        "workload_version": _whole("workload_version", case.workload_version),
        "pass_": case.pass_.value,
        "dtype": case.dtype,
        "device": case.device,
        "cache": case.cache,
        "timer": case.timer,
        "world_size": _whole("world_size", case.world_size),
    }


def subject_rows(case: Case, key: str) -> list[Row]:
    return [{"case_key": key, "slot": slot, "implementation": name} for slot, name in case.subject.items()]


def param_rows(case: Case, key: str) -> list[Row]:
    return [
        {"case_key": key, "name": name, "ordinal": ordinal, "value": canonical_json(value), "number": _number(value)}
        for ordinal, (name, value) in enumerate(case.params.items())
    ]


def environment_row(environment: Environment) -> Row:
    hard, soft = environment.hard_hash, environment.soft_hash
    return {"id": fingerprint([hard, soft]), "hard_hash": hard, "soft_hash": soft}


def environment_item_rows(environment: Environment, environment_id: str) -> list[Row]:
    return [
        {"environment_id": environment_id, "side": side, "name": name, "value": canonical_json(value)}
        for side, facts in (("hard", environment.hard), ("soft", environment.soft))
        for name, value in facts.items()
    ]


def result_row(result: Result, case_key: str, environment_id: str) -> Row:
    trial, cost, proof = result.trial, result.cost or Cost(), result.proof
    return {
        "id": result.id,
        "run_id": result.run_id,
        "case_key": case_key,
        "environment_id": environment_id,
        "arm": trial.arm,
        "trial_index": _whole("index", trial.index),
        "attempt": _whole("attempt", trial.attempt),
        "pair_index": _whole("pair_index", trial.pair_index),
        "block": _whole("block", trial.block),
        "position": _whole("position", trial.position),
        "status": result.status.value,
        "reason": result.reason,
        "error_type": result.error_type,
        "phase": result.phase,
        "rank": _whole("rank", result.rank),
        "started_at": _moment("started_at", result.started_at),
        "duration_s": _finite("duration_s", result.duration_s),
        "seed": _whole("seed", result.seed),
        "method_version": _whole("method_version", result.method_version),
        "harness_version": result.harness_version,
        "excluded_reason": result.excluded_reason,
        "has_cost": result.cost is not None,
        "cost_flops": _whole("cost.flops", cost.flops),
        "cost_bytes": _whole("cost.bytes", cost.bytes),
        "cost_tokens": _whole("cost.tokens", cost.tokens),
        "proof_verdict": None if proof is None else proof.verdict,
        "proof_observed": None if proof is None else canonical_json(list(proof.observed)),
        "proof_detail": None if proof is None else proof.detail,
        "command": result.command,
        "conditions": ordered_json(dict(result.conditions)),
    }


def measurement_row(result_id: str, ordinal: int, measurement: Measurement) -> Row:
    return {
        "result_id": result_id,
        "metric": measurement.metric,
        "scope": measurement.scope,
        "ordinal": ordinal,
        "unit": known_unit(measurement.metric, measurement.unit),
        "calls_per_sample": _whole("calls_per_sample", measurement.calls_per_sample),
        "note": measurement.note,
        **derived(measurement.samples),
    }


def derived(samples: Sequence[float]) -> Row:
    """The columns of `measurement` that follow from the samples; None where a statistic would overflow."""
    if len(samples) == 1:
        only = samples[0]
        return {"n": 1, "median": only, "mean": only, "p05": only, "p95": only}
    ordered = sorted(samples)
    try:
        centre = stats.mean(ordered)
    except OverflowError:
        centre = math.inf
    numbers = {
        "median": stats.median(ordered),
        "mean": centre,
        "p05": stats.quantile(ordered, 0.05),
        "p95": stats.quantile(ordered, 0.95),
    }
    return {"n": len(samples), **{name: value if math.isfinite(value) else None for name, value in numbers.items()}}


def sample_row(result_id: str, measurement: Measurement) -> Row:
    encoding, data = pack_samples(measurement.samples)
    return {
        "result_id": result_id,
        "metric": measurement.metric,
        "scope": measurement.scope,
        "encoding": encoding,
        "n": len(measurement.samples),
        "data": data,
    }


def check_row(result_id: str, ordinal: int, check: Check) -> Row:
    return {
        "result_id": result_id,
        "ordinal": ordinal,
        "tensor": check.tensor,
        "at": check.at,
        "error": _finite("error", check.error),
        "plain_error": _finite("plain_error", check.plain_error),
        "error_limit": _finite("limit", check.limit),
        "passed": check.passed,
        "detail": check.detail,
    }


def log_row(result_id: str, log: str) -> Row:
    encoding, data = pack_log(log)
    return {"result_id": result_id, "encoding": encoding, "data": data}


def _finite(name: str, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise ValueError(f"{name} is {value}, which is not stored: use None or a status")
    return value


def _whole(name: str, value: int | None) -> int | None:
    if value is not None and not -(2**63) <= value < 2**63:
        raise ValueError(f"{name} does not fit into 64 bits")
    return value


def _moment(name: str, value: Moment) -> Moment:
    """The same time; "" and None where an imported source tells none."""
    if value:
        try:
            datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(f"{name} is {value[:40]!r}, which is no time in ISO 8601") from None
    return value


def known_unit(metric: str, unit: str) -> str:
    """The same unit; a metric of ours has one only, and whoever reads it takes it for that."""
    known = METRICS.get(metric)
    if known is not None and unit != known.unit:
        raise ValueError(f"{metric} is in {unit[:40]!r}, and its unit is {known.unit!r}")
    return unit


def _number(value: Scalar) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


# --- rows to records -------------------------------------------------------------------------------------------------------------


def _json(name: str, text: str) -> Json:
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{name} is no JSON ({error})") from error


def _object(name: str, text: str) -> dict[str, Json]:
    found = _json(name, text)
    if not isinstance(found, dict):
        raise ValueError(f"{name} is no JSON object")
    return found


def _texts(name: str, text: str) -> tuple[str, ...]:
    found = _json(name, text)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError(f"{name} is no JSON list of texts")
    return tuple(found)


def fact(name: str, text: str) -> Scalar:
    """A parameter of a case, or a fact of an environment. Raises ValueError where it is no JSON."""
    found: Scalar = _json(name, text)
    return found


def run_record(row: Any, revision: Iterable[Any]) -> Run:
    return Run(
        id=row.id,
        suite=row.suite,
        suite_file=row.suite_file,
        suite_data=_object("suite_data", row.suite_data),
        options=_object("options", row.options),
        question=row.question,
        seed=row.seed,
        command=row.command,
        device=row.device,
        started_at=_moment("started_at", row.started_at),
        state=RunState(row.state),
        planned_trials=row.planned_trials,
        revision=tuple(
            RevisionItem(item.name, item.kind, item.version, item.commit_hash, item.dirty, item.diff_hash) for item in revision
        ),
        label=row.label,
        finished_at=_moment("finished_at", row.finished_at),
        reason=row.reason,
        harness_version=row.harness_version,
        parent_run_id=row.parent_run_id,
    )


def case_record(row: Any, subject: Iterable[Any], params: Iterable[Any]) -> Case:
    return Case(
        workload=row.workload,
        workload_version=row.workload_version,
        subject={item.slot: item.implementation for item in subject},
        pass_=Pass(row.pass_),
        dtype=row.dtype,
        device=row.device,
        cache=row.cache,
        timer=row.timer,
        params={item.name: fact(item.name, item.value) for item in params},
        world_size=row.world_size,
    )


def environment_record(items: Iterable[Any]) -> Environment:
    sides: dict[str, dict[str, Scalar]] = {"hard": {}, "soft": {}}
    for item in items:
        sides[item.side][item.name] = fact(item.name, item.value)
    return Environment(sides["hard"], sides["soft"])


def measurement_record(row: Any, blob: Any | None) -> Measurement:
    """Raises ValueError where the samples are missing or do not decode."""
    if row.n == 1:
        if row.median is None:
            raise ValueError(f"the only sample of {row.metric} is missing")
        samples: tuple[float, ...] = (row.median,)
    elif blob is None:
        raise ValueError(f"the {row.n} samples of {row.metric} are missing")
    else:
        samples = unpack_samples(blob.encoding, blob.data)
    return Measurement(row.metric, known_unit(row.metric, row.unit), samples, row.scope, row.calls_per_sample, row.note)


def check_record(row: Any) -> Check:
    return Check(row.tensor, row.at, row.error, row.plain_error, row.error_limit, row.passed, row.detail)


def result_record(
    row: Any,
    case: Case,
    environment: Environment,
    measurements: tuple[Measurement, ...],
    checks: tuple[Check, ...],
    log: str,
) -> Result:
    proof = None
    if row.proof_verdict is not None:
        proof = Proof(row.proof_verdict, _texts("proof_observed", row.proof_observed), row.proof_detail)
    return Result(
        id=row.id,
        run_id=row.run_id,
        trial=Trial(case, row.trial_index, row.block, row.position, row.arm, row.pair_index, row.attempt),
        status=Status(row.status),
        reason=row.reason,
        environment=environment,
        started_at=_moment("started_at", row.started_at),
        duration_s=row.duration_s,
        seed=row.seed,
        command=row.command,
        error_type=row.error_type,
        phase=row.phase,
        rank=row.rank,
        measurements=measurements,
        checks=checks,
        proof=proof,
        cost=Cost(row.cost_flops, row.cost_bytes, row.cost_tokens) if row.has_cost else None,
        conditions=_object("conditions", row.conditions),
        log=log,
        method_version=row.method_version,
        harness_version=row.harness_version,
        excluded_reason=row.excluded_reason,
    )
