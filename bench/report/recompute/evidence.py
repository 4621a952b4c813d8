"""What the data repeat of a trial beside its numbers: as much of its checks and conditions as doubts, trust and views look at.

Written in a form that many trials share, and read back as what those views can be made of again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bench.judge.shared_gpu import on_its_gpu
from bench.machine.named_processes import BUSY, ON_GPU, process_names
from bench.machine.throttling import CHOSEN
from bench.plan.stored import PREDICTED, Stored, stored
from bench.records import Check, Json, Result
from bench.report.numbers.findings import numerics_of
from bench.report.numbers.formats import COUNTED_FOR_ALL, MULTIPLIES_IN, UNKNOWN, multiplied_in
from bench.report.numbers.summary import TOLERANCE_WORDS
from bench.report.numbers.units import shorten
from bench.report.trust.agreement import GRADIENTS_OF, SEED, seed_of
from bench.report.trust.doubts import FEWEST_ON_ONE_SM, FLAGS, SCALES, SEEN_OFTEN, UNANALYSED

if TYPE_CHECKING:
    from bench.store.page_data import PageChecks

LONGEST_DETAIL = 200
EXACT = 2**53
"""Below it a float holds every whole number."""
SHARED = ("shared_out", "kept_whole")
"""What of the model each rank has a part of, and what it has whole."""
_COUNTED = ("discarded_trials", "allocator_retries_while_sampling")
"""Told as whole numbers, and only above zero."""


def told_number(value: float | None) -> float | int | None:
    """The very number, since a verdict may hang on its last digit, whole ones without a point; absent where JSON has none for it."""
    if value is None or not math.isfinite(value):
        return None
    return int(value) if abs(value) < EXACT and value == int(value) else float(value)


def told_conditions(result: Result) -> dict[str, Json]:
    """Of a trial's conditions what speaks for or against it; empty where nothing does and nothing was looked at."""
    given = result.conditions
    told: dict[str, Json] = {name: True for name in FLAGS if given.get(name) is True}
    if given.get("warmup_stable") is False:
        told["warmup_stable"] = False
    not_done = given.get("not_done")
    if isinstance(not_done, dict) and not_done:
        told["not_done"] = {str(phase): str(reason) for phase, reason in not_done.items()}
    for name in _COUNTED:
        if (number := _number(given.get(name))) is not None and number > 0:
            told[name] = int(number) or 1
    if (share := _number(given.get("same_sm_share"))) is not None and share < FEWEST_ON_ONE_SM:
        told["same_sm_share"] = 0
    if given.get(PREDICTED) is not None:
        told[PREDICTED] = _prediction(stored(given))
    told |= {name: given[name] for name in (*SHARED, SCALES, UNANALYSED) if isinstance(given.get(name), str)}
    told |= numerics_of(result)
    if isinstance(step := given.get(GRADIENTS_OF), int) and (seed := seed_of(result)) is not None:
        told |= {GRADIENTS_OF: step, SEED: seed}
    if _tolerated(result.checks) and result.case.workload != COUNTED_FOR_ALL:
        told[MULTIPLIES_IN] = multiplied_in(result.case, [result]) or UNKNOWN
    if isinstance(processes := given.get(BUSY), list):
        told[BUSY] = sorted(set(process_names(processes)))
    if others := on_its_gpu(given):
        told[ON_GPU] = sorted(set(others))
    shares = given.get("throttle_share")
    if isinstance(shares, Mapping):
        told["throttle_share"] = {
            str(word): _rounded(share) for word, share in shares.items() if word not in CHOSEN and _rounded(share)
        }
    return told


def _prediction(found: Stored | None) -> Json:
    """What a row keeps of the prediction of its peak; nothing of one that the memory model refused."""
    if found is None:
        return {}
    told: dict[str, Json] = {"peak_bytes": found.peak_bytes, "phase": found.phase, "causes": dict(found.causes)}
    beside = {"phases": dict(found.phases), "away": dict(found.away)}
    return {**told, **{name: sizes for name, sizes in beside.items() if sizes}}


def _rounded(share: Json) -> float:
    """Seen often, at some time, or never."""
    number = _number(share)
    return 0.0 if number is None or number <= 0 else SEEN_OFTEN if number <= SEEN_OFTEN else 1.0


def _number(value: Json) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not -1e300 < value < 1e300:
        return None
    return float(value)


def told_checks(checks: Sequence[Check]) -> Json:
    """How many there were, whether against a tolerance, and each of them; None of a trial without one."""
    return [len(checks), _tolerated(checks), *map(_told, checks)] if checks else None


def _tolerated(checks: Sequence[Check]) -> bool:
    return any(TOLERANCE_WORDS in (check.detail or "") for check in checks)


def _told(check: Check) -> Json:
    numbers = (told_number(value) for value in (check.error, check.plain_error, check.limit))
    detail = () if check.detail is None else (shorten(check.detail, LONGEST_DETAIL),)
    return [check.tensor, check.at, *numbers, check.passed, *detail]


def checks_of(told: PageChecks | None) -> tuple[Check, ...]:
    """Those that were told; a page of an older version told the nearest, and how many others there were, which passed."""
    if told is None:
        return ()
    rest = Check("", "", None, None, None, True)
    return (*told.shown, *(rest for _ in range(told.count - len(told.shown))))
