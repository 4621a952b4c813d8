"""Measures the suspects of a night again, in turn with the last good version and on the same device, and lets that decide.

Suspects are the times that the screen points at, and all that is worse by exact rules or no longer runs: one crash, or one night beside
somebody who took the memory, is no change of the code either.

The environment is today's for both: only what is under test moves, so what differs is its doing. Where that has not moved, and packages of
the environment have, those are measured as they were. A suspect that cannot be measured so keeps the verdict of the screen, which is then
provisional, and says why.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from bench.judge.compare import Comparison, compare
from bench.judge.decided import decided, provisional, verdict_of
from bench.judge.environment_diff import differences, environments_of, gpus, values_words
from bench.judge.evidence import Evidence, load_evidence
from bench.judge.news import of_moved_machine
from bench.judge.place import CannotConfirm, Place, place_of
from bench.judge.regress import in_order
from bench.judge.screen import Sight
from bench.judge.thresholds import FEWEST, MOST_TRIALS
from bench.judge.totals import mass_shift, totals
from bench.judge.verdict import Kind, Verdict, Word
from bench.records import CONFIRM, RevisionItem, Run
from bench.run.in_turn import InTurn, VersionFailed, in_turn
from bench.run.locks import StillHeldError
from bench.run.progress import Progress, silent
from bench.run.versions import CannotRebuild, Version, current, rebuilt, with_packages

if TYPE_CHECKING:
    from bench.store import Store

PAIRS = 8
EXACT_PAIRS = FEWEST
"""Where only exact rules judge, or whether it runs: there is no noise to average."""
MOST_SUSPECTS = 40
"""Cases that are measured again in one night, the largest changes first: more than that are one event, and one answer is enough."""
OPEN = (Word.AMBIGUOUS, Word.INSUFFICIENT)
"""Words after which more pairs are measured, as long as there are fewer than are ever asked for."""
GOOD, NEW = "good", "new"
"""The arms of a run that confirms."""


def arms_as_sides(evidence: Evidence, first: str, second: str) -> tuple[Evidence, Evidence]:
    """Two arms of one run as the sides of a comparison."""

    def side(arm: str) -> Evidence:
        return replace(evidence, trials=tuple(replace(row, arm="-") for row in evidence.trials if row.arm == arm))

    return side(first), side(second)


def suspects(comparison: Comparison) -> list[Verdict]:
    """The times that the screen pointed at, and what is worse by exact rules or by how it ended; the largest change first."""
    found = [verdict for verdict in comparison.verdicts if _is_suspect(verdict)]
    return sorted(found, key=lambda verdict: -abs(verdict.ratio.value - 1) if verdict.ratio else -math.inf)


def _is_suspect(verdict: Verdict) -> bool:
    if verdict.screening is not None:
        return verdict.screening == Sight.SUSPECT and verdict.kind is Kind.VALUE and verdict.ratio is not None
    return verdict.word is Word.WORSE and verdict.good_run is not None


def confirm(
    comparison: Comparison,
    store: Store,
    *,
    pairs: int = PAIRS,
    budget_s: float | None = None,
    wait: bool = True,
    progress: Callable[[Progress], None] = silent,
    clock: Callable[[], float] = time.monotonic,
) -> Comparison:
    """The judgement of a night with every suspect measured again. With a budget the largest changes come first.

    Raises Stopped where a signal ended it, StoreError and LockError.
    """
    found = suspects(comparison)
    if not found:
        return comparison
    until = None if budget_s is None else clock() + budget_s
    tonight = comparison.second.runs[0]
    again: dict[str, Verdict] = {}
    try:
        place = place_of(tonight, reason=CONFIRM, trials=pairs, wait=wait)
        if place.revision != tonight.revision:
            raise CannotConfirm("what is under test has changed since it was measured")
        if gpus(comparison.second) and place.device.uuid not in gpus(comparison.second):
            raise CannotConfirm("it was measured on another physical GPU")
    except CannotConfirm as error:
        return _merged(comparison, {verdict.series.key: provisional(verdict, str(error)) for verdict in found})
    largest = list(dict.fromkeys(verdict.series.case_key for verdict in found))[:MOST_SUSPECTS]
    for verdict in found:
        if verdict.series.case_key not in largest:
            again[verdict.series.key] = provisional(verdict, f"the {MOST_SUSPECTS} largest changes of the night were")
    for good, group in _by_good_night(comparison, [verdict for verdict in found if verdict.series.key not in again]):
        here = [verdict for verdict in group if place.has(verdict.series.hard_hash, verdict.series.case.world_size)]
        elsewhere = [verdict for verdict in group if verdict not in here]
        again |= {verdict.series.key: provisional(verdict, "it was measured on other hardware") for verdict in elsewhere}
        if good is None:
            again |= {verdict.series.key: provisional(verdict, "no earlier night was within the limit") for verdict in here}
        elif here:
            again |= _group(comparison, here, good, place, store, pairs, until, progress, clock)
    return _merged(comparison, again)


def _by_good_night(comparison: Comparison, found: Sequence[Verdict]) -> list[tuple[Run | None, list[Verdict]]]:
    """The suspects by their last good night; nights of one revision are one."""
    runs = {run.id: run for run in comparison.first.runs}
    by_revision: dict[tuple[RevisionItem, ...] | None, tuple[Run | None, list[Verdict]]] = {}
    for verdict in found:
        good = runs.get(verdict.good_run or "")
        by_revision.setdefault(good.revision if good else None, (good, []))[1].append(verdict)
    return list(by_revision.values())


def _group(
    comparison: Comparison,
    group: Sequence[Verdict],
    good: Run,
    place: Place,
    store: Store,
    pairs: int,
    until: float | None,
    progress: Callable[[Progress], None],
    clock: Callable[[], float],
) -> dict[str, Verdict]:
    """The suspects with one last good version, by the key of their series."""

    def all_provisional(why: str) -> dict[str, Verdict]:
        return {verdict.series.key: provisional(verdict, why) for verdict in group}

    packages: dict[str, str] = {}
    what = f"the version of {good.started_at[:16]}"
    if good.revision == place.revision:
        packages, what = _moved_packages(comparison, group, good)
        if not packages:
            return all_provisional(
                f"nothing under test has changed since the last good night ({good.started_at[:16]}), and no package: the machine has, or "
                "what no fact records"
            )
    try:
        old = rebuilt(GOOD, good.revision, place.now, place.options.plugins)
        versions = with_packages(old, packages), current(NEW, place.now, place.options.plugins)
    except CannotRebuild as error:
        return all_provisional(f"the last good version cannot be rebuilt: {error}")
    arms = {version.name: version.revision for version in versions}
    planned = 2 * pairs * len({verdict.series.case_key for verdict in group})

    def late() -> bool:
        return until is not None and clock() > until

    try:
        with in_turn(
            place.suite, store, place.device, place.catalogue, place.options, place.revision, arms,
            planned=planned, progress=progress, late=late,
        ) as turns:  # fmt: skip
            measured, trouble = _measure(turns, group, versions, store, pairs, until, clock)
    except StillHeldError as error:
        return all_provisional(f"the budget was spent before it could be measured again: {error}")
    return {
        verdict.series.key: decided(verdict, measured[verdict.series.case_key], turns.run_id, what)
        if verdict.series.case_key in measured
        else provisional(verdict, trouble)
        for verdict in group
    }


def _moved_packages(comparison: Comparison, group: Sequence[Verdict], good: Run) -> tuple[dict[str, str], str]:
    """Packages of the environment that were another version on the last good night, by name; and that environment in words."""
    cases = {verdict.series.case_key for verdict in group}
    then = [row for row in comparison.first.trials if row.run_id == good.id and row.case_key in cases]
    own = [row for row in comparison.second.trials if row.case_key in cases]
    found: dict[str, str] = {}
    words = []
    for fact in differences(environments_of(comparison.first, then), environments_of(comparison.second, own)):
        name = fact.name.removeprefix("package:")
        if name != fact.name and len(fact.first) == len(fact.second) == 1:
            found[name] = str(fact.first[0])
            words.append(f"{name} {fact.first[0]} instead of {fact.second[0]}")
    return found, f"{', '.join(words)} in the environment, nothing under test having changed"


def _measure(
    turns: InTurn,
    group: Sequence[Verdict],
    versions: tuple[Version, Version],
    store: Store,
    pairs: int,
    until: float | None,
    clock: Callable[[], float],
) -> tuple[dict[str, list[Verdict]], str]:
    """The verdicts on as many cases of the group as there is time for, by the key of the case; and what was in the way of the others."""
    spent = 0.0
    found: dict[str, list[Verdict]] = {}
    for case_key in dict.fromkeys(verdict.series.case_key for verdict in group):
        own = [verdict for verdict in group if verdict.series.case_key == case_key]
        noisy = [verdict for verdict in own if verdict.screening is not None]
        at_once = pairs if noisy else min(pairs, EXACT_PAIRS)
        began = clock()
        # A case takes about as long as the one before it.
        if until is not None and began + spent > until:
            return found, "the budget was spent before it could be measured again"
        done = 0
        try:
            while not done or (
                done < MOST_TRIALS and any(_is_open(one, found[case_key]) for one in noisy) and (until is None or clock() < until)
            ):
                turns.measure(own[0].series.case, versions, at_once, first_pair=done)
                done += at_once
                found[case_key] = _verdicts(store, turns.run_id, case_key)
        except VersionFailed as error:
            return found, f"the last good version could not be measured: {error}"
        spent = clock() - began
    return found, ""


def _is_open(suspect: Verdict, measured: Sequence[Verdict]) -> bool:
    own = verdict_of(suspect, measured)
    return own is not None and own.word in OPEN


def _verdicts(store: Store, run_id: str, case_key: str) -> list[Verdict]:
    evidence = load_evidence(store, [store.find_run(run_id)], case_key=case_key)
    return list(compare(*arms_as_sides(evidence, GOOD, NEW), chosen=True).verdicts)


def _merged(comparison: Comparison, again: dict[str, Verdict]) -> Comparison:
    looked_at = [(verdict, again[verdict.series.key]) for verdict in comparison.verdicts if verdict.series.key in again]
    facts = [f"{fact.name} {values_words(fact.first)} → {values_words(fact.second)}" for fact in comparison.environment]
    screened = sum(verdict.screening in (Sight.SUSPECT, Sight.CLEAR) for verdict in comparison.verdicts)
    elsewhere = of_moved_machine(looked_at, screened, comparison.first.runs, facts)
    if elsewhere is not None:
        comparison = replace(comparison, news=(*comparison.news, elsewhere), banners=(*comparison.banners, elsewhere))
    verdicts = in_order([again.get(verdict.series.key, verdict) for verdict in comparison.verdicts])
    shift = comparison.mass_shift
    if shift is not None:
        # What was measured in turn is not the machine's doing.
        apart = [verdict for verdict in verdicts if verdict.confirmed_in is None]
        shift = mass_shift(apart, comparison.canaries, machine_changed=shift.machine_changed)
        banners = tuple(banner for banner in comparison.banners if banner != comparison.mass_shift.text)  # type: ignore[union-attr]
        comparison = replace(comparison, mass_shift=shift, banners=(*banners, *((shift.text,) if shift else ())))
    return replace(comparison, verdicts=verdicts, totals=totals(verdicts))
