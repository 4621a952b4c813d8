"""A sentence on top has two sides, names the best other beside the baseline, and tells who computes something else on purpose."""

from __future__ import annotations

import re

from bench.records import Check, Measurement, Result
from bench.report import render_markdown, render_page
from bench.report.answers.readings import OTHER_NUMBERS, Reading, questions, readings
from bench.report.numbers.findings import other_numbers, telling
from bench.report.numbers.layout import Section, sections
from bench.report.numbers.summary import PEAK, TIME, summarize
from tests import factories
from tests.report.step_sample import TOLERATED, quantized_run

RUN = factories.run(id="run-1", suite_data={"baseline": {"attention": "eager"}})
NOW = "2026-01-02T04:00:00+00:00"


def _row(
    name: str, time_s: float, peak: float, *, error: float | None = None, tolerated: bool = False, **changes: object
) -> list[Result]:
    return [
        factories.result(
            "run-1",
            factories.case(name),
            index=index,
            measurements=(
                Measurement(TIME, "s", (time_s + index * time_s / 1000,) * 30),
                Measurement(PEAK, "byte", (peak,)),
                *((Measurement("output_error", "ratio", (error,)),) if error is not None else ()),
            ),
            checks=(Check("out", "small", 0.01, 0.001, 0.05, True, TOLERATED if tolerated else None),),
            **changes,
        )
        for index in range(3)
    ]


def _section(rows: list[Result]) -> Section:
    (section,) = sections(RUN, summarize(RUN, rows))
    return section


def _readings(rows: list[Result], metric: str = TIME) -> list[Reading]:
    return readings(_section(rows), metric)


def test_the_least_memory_says_in_the_same_line_that_it_is_slower() -> None:
    (reading,) = _readings(_row("eager", 1.0, 1000.0 * 2**20) + _row("liger", 1.15, 97.0 * 2**20), PEAK)
    assert reading.subject == "liger"
    assert reading.detail == "97.0 MiB (every trial, n 3); 0.0970× of the baseline eager – and slower: 1.15×"


def test_the_fastest_says_in_the_same_line_what_it_takes_in_memory() -> None:
    (reading,) = _readings(_row("eager", 1.0, 2.0**20) + _row("greedy", 0.5, 3.0 * 2**20))
    assert "0.500×" in reading.detail
    assert reading.detail.endswith(" – and more memory: 3.00×")
    (reading,) = _readings(_row("eager", 1.0, 2.0**20) + _row("frugal", 0.5, 2.0**18))
    assert reading.detail.endswith(", and less memory: 0.250×")


def test_a_peak_that_hardly_differs_is_the_same_memory_and_not_more() -> None:
    (reading,) = _readings(_row("eager", 1.0, 1000.0) + _row("flex", 0.5, 1001.0))
    assert reading.detail.endswith(", and the same memory within 0.5 %")


def test_a_time_that_hardly_differs_is_as_fast_and_not_slower() -> None:
    (reading,) = _readings(_row("eager", 1.0, 1000.0 * 2**20) + _row("liger", 1.003, 97.0 * 2**20), PEAK)
    assert reading.detail.endswith("0.0970× of the baseline eager, and as fast within 0.5 %")


def test_where_the_baseline_is_not_the_best_of_the_others_both_ratios_are_named() -> None:
    (reading,) = _readings(_row("eager", 1.0, 2.0**20) + _row("compiled", 0.6, 2.0**19) + _row("liger", 0.5, 2.0**18))
    assert [clause.split(",")[0].split(" (")[0] for clause in reading.clauses[1:]] == ["0.500×", "0.833×"]
    assert "of the baseline eager, and less memory: 0.250×" in reading.clauses[1]
    assert "of the best other, compiled, and less memory: 0.500×" in reading.clauses[2]


def test_a_baseline_that_wins_says_what_the_next_one_would_save() -> None:
    (reading,) = _readings(_row("eager", 0.5, 2.0**20) + _row("liger", 1.0, 2.0**18))
    assert "next is liger with 2.00×" in reading.detail
    assert reading.detail.endswith(", and less memory: 0.250×")


def test_a_larger_error_is_told_in_the_same_line() -> None:
    (reading,) = _readings(_row("eager", 1.0, 2.0**20, error=1e-4) + _row("rough", 0.5, 2.0**20, error=2e-4))
    assert reading.detail.endswith("and the same memory; error 0.0200 % instead of 0.0100 %")
    (reading,) = _readings(_row("eager", 1.0, 2.0**20, error=1e-4) + _row("alike", 0.5, 2.0**20, error=1.1e-4))
    assert "error" not in reading.detail


def test_who_declares_a_tolerance_never_wins_over_those_who_compute_the_same() -> None:
    rows = _row("eager", 1.0, 2.0**20, error=0.002) + _row("compiled", 0.9, 2.0**20, error=0.002)
    rows += _row("int8", 0.4, 2.0**18, error=0.091, tolerated=True)
    same, apart = _readings(rows)
    assert (same.subject, same.aside) == ("compiled", None)
    assert (apart.subject, apart.aside) == ("int8", OTHER_NUMBERS)
    assert "error 9.10 % instead of 0.200 %" in apart.detail
    assert apart.detail.count("error") == 1
    assert apart.text.startswith(f"int8 ({OTHER_NUMBERS}), 400 ms")


def test_who_declares_a_tolerance_and_is_slower_has_no_sentence() -> None:
    rows = _row("eager", 1.0, 2.0**20) + _row("int8", 1.4, 2.0**21, tolerated=True)
    assert [reading.subject for reading in _readings(rows)] == ["eager"]


def test_an_error_far_beyond_rounding_sets_apart_without_a_declaration() -> None:
    rows = _row("eager", 1.0, 2.0**20, error=0.002) + _row("other", 0.4, 2.0**20, error=0.5)
    (facet,) = _section(rows).facets
    assert other_numbers(facet) == {"other"}
    rows = _row("eager", 1.0, 2.0**20, error=1e-7) + _row("other", 0.4, 2.0**20, error=9e-7)
    (facet,) = _section(rows).facets
    assert other_numbers(facet) == frozenset()


def test_where_all_declare_a_tolerance_they_are_compared_with_each_other() -> None:
    rows = _row("int8", 1.0, 2.0**20, tolerated=True) + _row("nf4", 0.4, 2.0**20, tolerated=True)
    (reading,) = _readings(rows)
    assert (reading.subject, reading.aside) == ("nf4", None)


def test_a_pass_in_which_nobody_keeps_anything_has_no_winner_in_memory() -> None:
    assert _readings(_row("eager", 1.0, 0.0) + _row("flex", 0.5, 0.0), PEAK) == []


def test_a_rival_on_another_physical_gpu_is_a_doubt() -> None:
    rows = _row("eager", 1.0, 2.0**20, conditions={"gpu_uuid": "GPU-a"}) + _row(
        "flex", 0.5, 2.0**20, conditions={"gpu_uuid": "GPU-b"}
    )
    (reading,) = _readings(rows)
    assert reading.doubt == "eager ran on another physical GPU"


def test_findings_are_columns_where_a_case_has_them_and_dashes_where_one_lacks_them() -> None:
    rows = _row("eager", 1.0, 2.0**20, error=0.0017) + _row("flex", 0.5, 2.0**20)
    page = render_page([RUN], rows, now=NOW)
    assert re.search(r'<th scope="col" class="num" data-q=\w+ title="root mean square[^"]*">error</th>', page)
    assert "<td>0.170 %" in page
    assert ">weights</th>" not in page
    table = [line for line in render_markdown([RUN], rows).splitlines() if line.startswith("| ")]
    assert table[0].endswith("| kept for backward | error |")
    assert [line.rsplit("|", 2)[1].strip() for line in table if line.startswith(("| eager", "| flex"))] == ["0.170 %", "–"]


def test_a_finding_that_all_share_is_in_no_cell_of_the_matrix() -> None:
    (facet,) = _section(_row("eager", 1.0, 2.0**20, error=0.01) + _row("flex", 0.5, 2.0**20, error=0.01)).facets
    assert telling(facet) == ()
    (facet,) = _section(_row("eager", 1.0, 2.0**20, error=0.01) + _row("flex", 0.5, 2.0**20, error=0.011)).facets
    assert telling(facet) == ("output_error",)


def test_a_page_marks_who_computes_something_else_and_never_tints_it_as_faster() -> None:
    run, rows = quantized_run()
    page = render_page([run], rows, now=NOW)
    matrix = page[page.index('<table class="matrix">') : page.index("</table>", page.index('<table class="matrix">'))]
    lines = {re.sub(r"<[^>]*>", " ", line).split()[0]: line for line in re.split(r"<tr[^>]*>", matrix)[2:]}
    assert "≠ other numbers" in lines["int8"]
    assert "≠ other numbers" not in lines["plain"]
    assert 'class="faster"' not in lines["int8"]
    assert 'class="faster"' in lines["plain_other"]
    assert "<small>error 2.10 %</small><small>weights 34.0 MiB</small>" in lines["int8"]
    assert f'<b>int8</b> <span class="chip">{OTHER_NUMBERS}</span>' in page


def test_what_formats_are_chosen_for_is_asked_where_they_differ_in_it() -> None:
    run, rows = quantized_run()
    (section,) = sections(run, summarize(run, rows))
    assert [words for _, words in questions(section)] == [
        "Fastest measured",
        "Least memory measured",
        "Smallest weights measured",
    ]
    same, apart = readings(section, "weight_bytes")
    assert (same.subject, apart.subject) == ("plain", "nf4")
    assert apart.detail == (
        "18.0 MiB (every trial, n 3); 0.281× of the baseline plain – and slower: 1.45× (1.44–1.46); error 9.10 % instead of 0.170 %"
    )


def test_several_that_compute_something_else_do_so_in_the_plural() -> None:
    rows = _row("eager", 1.0, 2.0**20) + _row("int8", 1.0, 2.0**18, tolerated=True) + _row("int8b", 1.1, 2.0**18, tolerated=True)
    _, apart = _readings(rows, PEAK)
    assert apart.text.startswith("int8 and int8b (compute something else on purpose), each 256 KiB")
    assert "the fastest of them is int8 with 1.00 s" in apart.detail


def test_a_winner_whose_only_rivals_compute_something_else_says_so() -> None:
    (reading, _) = _readings(_row("eager", 1.0, 2.0**20) + _row("int8", 0.5, 2.0**18, tolerated=True))
    assert reading.doubt == "nothing else that computes the same has a number here"
