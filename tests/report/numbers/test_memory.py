"""Of a training step all that is resident counts, also where it was only asked whether it fits."""

from __future__ import annotations

from dataclasses import replace

from bench.records import Result
from bench.report.numbers.memory import compared_memory
from bench.report.numbers.summary import PEAK, TOTAL, gather
from tests.report.views_sample import search_run


def probed(row: Result) -> Result:
    """As a probe has it: a time and peaks, nothing of phases and causes."""
    kept = tuple(one for one in row.measurements if one.metric in ("time_s", PEAK, TOTAL))
    return replace(row, measurements=kept)


def test_the_largest_that_fits_is_told_with_all_that_is_resident_also_of_probes() -> None:
    run, rows = search_run()
    cases, _ = gather(run, [probed(row) for row in rows])
    assert any(TOTAL in case.values for case in cases)
    assert compared_memory(cases) == TOTAL
    assert compared_memory(gather(run, rows)[0]) == TOTAL


def test_an_update_alone_is_no_training_step() -> None:
    run, rows = search_run()
    alone = [replace(row, trial=replace(row.trial, case=replace(row.case, workload="optimizer"))) for row in map(probed, rows)]
    assert compared_memory(gather(run, alone)[0]) == PEAK
