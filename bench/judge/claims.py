"""Holds published claims against our rows: reproduced, not reproduced, can't tell, or not comparable here, always with the reason.

A claim agrees where the whole interval of our number lies within its tolerance, and disagrees where it lies wholly outside. Where there
are too few processes for an interval, the number is taken as known within what two runs of one thing differ by (thresholds.py), and that
is said. What was made on other hardware is only held against numbers that do not hang on it (`carries_over_to`); elsewhere our number is
shown and no verdict given.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from bench.judge.claim_formulas import COMMANDS, FORMULAS
from bench.judge.claim_numbers import Row, device_of, difference, exponent, figure, of_side, pools, ratio, used
from bench.judge.claim_records import ANY_DEVICE, ANY_GPU, UNITS, Claim, Computed, Finding, Measured, Ours, Word
from bench.judge.shared_gpu import Beside, beside_of, why_no_time
from bench.judge.thresholds import RULES, TIME
from bench.metrics import METRICS
from bench.records import Scalar, Status
from bench.suite.filters import spelled

BYTES_ALONE = 0.005
"""By how much bytes that no rule judges are taken to vary between processes."""


def judge_claims(claims: Sequence[Claim], rows: Sequence[Row]) -> tuple[Finding, ...]:
    """What was found of each claim, in their order.

    `rows` are all that there are of their runs. One that is excluded answers nothing; what it tells of neighbours holds for its run.
    """
    beside = beside_of(row.result for row in rows)
    counted = [row for row in rows if row.result.excluded_reason is None]
    return tuple(_found(claim, counted, beside) for claim in claims)


def judge_claim(claim: Claim, rows: Sequence[Row]) -> Finding:
    """What was found of one claim."""
    return judge_claims([claim], rows)[0]


def _found(claim: Claim, rows: Sequence[Row], beside: Beside) -> Finding:
    if claim.computed_by is not None:
        return _judged(claim, _computed(claim, claim.computed_by))
    by = claim.measured_by
    if by is None:
        return Finding(claim, Word.NOT_COMPARABLE, claim.never_here or "")
    everything = [of_side(rows, by, label, where) for label, where in by.sides()]
    sides = [used(side, by.metric, beside) for side in everything]
    command = measuring_command(by)
    pool = _newest_whole(claim, sides)
    if pool is None:
        why = claim.never_here or _shared(by, everything, sides, beside) or _absence(by, sides, rows)
        return Finding(claim, Word.NOT_COMPARABLE, why, measure=command)
    ours = _measured(claim, by, pool)
    if ours is None:
        return Finding(claim, Word.NOT_COMPARABLE, _no_number(claim, by), measure=command)
    elsewhere = _elsewhere(claim, pool)
    found = _judged(claim, ours)
    if _holds_gaps(by, pool):
        found = replace(found, why=f"{found.why}; launch gaps are in the time of some rows")
    if lost := _left_out(everything, sides, pool):
        found = replace(found, why=f"{found.why}; {lost} rows are left out, since others computed on their GPU")
    if claim.never_here is None and elsewhere is None:
        return replace(found, measure=command)
    why = f"{claim.never_here or elsewhere}; judged all the same it would be: {found.word} ({found.why})"
    return Finding(claim, Word.NOT_COMPARABLE, why, ours, command)


def _holds_gaps(by: Measured, sides: Sequence[Sequence[Row]]) -> bool:
    """Whether a time is also that of a host which did not keep up with the GPU."""
    timed = by.metric == TIME or by.metric.endswith("_per_s")
    return timed and any(row.result.conditions.get("launch_bound") is True for side in sides for row in side)


def measuring_command(by: Measured) -> str:
    """What measures both sides of a claim."""
    words = ["bench", "run", f"suites/{by.suite}.yaml", *(["--profile", by.profile] if by.profile else [])]
    places = [where for _, where in by.sides()]
    for axis in dict.fromkeys(axis for where in places for axis in where):
        values = [where[axis] for where in places if axis in where]
        if axis == "device":
            words += ["--device", spelled(values[0])]
        elif axis != by.along:
            words += ["--filter", f"{axis}={','.join(dict.fromkeys(spelled(value) for value in values))}"]
    return shlex.join(words)


def _newest_whole(claim: Claim, sides: Sequence[Sequence[Row]]) -> list[list[Row]] | None:
    """The sides within the newest pool in which each has a row that is ok, where there is one on hardware that the claim holds for, among
    those; None where there is none at all.
    """
    numbered = [{row.result.id for row in side} for side in sides]
    whole = []
    for pool in pools(list({row.result.id: row for side in sides for row in side}.values())):
        parts = [[row for row in pool if row.result.id in ids] for ids in numbered]
        if all(any(row.result.status is Status.OK for row in part) for part in parts):
            whole.append(parts)
    return next((parts for parts in whole if _elsewhere(claim, parts) is None), whole[0] if whole else None)


def _shared(by: Measured, everything: Sequence[Sequence[Row]], sides: Sequence[Sequence[Row]], beside: Beside) -> str | None:
    """Which side has no number that is used since others were on its GPU, where one has."""
    for (label, _), there, left in zip(by.sides(), everything, sides, strict=True):
        trials = [row.result.id for row in there if row.result.status is Status.OK]
        if trials and not any(row.result.status is Status.OK for row in left):
            return (
                f"{label} has no number that counts: {why_no_time(sum(ident in beside.present for ident in trials), len(trials))}"
            )
    return None


def _left_out(everything: Sequence[Sequence[Row]], sides: Sequence[Sequence[Row]], pool: Sequence[Sequence[Row]]) -> int:
    """How many rows would count, did they not share their GPU: as new as those that count, or newer."""
    since = min(row.result.started_at for part in pool for row in part)
    kept = {row.result.id for side in sides for row in side}
    there = {row.result.id: row.result for side in everything for row in side}
    return sum(row.status is Status.OK and row.started_at >= since for ident, row in there.items() if ident not in kept)


def _absence(by: Measured, sides: Sequence[Sequence[Row]], rows: Sequence[Row]) -> str:
    """Why no pool has every side."""
    for (label, where), side in zip(by.sides(), sides, strict=True):
        if any(row.result.status is Status.OK for row in side):
            continue
        if side:
            last = max(side, key=lambda row: row.result.started_at).result
            return f"{label} did not run: {last.status}: {(last.reason or '').splitlines()[0]}"
        others = of_side(rows, by, label, {axis: value for axis, value in where.items() if axis != "dtype"})
        if others and "dtype" in where:
            dtypes = sorted({row.result.case.dtype for row in others})
            return f"other precision: claimed in {where['dtype']}, and {label} is measured in {', '.join(dtypes)} only"
        return f"not measured: no row of {label} of suite {by.suite} at {_place(where)}"
    return "not measured in one go: the sides have rows of different machines or commits only"


def _place(where: Mapping[str, Scalar]) -> str:
    return ", ".join(f"{axis}={spelled(value)}" for axis, value in where.items()) or "any place"


def _no_number(claim: Claim, by: Measured) -> str:
    if claim.kind == "exponent":
        return f"fewer than three sizes of {by.along} are measured"
    if claim.kind == "ordering":
        return f"no two trials of the same index have {by.metric}"
    return f"the rows have no {by.metric} (or one that is not above zero)"


def _measured(claim: Claim, by: Measured, sides: Sequence[Sequence[Row]]) -> Ours | None:
    if claim.kind == "ratio":
        return ratio(sides[0], sides[1], by.metric)
    if claim.kind == "ordering":
        return difference(sides[0], sides[1], by.metric)
    if claim.kind == "exponent" and by.along is not None:
        return exponent(sides[0], by.metric, by.along)
    return figure(sides[0], by.metric)


def _computed(claim: Claim, by: Computed) -> Ours:
    value = FORMULAS[by.formula](**by.arguments)
    command = COMMANDS.get(by.formula, f"bench claims --only {claim.id}")
    return Ours(value, value, value, None, 0, computed=True, command=command)


def _elsewhere(claim: Claim, sides: Sequence[Sequence[Row]]) -> str | None:
    """Why this hardware's number says nothing about the claimed one, or None."""
    device = device_of(sides[0][0].result)
    known = claim.carries_over_to
    if ANY_DEVICE in known or device in known or (ANY_GPU in known and sides[0][0].result.case.device == "cuda"):
        return None
    return f"other hardware: claimed for {claim.made_on}, measured on {device}"


def _judged(claim: Claim, ours: Ours) -> Finding:
    if claim.kind == "ordering":
        return _ordered(claim, ours)
    low, high, allowance = _known_within(ours, _alone(claim))
    least, most = claim.band
    words = _distance(claim, ours) + allowance
    if (least is None or low >= least) and (most is None or high <= most):
        return Finding(claim, Word.REPRODUCED, words, ours)
    if (least is not None and high < least) or (most is not None and low > most):
        beyond = is_more(claim, ours)
        return Finding(claim, Word.NOT_REPRODUCED, f"{'more than claimed: ' if beyond else ''}{words}", ours, more=beyond)
    return Finding(claim, Word.CANNOT_TELL, f"{words}; what is known of it reaches across the edge of the tolerance", ours)


def _ordered(claim: Claim, ours: Ours) -> Finding:
    sign = -1 if claim.expected == "lower" else 1
    if _exact(claim):
        ends = [sign * ours.value] * 2
    elif ours.low is None or ours.high is None:
        few = f"{ours.n} pair{'' if ours.n == 1 else 's'} of trials, and {claim.expected} is told from three on"
        return Finding(claim, Word.CANNOT_TELL, few, ours)
    else:
        ends = sorted((sign * ours.low, sign * ours.high))
    word = Word.REPRODUCED if ends[0] > 0 else Word.NOT_REPRODUCED if ends[1] < 0 else Word.CANNOT_TELL
    what = {Word.REPRODUCED: f"{claim.expected}", Word.NOT_REPRODUCED: f"not {claim.expected}"}.get(
        word, "zero lies within the interval"
    )
    return Finding(claim, word, f"{what} over {ours.n} pairs of trials", ours)


def _known_within(ours: Ours, alone: float) -> tuple[float, float, str]:
    """The least and the largest that our number may be, and in words what was taken for granted."""
    if ours.low is not None and ours.high is not None:
        return ours.low, ours.high, ""
    ends = sorted((ours.value * (1 - alone), ours.value * (1 + alone)))
    processes = f"{ours.n} process{'' if ours.n == 1 else 'es'}"
    taken = f"taken as known within {alone * 100:.3g} %" if alone else "but what does not vary needs none"
    return ends[0], ends[1], f"; {processes} and so no interval: {taken}"


def _alone(claim: Claim) -> float:
    """By which share two runs of one thing are taken to differ."""
    metric = claim.measured_by.metric if claim.measured_by is not None else TIME
    if metric in RULES:
        return RULES[metric].apart_floor
    return BYTES_ALONE if _exact(claim) else RULES[TIME].apart_floor


def _exact(claim: Claim) -> bool:
    """Whether its number hardly varies between processes: bytes."""
    metric = claim.measured_by.metric if claim.measured_by is not None else ""
    return metric.endswith("bytes") or (metric in METRICS and METRICS[metric].unit == "byte")


def is_more(claim: Claim, ours: Ours) -> bool:
    """Whether ours goes beyond the claim in its own direction: a better figure, or a ratio farther from one."""
    if claim.measured_by is None or not isinstance(claim.expected, float) or claim.kind == "exponent" or ours.value <= 0:
        return False
    claimed = claim.expected * UNITS[claim.unit]
    if claim.kind == "ratio":
        return math.log(ours.value) * math.log(claimed) > 0 and abs(math.log(ours.value)) > abs(math.log(claimed))
    metric = claim.measured_by.metric
    higher = metric.endswith("_per_s") or (metric in METRICS and METRICS[metric].better == "higher")
    return ours.value > claimed if higher else ours.value < claimed


def _distance(claim: Claim, ours: Ours) -> str:
    """How far ours is from the claimed number, in words."""
    if not isinstance(claim.expected, float):
        least, most = claim.band
        inside = (least is None or ours.value >= least) and (most is None or ours.value <= most)
        return "within what is claimed" if inside else "outside what is claimed"
    middle = ours.value / (claim.expected * UNITS[claim.unit]) - 1
    if math.isclose(middle, 0.0, abs_tol=5e-4):
        return "as claimed"
    low, high = (f"{share * 100:+.3g} %" for share in claim.tolerance)
    where = f"{abs(middle) * 100:.1f} % {'above' if middle > 0 else 'below'} the claim"
    return f"{where} ({low} to {high} agree)"
