"""The views of a section whose training steps are shared out: scaling, from which size stages pay, and predictions by phase."""

from __future__ import annotations

from collections.abc import Mapping

from bench.report.numbers.layout import Section
from bench.report.numbers.sharded import shares_steps
from bench.report.views.planned import planned_table
from bench.report.views.scaling import scaling_table
from bench.report.views.stages import stage_tables
from bench.report.views.tables import Table


def sharing_tables(section: Section, row_ids: Mapping[tuple[str, str], str]) -> tuple[Table, ...]:
    """None of a section that asks something else."""
    if not shares_steps(section.cases):
        return ()
    made = (scaling_table(section, row_ids), *stage_tables(section, row_ids), planned_table(section, row_ids))
    return tuple(table for table in made if table is not None)
