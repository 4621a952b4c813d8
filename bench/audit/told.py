"""An audit in sentences and as data: what is on, what was found with its numbers, what to switch on next and what to paste for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.audit.advice import FAR_OFF, Advice, Next
from bench.audit.compared import STEPS, Compared
from bench.audit.finding import Finding, Severity
from bench.audit.findings.memory import OTHER, in_phase
from bench.audit.gains import MeasuredGain
from bench.audit.listed import switches
from bench.audit.whole import Audit
from bench.judge.thresholds import MARGIN
from bench.judge.verdict import Ratio
from bench.metrics import PEAK_CAUSES
from bench.plaintext import plain
from bench.report.numbers import units
from bench.stats import median

MARKS: Mapping[Severity, str] = {Severity.WRONG: "WRONG", Severity.LOOK: "look", Severity.FINE: "fine"}
INDENT = " " * 9
MOST_CAUSES = 5
NO_SHARE = 0.001
"""Of the peak or of the time: a part or a difference that is not told."""
LONGEST_KERNEL = 60
WORDS = dict(PEAK_CAUSES)
OFF: Mapping[str, str] = {"linear": "plain", "adaptation": "full", "sharding": "none", "offload": "none"}
"""What goes without saying."""


def audit_lines(audit: Audit, found: Sequence[Finding], advice: Advice | None) -> list[str]:
    """The whole text, in harmless characters. `advice` is None where no update was seen."""
    lines = [_head(audit)]
    if audit.trained:
        lines += [*_step(audit), "", "What is on", *_table({**switches(audit), **_kernels(audit)})]
    lines += ["", "Findings", *(line for one in found for line in _finding(one))]
    counts = {severity: sum(one.severity is severity for one in found) for severity in Severity}
    lines.append(f"  {counts[Severity.WRONG]} wrong, {counts[Severity.LOOK]} to look at, {counts[Severity.FINE]} fine")
    if advice is not None:
        lines += ["", *_advice(audit, advice)]
    notes = list(dict.fromkeys(note for one in audit.ranks for note in one.notes))
    if notes:
        lines += ["", "Not seen", *(f"  {note}" for note in notes)]
    return [plain(line) for line in lines]


def _head(audit: Audit) -> str:
    seen, steps = audit.first, audit.steps
    if seen is None or steps is None:
        return f"{audit.script}: {audit.ended}"
    where = seen.device.name if seen.device is not None and seen.device.name else "an unknown device"
    how = f"{len(audit.ranks)} ranks on {where}" if seen.world_size > 1 else f"on {where}"
    by = ", ".join(seen.frameworks) or "a loop of its own"
    return f"{audit.script} {how}, {by}: {steps.seen} updates seen, {len(audit.step_s)} of them timed"


def _step(audit: Audit) -> Iterator[str]:
    if audit.step_s and audit.median_step_s is not None:
        span = units.range_in_unit(min(audit.step_s), max(audit.step_s), "s")
        rate = f", {units.rate(audit.tokens_per_s, 'tokens/s')}, padding included" if audit.tokens_per_s is not None else ""
        yield f"A step takes {units.seconds(audit.median_step_s)} (median of {len(audit.step_s)}, {span}){rate}."
    seen = audit.fullest
    memory = seen.memory if seen is not None else None
    if memory is not None:
        causes = sorted(memory.causes, key=lambda one: -one.bytes)[:MOST_CAUSES]
        parts = ", ".join(f"{units.size(one.bytes)} {WORDS.get(one.cause, one.cause)}" for one in causes if one.bytes)
        yield f"The peak is {units.size(memory.peak_bytes)} {in_phase(memory.phase)}" + (f": {parts}." if parts else ".")
        if memory.phase_peaks:
            yield f"By phase it is {', '.join(f'{units.size(peak)} {where}' for where, peak in _by_phase(memory.phase_peaks))}."
        if memory.reserved_bytes is not None and memory.allocator_retries is not None:
            yield f"The allocator holds {units.size(memory.reserved_bytes)} and had to try again {memory.allocator_retries} times."
    phases = audit.steps.phases_s if audit.steps is not None else {}
    if total := sum(phases.values()):
        shares = [(where, spent / total) for where, spent in _by_phase(phases) if spent / total >= NO_SHARE]
        yield f"Of a step's time {', '.join(f'{units.percent(share)} is {where}' for where, share in shares)}."


def _by_phase(found: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """What belongs to no phase comes last."""
    yield from ((f"in the {phase}", value) for phase, value in found.items() if phase != OTHER)
    if OTHER in found:
        yield "between them", found[OTHER]


def _kernels(audit: Audit) -> dict[str, str]:
    """What computed attention, by name and share of the device's time; a line for each kind."""
    kernels = audit.first.attention if audit.first is not None else ()
    return {
        f"kernels of {one.kind}": f"{', '.join(dict.fromkeys(map(_short, one.names)))} "
        f"({one.calls} calls, {units.percent(one.share)} of the device's time)"
        for one in kernels
    }


def _short(kernel: str) -> str:
    """Without what a template was made with; the data have the whole name."""
    name = kernel.removeprefix("void ").partition("<")[0]
    return name if len(name) <= LONGEST_KERNEL else f"{name[: LONGEST_KERNEL - 1]}…"


def _table(facts: Mapping[str, str]) -> list[str]:
    facts = {name: value for name, value in facts.items() if OFF.get(name) != value}
    most = max(map(len, facts), default=0)
    return [f"  {name.replace('_', ' '):<{most}}  {value}" for name, value in facts.items()]


def _finding(one: Finding) -> Iterator[str]:
    yield f"  {MARKS[one.severity]:<5}  {one.text}"
    if one.evidence and one.severity is not Severity.FINE:
        known = [f"{name.replace('_', ' ')} {units.fact(name, value)}" for name, value in one.evidence.items() if value is not None]
        if known:
            yield f"{INDENT}{', '.join(known)}"
    if one.advice:
        yield f"{INDENT}→ {one.advice}"


def _advice(audit: Audit, advice: Advice) -> Iterator[str]:
    if not advice.steps:
        yield "Switch on next: nothing that the memory model or a measurement here promises anything of"
    else:
        yield "Switch on next"
    for number, step in enumerate(advice.steps, 1):
        caution = f" ({step.switch.caution})" if step.switch.caution else ""
        yield f"  {number}. {step.switch.title}{caution}"
        yield f"     memory: {_memory_words(step)}"
        yield f"     speed: {_speed_words(step.gain, audit, advice)}"
        yield from (f"     → {line}" for line in step.setting.splitlines())
    plan = advice.predicted
    if plan is None:
        yield f"  no memory is predicted: {advice.why_not_predicted}"
        return
    if advice.off is not None:
        doubt = ": so far off that the memory above is doubtful" if abs(advice.off) > FAR_OFF else ""
        off = f"{advice.off:+.1%}".replace("%", " %")
        yield f"  the memory model predicts {units.size(plan.peak_bytes)} for what runs now, {off} of what was measured{doubt}"
    yield from (f"  {note}" for note in dict.fromkeys(plan.notes))


def _memory_words(step: Next) -> str:
    if step.saved_bytes is None or step.saved_share is None:
        return f"not predicted, {step.why_not_predicted}"
    if abs(step.saved_share) < NO_SHARE:
        return "the same peak, predicted"
    less = "less" if step.saved_bytes > 0 else "more"
    return f"{units.size(abs(step.saved_bytes))} {less} at the peak, {units.percent(abs(step.saved_share))} of it, predicted"


def _speed_words(gain: MeasuredGain | None, audit: Audit, advice: Advice) -> str:
    if gain is None:
        rows = (
            "no pair of its rows differs in this alone, in a step of like size"
            if advice.measured_here
            else "the database has no training step of this GPU"
        )
        return "not measured here" + (f": {rows}" if audit.gpu is not None else ": a GPU's time is not that of a processor")
    sizes = f" at {gain.seq_len} tokens" if gain.seq_len else ""
    batch = f", batch {gain.batch}" if gain.batch else ""
    other = "".join(f", {slot.replace('_', ' ')} {name}" for slot, name in gain.otherwise.items())
    rests = f"{gain.processes} processes a side" if gain.ratio.interval else f"{gain.processes} a side: no interval"
    where = f"measured on {gain.gpu} with {gain.model}{sizes}{batch}{other}"
    return f"{_gain_words(gain)}, {where} ({rests}, run {gain.run_id[:13]})"


def _gain_words(gain: MeasuredGain) -> str:
    """As of any ratio; without an interval there is no difference within what two processes of one thing differ by."""
    if gain.ratio.interval is None and abs(gain.ratio.value - 1) < MARGIN:
        return f"not shown to differ ({units.ratio(gain.ratio.value)} the time)"
    return ratio_words(gain.ratio)


def ratio_words(ratio: Ratio) -> str:
    """`1.20× faster (1.15–1.25)`, `1.10× slower`, `not shown to differ …`; of the second side's time over the first's."""
    faster = ratio.value < 1
    value = 1 / ratio.value if faster else ratio.value
    between = ""
    if ratio.interval is not None:
        ends = ratio.interval.low, ratio.interval.high
        low, high = (1 / ends[1], 1 / ends[0]) if faster else ends
        between = f" ({units.digits(low)}{units.EN_DASH}{units.digits(high)}, {ratio.interval.confidence:.0%} interval)".replace(
            "%", " %"
        )
    words = f"{units.ratio(value)} {'faster' if faster else 'slower'}{between}"
    unsure = ratio.interval is not None and ratio.interval.low <= 1 <= ratio.interval.high
    return f"not shown to differ, in its median {words}" if unsure else words


def compared_lines(found: Compared) -> list[str]:
    """The second audit against the first."""
    names = found.first.name, found.second.name
    lines = [f"{names[1]} against {names[0]}"]
    lines += [f"  doubt: {doubt}" for doubt in found.doubts]
    lines += ["", "What differs" if found.differences else "No switch differs that was seen"]
    widths = [max((len(getattr(one, field)) for one in found.differences), default=0) for field in ("switch", "first")]
    lines += [f"  {one.switch:<{widths[0]}}  {one.first:<{widths[1]}}  →  {one.second}" for one in found.differences]
    lines.append("")
    if found.time is None:
        lines.append("Time: not both sides have a timed step")
    else:
        medians = [units.seconds(median(side.medians_s)) for side in (found.first, found.second)]
        why = {
            STEPS: "; this interval is of the steps of one process each, and two processes of the same thing differ by more: "
            "three audits of one --label on each side would tell",
            None: "; too few to give an interval",
        }.get(found.rests_on, "")
        lines.append(f"A step is {ratio_words(found.time)}: {medians[0]} → {medians[1]}{why}")
    peaks = found.first.peak_bytes, found.second.peak_bytes
    if found.peak is not None and peaks[0] is not None and peaks[1] is not None:
        lines.append(f"The peak is {units.ratio(found.peak)} as high: {units.size(peaks[0])} → {units.size(peaks[1])}")
    return [plain(line) for line in lines]


# --- data ------------------------------------------------------------------------------------------------------------------------


def audit_data(audit: Audit, found: Sequence[Finding], advice: Advice | None) -> dict[str, Any]:
    """For programs: seconds, bytes and shares."""
    return {
        "script": audit.script,
        "command": audit.command,
        "status": audit.status,
        "step_s": audit.median_step_s,
        "timed_steps": len(audit.step_s),
        "tokens_per_s": audit.tokens_per_s,
        "peak_bytes": audit.peak_bytes,
        "switches": switches(audit),
        "findings": [
            {
                "name": one.name,
                "severity": str(one.severity),
                "text": one.text,
                "evidence": dict(one.evidence),
                "advice": one.advice,
            }
            for one in found
        ],
        "next": [] if advice is None else [_next_data(step) for step in advice.steps],
        "predicted_peak_bytes": advice.predicted.peak_bytes if advice is not None and advice.predicted is not None else None,
        "not_predicted": advice.why_not_predicted if advice is not None else None,
        "audit": audit.data(),
    }


def _next_data(step: Next) -> dict[str, Any]:
    gain = step.gain
    return {
        "switch": step.switch.name,
        "change": dict(step.change),
        "setting": step.setting,
        "caution": step.switch.caution,
        "predicted_saved_bytes": step.saved_bytes,
        "predicted_saved_share": step.saved_share,
        "not_predicted": step.why_not_predicted,
        "measured": None if gain is None else {
            "time_ratio": ratio_data(gain.ratio), "gpu": gain.gpu, "model": gain.model, "seq_len": gain.seq_len, "batch": gain.batch,
            "otherwise": dict(gain.otherwise), "processes": gain.processes, "run": gain.run_id,
        },
    }  # fmt: skip


def ratio_data(ratio: Ratio | None) -> dict[str, float | None] | None:
    """The ratio with the ends of its interval."""
    if ratio is None:
        return None
    interval = ratio.interval
    return {
        "value": ratio.value,
        "low": interval.low if interval is not None else None,
        "high": interval.high if interval is not None else None,
        "confidence": interval.confidence if interval is not None else None,
    }


def compared_data(found: Compared) -> dict[str, Any]:
    return {
        "first": [run.id for run in found.first.runs],
        "second": [run.id for run in found.second.runs],
        "differences": [{"switch": one.switch, "first": one.first, "second": one.second} for one in found.differences],
        "time_ratio": ratio_data(found.time),
        "interval_of": found.rests_on,
        "peak_ratio": found.peak,
        "doubts": list(found.doubts),
    }
