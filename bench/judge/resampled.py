"""How often a whole night cries wolf, and what it sees: nights drawn from real process medians, through the screen and the second look.

Of each series the medians of many processes of one revision are given. A night is the median of five of them, drawn at random; after
twenty nights the next is screened, and a suspect is measured again: eight pairs drawn anew, judged as sides measured in turn. No night
differs from another, so all that comes out better or worse is a false alarm. Then the new version is made slower by a known factor, and it
is counted how many nights find it. The functions and thresholds are those that judge; only the drawing is here.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from bench.errors import SelectionError
from bench.judge.calibration import FACTORS, Power, limits
from bench.judge.confirm import OPEN, PAIRS
from bench.judge.evidence import Evidence, TrialRow
from bench.judge.regress import two_sided
from bench.judge.screen import FLOOR, WINDOW, Sight
from bench.judge.thresholds import MOST_TRIALS, TIME, absolute_floor
from bench.judge.values import Sides, read
from bench.judge.verdict import JUDGING_VERSION, Word
from bench.records import Status
from bench.stats import median

FEWEST_PROCESSES = 40
"""Of a series: fewer are no distribution to draw from."""
PROCESSES = 5
"""Of a night."""
POWER_NIGHTS = 1_000
"""For each factor, over all series."""


@dataclass(frozen=True, slots=True)
class NightlyCalibration:
    """What nights without a change came out as, and nights with one."""

    series: int
    processes: int
    """Fewest of a series."""
    nights: int
    """Series-nights that were judged."""
    suspects: int
    alarms: int
    """Series-nights that were called better or worse."""
    alarms_at_most: float
    """The 95 % upper limit of alarms per 1 000 series-nights."""
    power: tuple[Power, ...]
    suspected: tuple[Power, ...]
    """How many of those the screen pointed at."""
    judging_version: int = JUDGING_VERSION

    @property
    def per_thousand(self) -> float:
        """False alarms per 1 000 series-nights."""
        return 1000 * self.alarms / self.nights


@dataclass(frozen=True, slots=True)
class _Pool:
    """The process medians of one series."""

    workload: str
    values: tuple[float, ...]

    def night(self, rng: random.Random) -> float:
        return median(rng.choices(self.values, k=PROCESSES))


def nightly(runs: Sequence[Evidence], *, nights: int, seed: int) -> NightlyCalibration:
    """Draws about so many series-nights from the times of `runs`, which are of one revision.

    Raises SelectionError where no series has forty processes on one GPU.
    """
    pools = _pools(runs)
    if not pools:
        raise SelectionError(
            f"no series has {FEWEST_PROCESSES} processes: measure it with `bench run SUITE --trials {FEWEST_PROCESSES}`"
        )
    rng = random.Random(seed)
    each = max(1, round(nights / len(pools)))
    suspects = alarms = 0
    for pool in pools:
        history = [pool.night(rng) for _ in range(WINDOW)]
        for _ in range(each):
            history.append(pool.night(rng))
            suspect, alarm = _judged(pool, history[-WINDOW - 1 :], 1.0, rng)
            suspects += suspect
            alarms += alarm is not None
    power, suspected = [], []
    for factor in FACTORS:
        count = max(1, round(POWER_NIGHTS / len(pools)))
        seen = [
            _judged(pool, [*(pool.night(rng) for _ in range(WINDOW)), pool.night(rng) * factor], factor, rng)
            for pool in pools
            for _ in range(count)
        ]
        power.append(Power(factor, sum(alarm is Word.WORSE for _, alarm in seen), len(seen)))
        suspected.append(Power(factor, sum(suspect for suspect, _ in seen), len(seen)))
    total = each * len(pools)
    return NightlyCalibration(
        len(pools), min(len(pool.values) for pool in pools), total, suspects, alarms, 1000 * limits(alarms, total)[1], tuple(power),
        tuple(suspected),
    )  # fmt: skip


def _judged(pool: _Pool, history: Sequence[float], factor: float, rng: random.Random) -> tuple[bool, Word | None]:
    """Whether the last night is suspect, and what the second look calls it where that is better or worse."""
    floor = max(FLOOR, absolute_floor(TIME, pool.workload) / median(history[:-1]))
    sight = two_sided(history, floor)
    if sight.sight is not Sight.SUSPECT:
        return False, None
    good: list[float] = []
    new: list[float] = []
    word = Word.AMBIGUOUS
    while word in OPEN and len(good) < MOST_TRIALS:
        good += rng.choices(pool.values, k=PAIRS)
        new += (value * factor for value in rng.choices(pool.values, k=PAIRS))
        word = read(Sides(TIME, pool.workload, {"": good}, {"": new}, interleaved=True)).word
    slower = sight.ratio is not None and sight.ratio > 1
    return True, word if word is (Word.WORSE if slower else Word.BETTER) else None


def _pools(runs: Sequence[Evidence]) -> list[_Pool]:
    """The times of each case, arm, hardware, method and physical GPU over all runs; canaries left out."""
    groups: dict[tuple[object, ...], list[TrialRow]] = {}
    workloads: dict[tuple[object, ...], str] = {}
    for evidence in runs:
        for row in evidence.trials:
            if row.status is Status.OK and not evidence.is_canary(row.case_key):
                key = row.case_key, row.arm, row.hard_hash, row.method_version, row.gpu or ""
                groups.setdefault(key, []).append(row)
                workloads[key] = evidence.cases[row.case_key].workload
    found = []
    for series in sorted(groups, key=repr):
        values = tuple(value for row in groups[series] if (value := row.medians.get(TIME)) is not None and value > 0)
        if len(values) >= FEWEST_PROCESSES:
            found.append(_Pool(workloads[series], values))
    return found
