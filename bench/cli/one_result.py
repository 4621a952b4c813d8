"""One result with all that is stored about it, as text or as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from bench.cli.terminal import say, say_json
from bench.plaintext import plain

if TYPE_CHECKING:
    from bench.records import Measurement, Result, Run
    from bench.store import Store

LOG_LINES_SHOWN = 40


def audit_lines(store: Store, run: Run, result: Result) -> list[str]:
    """What an audit found, told anew: findings are not stored."""
    from bench.audit.stored import audit_in
    from bench.cli.audit import told

    return told(audit_in(result), store, (run, result))[0]


def say_facts(facts: Mapping[str, Any]) -> None:
    """Names and values in two columns, without those that are None."""
    shown = {name: value for name, value in facts.items() if value is not None}
    most = max((len(name) for name in shown), default=0)
    for name, value in shown.items():
        say(f"{plain(name):<{most}}  {plain(str(value))}")


def _section(title: str, lines: Iterable[str]) -> None:
    kept = [plain(line) for line in lines]
    if kept:
        say(f"\n{title}")
        for line in kept:
            say(f"  {line}")


def show_result(store: Store, result: Result, *, whole_log: bool, as_json: bool) -> None:
    """What was measured, checked and proved, where and when; of the log the last lines unless `whole_log`."""
    from bench.audit.whole import CONDITION
    from bench.records import dump
    from bench.report.numbers.memory import EXPLAINED
    from bench.report.numbers.units import fact, flatten, scientific
    from bench.suite.axes import spelled_axis

    if as_json:
        say_json(dump(result))
        return
    case, trial = result.case, result.trial
    say_facts(
        {
            "result": result.id,
            "run": result.run_id,
            "workload": f"{case.workload} (version {case.workload_version})",
            "subject": case.subject_label,
            "point": ", ".join(
                f"{axis}={value}" for axis, value in {**case.point_data(), **case.params}.items() if axis in _SHOWN_AXES
            ),
            "parameters": ", ".join(f"{name}={value}" for name, value in (spelled_axis(*param) for param in case.params.items())),
            "trial": f"{trial.index} (arm {trial.arm}, block {trial.block}, position {trial.position}, attempt {trial.attempt})",
            "status": str(result.status),
            "reason": result.reason,
            "error": result.error_type,
            "last phase": result.phase,
            "excluded": result.excluded_reason,
            "started": result.started_at or "unknown",
            "took": fact("duration_s", result.duration_s),
            "seed": result.seed,
            "command": result.command,
        }
    )
    _section("Measurements", (_measurement_line(result, measurement) for measurement in result.measurements))
    _section(
        "Checks against the float64 reference",
        (
            f"{check.tensor} ({check.at}): {'passed' if check.passed else 'FAILED'}"
            + "".join(
                f", {name} {scientific(value)}"
                for name, value in (("error", check.error), ("plain PyTorch", check.plain_error), ("limit", check.limit))
                if value is not None
            )
            + (f", {check.detail}" if check.detail else "")
            for check in result.checks
        ),
    )
    if result.proof is not None:
        _section(
            "What ran", [result.proof.verdict + (f": {result.proof.detail}" if result.proof.detail else ""), *result.proof.observed]
        )
    _section("Environment, hard", (f"{name} = {fact(name, value)}" for name, value in sorted(result.environment.hard.items())))
    _section("Environment, soft", (f"{name} = {fact(name, value)}" for name, value in sorted(result.environment.soft.items())))
    _section("The peak explained", _explained_lines(result))
    if CONDITION in result.conditions:
        _section("Audit", audit_lines(store, store.find_run(result.run_id), result))
    conditions = {name: value for name, value in result.conditions.items() if name not in (EXPLAINED, CONDITION)}
    _section("Conditions", (f"{name} = {fact(name, value)}" for name, value in flatten(conditions)))
    lines = result.log.rstrip("\n").split("\n") if result.log.strip() else []
    kept = lines if whole_log else lines[-LOG_LINES_SHOWN:]
    _section("Log" if len(kept) == len(lines) else f"Log (last {len(kept)} of {len(lines)} lines; --log shows all)", kept)


def _explained_lines(result: Result) -> list[str]:
    """What the pass that explains the peak found beside the causes, which stand among the measurements."""
    from bench.report.numbers.memory import EXPLAINED, read_explained
    from bench.report.numbers.units import size

    found = read_explained(result.conditions.get(EXPLAINED))
    if found is None:
        return []
    lines = [f"peak of that pass: {size(found.peak_bytes)}{f', in {found.phase}' if found.phase else ''}"]
    lines += [f"temporaries in {where}: {size(much)}" for where, much in found.temporaries]
    return [*lines, f"its course over the step: {len(found.timeline)} moments, in the report and with --json"]


_SHOWN_AXES = frozenset({"pass", "dtype", "device", "cache", "timer", "world_size"})


def _measurement_line(result: Result, measurement: Measurement) -> str:
    from bench.judge.shared_gpu import DEVICE_USED, tells_growth
    from bench.report.numbers.samples import note_in_units
    from bench.report.numbers.units import in_unit, range_in_unit
    from bench.stats import median

    samples, unit = measurement.samples, measurement.unit
    scope = "" if measurement.scope == "trial" else f" [{measurement.scope}]"
    if measurement.metric == DEVICE_USED and (fell := -min(samples)) > 0:
        what = f"others gave memory of the device back meanwhile, {in_unit(fell, unit)} more than it took"
        return f"{measurement.metric}{scope}: no growth of this row: {what}"
    many = f" (median of {len(samples)}, {range_in_unit(min(samples), max(samples), unit)})" if len(samples) > 1 else ""
    calls = f", {measurement.calls_per_sample} calls a sample" if measurement.calls_per_sample > 1 else ""
    notes = [note] if (note := note_in_units(measurement)) else []
    if measurement.metric == DEVICE_USED and not tells_growth(result, samples):
        notes.append("others had the GPU open, so that it may be theirs")
    return f"{measurement.metric}{scope} = {in_unit(median(samples), unit)}{many}{calls}{''.join(f'; {note}' for note in notes)}"
