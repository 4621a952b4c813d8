"""What a careful reader must know before believing a run's numbers: rows missing, few trials, wide ranges, flags, mixed machines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bench.judge.shared_gpu import on_its_gpu
from bench.machine.named_processes import BUSY, OTHER, process_names
from bench.machine.throttling import CHOSEN
from bench.records import Json, Result, Run, RunState, Status
from bench.report.numbers import units
from bench.report.numbers.rates import CLOCK_WANDERED_CYCLES, CLOCK_WANDERED_TIME, clock_wandered
from bench.report.numbers.samples import taken
from bench.report.numbers.summary import TIME, CaseSummary, Reach, gpu_of
from bench.report.trust.agreement import APART, gradients_apart
from bench.report.trust.surroundings import machine

FEW_TRIALS = 3
FEW_SAMPLES = 30
WIDE_RANGE = 0.10
FEWEST_ON_ONE_SM = 0.9
"""Below this share of samples with both clock stamps on one SM, cycles rest on too few of them."""
FLAGS = {
    "launch_bound": "timed with gaps in which the device waited for the host",
}
"""Flags that a worker or the sampler of conditions may raise, in words."""

SEEN_OFTEN = 0.05
"""A reason for lower clocks is told above this share of a trial's readings."""

SHOWN_UUID = 16
SCALES = "loss_scale_history"
"""The condition that tells how dynamic loss scaling went."""
SKIPPED = "steps_skipped"
"""The condition that tells how many updates dynamic loss scaling left out in a whole trial."""
UNTIMED_STEPS = 3
"""Steps of a training that come before any sample; where none of them made an update, none is told to have been the first."""
UNANALYSED = "kernels_not_analysed"
"""The condition that tells of which kernels torch.compile could not say what they write."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """One thing that lowers trust, with how many rows it touches."""

    count: int
    text: str


def _flags(results: Sequence[Result]) -> list[Doubt]:
    counts = Counter(name for result in results for name in FLAGS if result.conditions.get(name) is True)
    found = [Doubt(counts[name], f"trials were {FLAGS[name]}") for name in FLAGS if counts[name]]
    unstable = sum(result.conditions.get("warmup_stable") is False for result in results)
    if unstable:
        found.append(Doubt(unstable, f"of {len(results)} timed trials were not stable when warm-up ended"))
    found += [*_unfinished(results), *_scaling(results), *_left_out_updates(results)]
    unanalysed = sum(isinstance(result.conditions.get(UNANALYSED), str) for result in results)
    if unanalysed:
        text = "heard torch.compile say that it could not tell what a kernel writes: their rows say which, and what to do"
        found.append(Doubt(unanalysed, f"of {len(results)} timed trials {text}"))
    neighbours = Counter(name for result in results for name in sorted(_neighbours(result)))
    if neighbours:
        touched = sum(bool(_neighbours(result)) for result in results)
        named = sorted(neighbours.items(), key=lambda item: (-item[1], item[0]))[:4]
        names = f" ({', '.join(name for name, _ in named)})" if set(neighbours) != {OTHER} else ""
        found.append(Doubt(touched, f"of {len(results)} timed trials ran beside busy processes of others{names}"))
    throttled = Counter(word for result in results for word in _throttle_words(result))
    found += [
        Doubt(n, f"of {len(results)} timed trials saw the clocks held back: {word.replace('_', ' ')}")
        for word, n in sorted(throttled.items())
    ]
    return found


def _known(result: Result, name: str, otherwise: float) -> float:
    """A number among the conditions; `otherwise`, which raises no doubt, where the trial did not record one."""
    value = result.conditions.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return otherwise
    try:
        return float(value)
    except OverflowError:
        return otherwise


def _unfinished(results: Sequence[Result]) -> list[Doubt]:
    """Passes that a trial could not make, and what the worker or the runner had to do to get a time at all."""
    left_out: dict[tuple[str, str], int] = {}
    for result in results:
        not_done = result.conditions.get("not_done")
        for phase, reason in not_done.items() if isinstance(not_done, dict) else ():
            left_out[str(phase), str(reason)] = left_out.get((str(phase), str(reason)), 0) + 1
    found = [
        Doubt(n, f"of {len(results)} timed trials did without {phase.replace('_', ' ')}: {units.shorten(reason, 120)}")
        for (phase, reason), n in sorted(left_out.items())
    ]
    strayed = sum(_known(result, "same_sm_share", 1.0) < FEWEST_ON_ONE_SM for result in results)
    if strayed:
        found.append(
            Doubt(
                strayed,
                f"of {len(results)} timed trials could read the clock of fewer than {FEWEST_ON_ONE_SM:.0%} of their samples",
            )
        )
    again = [int(_known(result, "discarded_trials", 0.0)) for result in results if _known(result, "discarded_trials", 0.0) > 0]
    if again:
        found.append(
            Doubt(
                len(again),
                f"of {len(results)} timed trials were measured again, since clocks were held back ({sum(again)} discarded)",
            )
        )
    retried = sum(_known(result, "allocator_retries_while_sampling", 0.0) > 0 for result in results)
    if retried:
        found.append(
            Doubt(retried, f"of {len(results)} timed trials had the allocator free its cache and try again while they were timed")
        )
    return found


def _scaling(results: Sequence[Result]) -> list[Doubt]:
    """Trials that began with a loss scale at which gradients overflow, so that their first updates were left out."""
    fell = [ends for result in results if (ends := _fall(result.conditions.get(SCALES))) is not None]
    if not fell:
        return []
    first, last, steps = max(fell, key=lambda ends: ends[2])
    text = f"timed trials began by lowering a loss scale that overflows (at most from {first:g} to {last:g} in {steps} steps)"
    meanwhile = "updates were left out meanwhile, in the check that tells the loss gap as well"
    return [Doubt(len(fell), f"of {len(results)} {text}: {meanwhile}")]


def _left_out_updates(results: Sequence[Result]) -> list[Doubt]:
    """Trials in which dynamic loss scaling left out more updates than those before the first that was made, which was no sample."""
    late = [left_out for result in results if (left_out := _left_out_late(result)) > 0]
    if not late:
        return []
    text = f"timed trials left out updates after an overflow later on (at most {max(late)}), perhaps in steps that were timed"
    return [Doubt(len(late), f"of {len(results)} {text}: a step without its update is shorter")]


def _left_out_late(result: Result) -> int:
    told = result.measurement("skipped_steps")
    return int(_known(result, SKIPPED, 0.0) - (told.samples[0] if told else UNTIMED_STEPS))


def _fall(told: Json) -> tuple[float, float, int] | None:
    """First and last scale of a falling history, `[[step, scale], ...]` as JSON, and the step of the last; None where it did not fall."""
    try:
        steps, scales = zip(*json.loads(told) if isinstance(told, str) else (), strict=True)
        return (float(scales[0]), float(scales[-1]), int(steps[-1])) if scales[-1] < scales[0] else None
    except (ValueError, TypeError, IndexError, OverflowError, RecursionError):
        return None


def _neighbours(result: Result) -> set[str]:
    return set(process_names(result.conditions.get(BUSY)))


def _throttle_words(result: Result) -> list[str]:
    shares = result.conditions.get("throttle_share")
    if not isinstance(shares, dict):
        return []
    return sorted(
        word for word, share in shares.items() if word not in CHOSEN and isinstance(share, int | float) and share > SEEN_OFTEN
    )


def _about_run(run: Run, cases: Sequence[CaseSummary], canaries: Sequence[CaseSummary]) -> list[Doubt]:
    rows = sum(case.trials_with_row for case in (*cases, *canaries))
    found: list[Doubt] = []
    missing = run.planned_trials - rows
    if run.state is not RunState.FINISHED or missing > 0:
        state = {RunState.BUDGET: "stopped at its time budget"}.get(run.state, f"is {run.state}")
        if run.state is RunState.FINISHED:
            state = "is finished, yet rows are missing"
        if missing > 0:
            found.append(Doubt(missing, f"of {run.planned_trials} planned trials have no row: the run {state}"))
        else:
            found.append(Doubt(run.planned_trials, f"planned trials all have their row, yet the run {state}"))
    dirty = [item.name for item in run.revision if item.dirty]
    if dirty:
        found.append(Doubt(len(dirty), f"under test with uncommitted changes: {', '.join(dirty)}"))
    return found


def _several_gpus(cases: Sequence[CaseSummary], canaries: Sequence[CaseSummary]) -> list[Doubt]:
    """More than one physical GPU in a run, of one model or not: a run that was resumed elsewhere."""
    rows = Counter(gpu for case in cases for result in case.counted if (gpu := gpu_of(result)))
    if len(rows) < 2:
        return []
    known = {gpu for canary in canaries for result in canary.counted if (gpu := gpu_of(result))}
    without = sorted(set(rows) - known)
    shares = "each is held against its own canaries"
    if without:
        names = " and ".join(map(_short, without))
        shares = f"no canary ran on {names}, so its rows have no share of a measured ceiling" if known else ""
    listed = ", ".join(
        f"{n} row{'s' if n > 1 else ''} on {_short(gpu)}" for gpu, n in sorted(rows.items(), key=lambda item: (-item[1], item[0]))
    )
    apart = sum(len(gpus) > 1 for gpus in _gpus_by_point(cases).values())
    points = f"; at {apart} point{'s' if apart > 1 else ''} subjects ran on different ones" if apart else ""
    text = f"physical GPUs in one run, which may differ in clocks and power ({listed}){points}"
    return [Doubt(len(rows), f"{text}; {shares}" if shares else text)]


def _short(gpu: str) -> str:
    """The beginning of a UUID, `GPU-` included, which tells the GPUs of a run apart."""
    return gpu if len(gpu) <= SHOWN_UUID else f"{gpu[:SHOWN_UUID]}…"


def _gpus_by_point(cases: Sequence[CaseSummary]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for case in cases:
        found.setdefault(case.case.point_key, set()).update(case.gpus)
    return found


def doubts(run: Run, cases: Sequence[CaseSummary], reach: Reach | None = None) -> list[Doubt]:
    """What a careful reader of this run must know before believing a number; empty if nothing was found.

    `reach` is what the cases themselves say of the run's canaries; needed only where a run has canaries and no case.
    """
    timed = [case for case in cases if case.status is Status.OK and TIME in case.values]
    trials = [result for case in timed for result in case.counted if result.status is Status.OK]
    canaries = (reach or (cases[0].reach if cases else Reach())).canaries
    found = _about_run(run, cases, canaries)
    hard = {machine(result.environment.hard) for case in cases for result in case.counted}
    soft = {result.environment.soft_hash for case in cases if case.values for result in case.counted if result.status is Status.OK}
    if len(hard) > 1:
        found.append(Doubt(len(hard), "different hard environments in one run: their rows must not be compared"))
    found += _several_gpus(cases, canaries)
    measured = [result for case in cases for result in case.counted if result.status is Status.OK]
    shared = sum(bool(on_its_gpu(result.conditions)) for result in measured)
    if shared:
        found.append(
            Doubt(shared, f"of {len(measured)} trials shared their GPU with other processes that had it open for computing")
        )
    few_left_out = sum(_left_out(case) for case in timed)
    if few_left_out:
        found.append(Doubt(few_left_out, f"of {len(trials)} trials are in no time: other processes computed on their GPU"))
    if len(soft) > 1:
        found.append(Doubt(len(soft), "software environments in one run; the differences are listed under Environment"))
    few = sum(case.values[TIME].n < FEW_TRIALS for case in timed)
    if few:
        found.append(Doubt(few, f"of {len(timed)} timed cases rest on fewer than {FEW_TRIALS} trials: their range says little"))
    wide = [case for case in timed if (case.values[TIME].relative_range or 0) > WIDE_RANGE]
    if wide:
        worst = max(wide, key=lambda case: case.values[TIME].relative_range or 0)
        worst_text = units.percent(worst.values[TIME].relative_range or 0)
        found.append(
            Doubt(
                len(wide),
                f"of {len(timed)} timed cases range over more than {units.percent(WIDE_RANGE)} of their median"
                f" between trials (widest: {worst.label}, {worst_text})",
            )
        )
    wandered = [case for case in timed if clock_wandered(case)]
    if wandered:
        found.append(
            Doubt(
                len(wandered),
                f"of {len(timed)} timed cases: the clock wandered, the kernel did not (trials differ by more than"
                f" {units.percent(CLOCK_WANDERED_TIME)} in time and by at most {units.percent(CLOCK_WANDERED_CYCLES)} in cycles)",
            )
        )
    above = [case for case in timed if case.rates.above_measured]
    if above:
        most = max(above, key=_highest_share)
        found.append(
            Doubt(
                len(above),
                f"of {len(timed)} timed cases lie above a ceiling that this run measured"
                f" (highest: {most.label}, {units.percent(_highest_share(most))})",
            )
        )
    partly = sum(len(case.counts) > 1 for case in cases)
    if partly:
        found.append(Doubt(partly, "cases ended differently from trial to trial"))
    short = sum(1 for r in trials if (m := r.measurement(TIME)) is not None and taken(m).count < FEW_SAMPLES)
    if short:
        found.append(Doubt(short, f"of {len(trials)} timed trials hold fewer than {FEW_SAMPLES} samples"))
    found += _flags(trials)
    if (apart := gradients_apart(timed)) is not None:
        found.append(
            Doubt(
                apart.trials,
                f"of {apart.of} training trials have gradients at the first update that are more than {units.percent(APART)} from those of"
                f" the other arms in the same dtypes (furthest: {apart.label}, {units.percent(apart.share)})",
            )
        )
    unproved = sum(case.proof is None or case.proof.verdict != "proved" for case in timed)
    if unproved:
        found.append(Doubt(unproved, f"of {len(timed)} timed cases have no proof that the requested code ran"))
    aside = sum(len(case.set_aside) for case in cases)
    if aside:
        found.append(Doubt(aside, "rows are set aside (excluded or superseded); they are in the table and in no value"))
    return found


def _left_out(case: CaseSummary) -> int:
    """Trials of a case that has a time which are not in it."""
    return sum(result.status is Status.OK and TIME not in case.trial_values.get(result.id, {}) for result in case.counted)


def _highest_share(case: CaseSummary) -> float:
    return max((rate.measured.value for rate in case.rates.above_measured if rate.measured), default=0.0)
