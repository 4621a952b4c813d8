"""Orders the blocks of a night so that what matters is measured first, and all else takes turns: the longest unmeasured come next."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bench.records import Trial
from bench.run.canaries import is_canary
from bench.run.plan import Plan

if TYPE_CHECKING:
    from bench.store import Store
    from bench.suite import Filter, Suite


def last_measured(store: Store, suite: str) -> dict[str, str]:
    """By key of a case, when its newest row in a run of the suite was made, UTC, however it ended.

    What is not installed or out of memory was looked at too: a block with such a case would else come first every night.
    """
    from sqlalchemy import func, select

    from bench.store.models import ResultRow, RunRow

    statement = select(ResultRow.case_key, func.max(ResultRow.started_at)).join(RunRow, RunRow.id == ResultRow.run_id)
    statement = statement.where(RunRow.suite == suite, ResultRow.arm == "-")
    with store.reading() as connection:
        return {key: newest for key, newest in connection.execute(statement.group_by(ResultRow.case_key)) if newest is not None}


def in_turns(plan: Plan, suite: Suite, last: Mapping[str, str], priority: Sequence[Filter]) -> Plan:
    """The plan with its blocks in the order of a night: canaries, then those with a case that all of `priority` hold for, then the others.

    Within each, what was never measured comes first and what was measured last comes last.
    """

    def place(block: tuple[Trial, ...]) -> tuple[int, str]:
        cases = {trial.case.key: trial.case for trial in block}
        if any(is_canary(case, suite.workload) for case in cases.values()):
            return 0, ""
        first = bool(priority) and any(all(wanted.holds(case) for wanted in priority) for case in cases.values())
        return (1 if first else 2), min(last.get(key, "") for key in cases)

    ordered = sorted(plan.blocks, key=place)
    return dataclasses.replace(plan, trials=tuple(trial for block in ordered for trial in block))
