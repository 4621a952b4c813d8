"""Two audits of one script against each other: which switches differ, and what that did to the step's time and the peak.

A side is one audit, or all audits of one label. From three processes on each side the interval is one of process medians, as everywhere
here. With fewer it is one of the steps within a process each, which is told: two processes of the same thing differ by more than their
steps do, so such an interval is too narrow. It joins an interval of each side's median, from the order of its steps alone, since single
steps may take many times as long as the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.audit.listed import switches
from bench.audit.stored import audit_of, labelled, load_audit
from bench.audit.whole import Audit
from bench.errors import SelectionError
from bench.judge.intervals import log_ratio
from bench.judge.thresholds import CONFIDENCE, FEWEST
from bench.judge.verdict import Interval, Ratio
from bench.records import Environment, Run
from bench.stats import median

if TYPE_CHECKING:
    from bench.store import Store

PROCESSES, STEPS = "processes", "steps of one process each"


@dataclass(frozen=True, slots=True)
class Side:
    """One audit, or several of one label."""

    runs: tuple[Run, ...]
    audits: tuple[Audit, ...]
    environment: Environment
    """Of the one that is `last`."""

    @property
    def name(self) -> str:
        run = self.runs[-1]
        many = f" ({len(self.runs)} audits)" if len(self.runs) > 1 else ""
        return (run.label or run.id[:13]) + many

    @property
    def last(self) -> Audit:
        """The newest that saw an update, else the newest."""
        return next((one for one in reversed(self.audits) if one.trained), self.audits[-1])

    @property
    def peak_bytes(self) -> float | None:
        """The median of its processes' peaks; None where none was seen."""
        known = [one.peak_bytes for one in self.audits if one.peak_bytes is not None]
        return median(known) if known else None

    @property
    def medians_s(self) -> tuple[float, ...]:
        """Of a step, for each process."""
        return tuple(one.median_step_s for one in self.audits if one.median_step_s is not None)


@dataclass(frozen=True, slots=True)
class Difference:
    """One switch that is not the same on both sides."""

    switch: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Compared:
    """The second side over the first."""

    first: Side
    second: Side
    differences: tuple[Difference, ...]
    time: Ratio | None
    """Of a step; None where a side has no timed one."""
    rests_on: str | None
    """`PROCESSES` or `STEPS`: what the interval is of."""
    peak: float | None
    doubts: tuple[str, ...]
    """Why the sides may not be comparable, a sentence each."""


def find_side(store: Store, text: str) -> Side:
    """The audits that a word means. Raises SelectionError."""
    runs = labelled(store, text)
    found = [audit_of(store, run) for run in runs] if runs else [load_audit(store, text)]
    told = next((one for one in reversed(found) if one[-1].trained), found[-1])
    return Side(tuple(run for run, _, _ in found), tuple(audit for *_, audit in found), told[1].environment)


def compare(first: Side, second: Side) -> Compared:
    """Raises SelectionError where both sides are the same audit."""
    if {run.id for run in first.runs} & {run.id for run in second.runs}:
        raise SelectionError(f"both sides are the audit {first.runs[-1].id}: an audit is compared with another one")
    time, rests_on = _time(first, second)
    peaks = first.peak_bytes, second.peak_bytes
    return Compared(
        first,
        second,
        tuple(_differences(first.last, second.last)),
        time,
        rests_on,
        peaks[1] / peaks[0] if peaks[0] and peaks[1] else None,
        tuple(_doubts(first, second)),
    )


def _time(first: Side, second: Side) -> tuple[Ratio | None, str | None]:
    before, after = first.medians_s, second.medians_s
    if not before or not after:
        return None, None
    if min(len(before), len(after)) >= FEWEST:
        found = log_ratio([(before, after)])
        return Ratio(math.exp(found.estimate), found.interval(CONFIDENCE)), PROCESSES
    plain = Ratio(median(after) / median(before))
    ends = [median_bounds(side.last.step_s, 1 - (1 - CONFIDENCE) / 2) for side in (first, second)]
    if ends[0] is None or ends[1] is None or len(before) > 1 or len(after) > 1:
        return plain, None
    return Ratio(plain.value, Interval(ends[1][0] / ends[0][1], ends[1][1] / ends[0][0], CONFIDENCE)), STEPS


def median_bounds(values: Sequence[float], confidence: float) -> tuple[float, float] | None:
    """Two of the values between which their population's median lies with at least this probability, whatever its distribution.

    None where they are too few for it. The k-th lowest and highest leave out 2 P(X < k), X binomial with n and one half.
    """
    n, left_out, k = len(values), 0.0, 0
    while k < n // 2 and 2 * (left_out + math.comb(n, k) / 2**n) <= 1 - confidence:
        left_out += math.comb(n, k) / 2**n
        k += 1
    ordered = sorted(values)
    return (ordered[k - 1], ordered[n - k]) if k else None


def _differences(first: Audit, second: Audit) -> Iterator[Difference]:
    before, after = switches(first), switches(second)
    for name in dict.fromkeys((*before, *after)):
        one, other = before.get(name, "-"), after.get(name, "-")
        if one != other:
            yield Difference(name, one, other)
    versions = [dict(audit.first.versions) if audit.first is not None else {} for audit in (first, second)]
    for name in sorted(versions[0].keys() | versions[1].keys()):
        one, other = (found.get(name, "-") for found in versions)
        if one != other:
            yield Difference(f"version of {name}", one, other)


def _doubts(first: Side, second: Side) -> Iterator[str]:
    if first.last.script != second.last.script:
        yield f"these are two scripts: {first.last.script} and {second.last.script}"
    hard = [side.environment.hard for side in (first, second)]
    differing = sorted(name for name in hard[0].keys() | hard[1].keys() if hard[0].get(name) != hard[1].get(name))
    if differing:
        facts = ", ".join(f"{name} {hard[0].get(name, '-')} and {hard[1].get(name, '-')}" for name in differing)
        yield f"the hardware is not the same, so times say nothing about switches: {facts}"
    models = [
        side.last.first.model.class_name if side.last.first is not None and side.last.first.model is not None else None
        for side in (first, second)
    ]
    if models[0] != models[1]:
        yield f"the models are not of one class: {models[0]} and {models[1]}"
