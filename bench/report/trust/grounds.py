"""Whether a run can be trusted, in lines: coverage, validity, clocks, checks, proof and canaries, each with its counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.judge.verdict import BETTER, SAME, WORSE
from bench.machine.throttling import CHOSEN
from bench.records import Result, Run, Status
from bench.report.answers.against import Judged
from bench.report.numbers.rates import canaries_in_order, canary_name, canary_rate, rate_words, trials_words
from bench.report.numbers.summary import TIME, CaseSummary, Reach

SETTLED = (WORSE, BETTER, SAME)


@dataclass(frozen=True, slots=True)
class TrustLine:
    """One thing that was looked at, and what was found."""

    name: str
    text: str
    good: bool
    """Whether nothing speaks against the run here."""


def trust(run: Run, cases: Sequence[CaseSummary], reach: Reach, judged: Sequence[Judged | None]) -> tuple[TrustLine, ...]:
    """The lines of one run, always in this order; a line that means nothing on its device is left out."""
    rows = [result for case in (*cases, *reach.canaries) for result in case.counted]
    found = [
        _coverage(run, cases, reach, judged),
        _validity(rows, cases),
        _clocks(run, rows),
        _checks(cases),
        _proof(cases),
        _canaries(run, reach),
    ]
    return tuple(line for line in found if line is not None)


def _coverage(run: Run, cases: Sequence[CaseSummary], reach: Reach, judged: Sequence[Judged | None]) -> TrustLine:
    measured = sum(case.trials_with_row for case in (*cases, *reach.canaries))
    with_number = sum(TIME in case.values for case in cases)
    entries = [entry for section in judged if section for entry in section.time.values()]
    settled = sum(entry.word in SETTLED for entry in entries)
    text = f"{measured} of {run.planned_trials} planned trials have a row, {with_number} of {len(cases)} cases a time"
    if entries:
        text += f"; {len(entries)} are judged against a baseline, {settled} of them settled"
    return TrustLine("coverage", text, measured >= run.planned_trials)


def _validity(rows: Sequence[Result], cases: Sequence[CaseSummary]) -> TrustLine:
    invalid = sum(result.status is Status.INVALID for result in rows)
    again = sum(_positive(result, "discarded_trials") for result in rows)
    aside = sum(len(case.set_aside) for case in cases)
    text = f"{invalid} of {len(rows)} trials invalid, {again} measured again after throttling, {aside} rows set aside"
    return TrustLine("validity", text, not invalid)


def _positive(result: Result, name: str) -> bool:
    value = result.conditions.get(name)
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _clocks(run: Run, rows: Sequence[Result]) -> TrustLine | None:
    ok = [result for result in rows if result.status is Status.OK]
    if not ok:
        return None
    if run.device.startswith("cuda"):
        read = [result for result in ok if isinstance(result.conditions.get("throttle_share"), Mapping)]
        seen = [_reasons(result) for result in read]
        held = Counter(word for reasons in seen for word in reasons)
        listed = ", ".join(
            f"{word.replace('_', ' ')} {n}" for word, n in sorted(held.items(), key=lambda item: (-item[1], item[0]))
        )
        text = f"{sum(bool(reasons) for reasons in seen)} of {len(read)} trials at some time saw a reason for lower clocks"
        text += (f" ({listed})" if listed else "") + _unread(ok, read)
        return TrustLine("throttling", text, not held and len(read) == len(ok))
    read = [result for result in ok if result.conditions.get("busy_processes") is not None]
    busy = sum(bool(result.conditions["busy_processes"]) for result in read)
    text = f"{busy} of {len(read)} trials ran beside busy processes of others{_unread(ok, read)}"
    return TrustLine("other work", text, not busy and len(read) == len(ok))


def _unread(ok: Sequence[Result], read: Sequence[Result]) -> str:
    """What nobody looked at is not zero."""
    return f"; of {len(ok) - len(read)} it is not known" if len(read) < len(ok) else ""


def _reasons(result: Result) -> list[str]:
    shares = result.conditions.get("throttle_share")
    if not isinstance(shares, Mapping):
        return []
    return [str(word) for word, share in shares.items() if word not in CHOSEN and isinstance(share, int | float) and share > 0]


def _checks(cases: Sequence[CaseSummary]) -> TrustLine:
    checked = [[check for result in case.counted for check in result.checks] for case in cases]
    there = [checks for checks in checked if checks]
    failed = sum(any(not check.passed for check in checks) for checks in there)
    count = sum(map(len, there))
    text = f"{len(there)} of {len(cases)} cases held against float64 ({count} comparisons), {failed} failed"
    unheld = sum(TIME in case.values and not checks for case, checks in zip(cases, checked, strict=True))
    return TrustLine(
        "numbers", text + (f", {unheld} with a time held against nothing" if unheld else ""), not failed and not unheld
    )


def _proof(cases: Sequence[CaseSummary]) -> TrustLine:
    timed = [case for case in cases if TIME in case.values]
    found = Counter(case.proof.verdict.replace("_", " ") if case.proof else "no proof" for case in timed)
    listed = ", ".join(f"{n} {verdict}" for verdict, n in sorted(found.items(), key=lambda item: (-item[1], item[0])))
    return TrustLine(
        "proof", f"that the requested code ran, of {len(timed)} timed cases: {listed or 'none'}", found["proved"] == len(timed)
    )


def _canaries(run: Run, reach: Reach) -> TrustLine | None:
    if not run.device.startswith("cuda"):
        return None
    found = canaries_in_order(reach)
    words = [f"{canary_name(summary)} {_reached(summary)}" for summary in found]
    known = all(canary_rate(summary) for summary in found)
    return TrustLine(
        "canaries", ", ".join(words) or "none were measured: no ceiling of this machine is known", bool(words) and known
    )


def _reached(summary: CaseSummary) -> str:
    if (rate := canary_rate(summary)) and TIME in summary.values:
        return f"{rate_words(rate)} ({trials_words(summary.values[TIME])})"
    return f"{summary.status} without a rate" if summary.status is Status.OK else str(summary.status)
