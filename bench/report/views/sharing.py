"""The views of training steps that are shared out, of one run or of several in a page that measured parts of one question.

One and two GPUs are often measured by runs of their own, and so are sizes of a model. Runs of one suite on the same kind of machine whose
steps differ in nothing but sharding, ranks, model and sizes are told together, with the first of them, where they were measured in one way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.judge.evidence import asks_what_fits
from bench.records import Run
from bench.report.numbers.layout import Section, sections
from bench.report.numbers.sharded import SLOT, shares_steps
from bench.report.numbers.summary import CaseSummary
from bench.report.views.planned import planned_table
from bench.report.views.rows import row_id
from bench.report.views.scaling import scaling_table
from bench.report.views.stages import stage_tables
from bench.report.views.tables import Table

HARDWARE = ("gpu_model", "cpu_model")


@dataclass(slots=True)
class Pool:
    """What is told together."""

    leader: Run
    """With whose rows it stands."""
    cases: list[CaseSummary] = field(default_factory=list)

    def takes(self, cases: Iterable[CaseSummary]) -> bool:
        """Whether none of them is in it: what was measured twice is two answers."""
        there = {(case.case.key, case.arm) for case in self.cases}
        return not any((case.case.key, case.arm) in there for case in cases)


def pooled(runs: Sequence[Run], cases: Mapping[str, Sequence[CaseSummary]]) -> dict[str, Pool]:
    """By the id of the run; none of a run that shares nothing out. `cases` by the same."""
    found: dict[tuple[object, ...], list[Pool]] = {}
    by_run: dict[str, Pool] = {}
    for run in runs:
        own = [case for case in cases[run.id] if SLOT in case.case.subject]
        if not shares_steps(own):
            continue
        slots = frozenset((slot, name) for case in own for slot, name in case.case.subject.items() if slot != SLOT)
        pools = found.setdefault((run.suite, slots, _machines(own), _methods(own), asks_what_fits(run)), [])
        pool = next((pool for pool in pools if pool.takes(own)), None)
        if pool is None:
            pool = Pool(run)
            pools.append(pool)
        pool.cases += own
        by_run[run.id] = pool
    return by_run


def _machines(cases: Iterable[CaseSummary]) -> frozenset[object]:
    """Models of devices: how many of them there are differs with the ranks."""
    hard = [result.environment.hard for case in cases for result in case.counted]
    return frozenset(next((facts[name] for name in HARDWARE if facts.get(name)), None) for facts in hard)


def _methods(cases: Iterable[CaseSummary]) -> frozenset[int]:
    """Versions of the measuring method."""
    return frozenset(result.method_version for case in cases for result in case.counted)


def sharing_tables(section: Section, pool: Pool | None) -> tuple[Table, ...]:
    """None of a section that asks something else; where it is told with another run, which."""
    if pool is None or not shares_steps(section.cases):
        return ()
    if section.run.id != pool.leader.id:
        began = pool.leader.started_at[:16].replace("T", " ")
        words = f"Scaling, sizes and predictions are told together with the run of {began}, above."
        return (Table("Told together", "", (), (), words=(words,), kind="scaling"),)
    (whole,) = sections(section.run, [case for case in pool.cases if case.case.workload == section.workload])
    row_ids = {(case.case.key, case.arm): row_id(case, case.status) for case in whole.cases}
    made = (scaling_table(whole, row_ids), *stage_tables(whole, row_ids), planned_table(whole, row_ids))
    return tuple(table for table in made if table is not None)
