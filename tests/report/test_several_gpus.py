"""A run that was resumed on another physical GPU says so, and holds nobody against a canary of the other one."""

from __future__ import annotations

import dataclasses

from bench.records import Result, Run
from bench.report import render_page
from bench.report.drawing.figures import styles
from bench.report.drawing.roofline import rooflines
from bench.report.numbers.layout import sections
from bench.report.numbers.summary import gather
from bench.report.trust.doubts import doubts
from tests.report.gpu_sample import gpu_run

ONE, OTHER = "GPU-11111111-aaaa-bbbb", "GPU-22222222-cccc-dddd"


def _resumed() -> tuple[Run, list[Result]]:
    """The largest size ran on another GPU than the canaries and the other sizes."""
    run, rows = gpu_run()
    return run, [
        dataclasses.replace(row, conditions={"gpu_uuid": OTHER if row.case.params.get("seq_len") == 4096 else ONE}) for row in rows
    ]


def _doubts(run: Run, rows: list[Result]) -> str:
    cases, reach = gather(run, rows)
    return "\n".join(f"{doubt.count} {doubt.text}" for doubt in doubts(run, cases, reach))


def test_two_physical_gpus_are_a_doubt_with_the_rows_of_each() -> None:
    assert (
        "2 physical GPUs in one run, which may differ in clocks and power (18 rows on GPU-11111111-aaa…, 9 rows on GPU-22222222-ccc…); "
        "no canary ran on GPU-22222222-ccc…, so its rows have no share of a measured ceiling"
    ) in _doubts(*_resumed())
    run, rows = gpu_run()
    assert "physical GPUs" not in _doubts(run, rows)
    assert "physical GPUs" not in _doubts(run, [dataclasses.replace(row, conditions={"gpu_uuid": ONE}) for row in rows])


def test_a_point_whose_subjects_ran_on_different_gpus_is_told() -> None:
    run, rows = gpu_run()
    mixed = [dataclasses.replace(r, conditions={"gpu_uuid": OTHER if r.case.subject_label == "flex" else ONE}) for r in rows]
    assert "at 3 points subjects ran on different ones" in _doubts(run, mixed)


def test_only_rows_of_the_gpu_that_measured_a_ceiling_have_a_share_of_it() -> None:
    cases, _ = gather(*_resumed())
    for case in cases:
        flops = case.rates.flops
        assert flops is not None
        assert (flops.measured is None) == (case.axis("seq_len") == 4096)
        assert flops.data_sheet is not None


def test_a_share_of_the_data_sheet_beside_shares_of_a_canary_says_which_it_is() -> None:
    run, rows = _resumed()
    page = render_page([run], rows, now="2026-01-02T04:00:00+00:00")
    assert "<i>49 %</i>" in page
    assert "<i>35 % of the data sheet</i>" in page


def test_a_roofline_holds_only_marks_of_the_gpu_that_measured_its_roofs() -> None:
    run, rows = _resumed()
    cases, _ = gather(run, rows)
    (section,) = sections(run, cases)
    (figure,) = rooflines(section, styles(section.labels), "r1")
    all_on_one = [dataclasses.replace(row, conditions={"gpu_uuid": ONE}) for row in rows]
    (whole,) = sections(run, gather(run, all_on_one)[0])
    (complete,) = rooflines(whole, styles(whole.labels), "r1")
    assert figure.svg.count("<use") < complete.svg.count("<use")
