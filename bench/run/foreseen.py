"""Where `bench plan` says that a cap on memory ends: a search that asks for nothing but what fits begins there."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from bench.plan.fits import largest
from bench.plan.rounding import MARGIN
from bench.plan.spec import PlanError
from bench.plan.stored import foretold_bytes
from bench.records import MEMORY_LIMIT_PARAM, Case

if TYPE_CHECKING:
    from bench.suite import Search


def foreseen(search: Search, case: Case) -> int | None:
    """The largest value expected under the case's cap, the lowest where not even that is; None without a cap, or where nothing is planned.

    The cap holds what torch's allocator has reserved, so the driver's context is no part of it.
    """
    limit = case.params.get(MEMORY_LIMIT_PARAM)
    if not isinstance(limit, int):
        return None
    step = search.step or 1

    def value(place: int) -> int:
        return search.start + (place - 1) * step

    def needed(place: int) -> int:
        peak = foretold_bytes(dataclasses.replace(case, params={**case.params, search.axis: value(place)}))
        if peak is None:
            raise PlanError("the memory model does not speak of it")
        return int(peak * (1 + MARGIN))

    try:
        place = largest(needed, limit, most=(search.stop - search.start) // step + 1, guess=1)
    except PlanError:
        return None
    return value(place or 1)
