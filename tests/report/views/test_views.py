"""The further views: each shows what it should from rows that are known, and nothing where it has nothing to say."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest

from bench.plan.predict import predict
from bench.plan.stored import PREDICTED
from bench.records import MEMORY_LIMIT_PARAM, Result, Run, Status, canonical_json
from bench.report import render_page
from bench.report.answers.against import judged
from bench.report.answers.crossover import crossings
from bench.report.drawing.figures import styles
from bench.report.drawing.histogram import BINS, DIGITS, histogram
from bench.report.drawing.strips import FULL, WALL, Mark, Strip, strips
from bench.report.numbers.layout import Section, sections
from bench.report.numbers.predicted import _predicted, predicted_causes, prediction_words
from bench.report.numbers.summary import TIME, Reach, gather
from bench.report.recompute.verify import verify_page
from bench.report.trust.grounds import trust
from bench.report.trust.method import method
from bench.report.views.frontier import frontier_table
from bench.report.views.numerics import numerics
from bench.report.views.ranks import rank_table
from bench.report.views.scorecard import scorecard
from bench.report.views.stability import stability
from bench.report.views.steps import step_tables
from bench.report.views.tables import Table
from tests import factories
from tests.report.chromium import NOW
from tests.report.sample import everything
from tests.report.views_sample import (
    REFUSAL,
    crossing_run,
    ladder_run,
    pairs_run,
    precision_run,
    ranks_run,
    search_run,
)

Made = Callable[[], tuple[Run, list[Result]]]


def _section(made: tuple[Run, list[Result]]) -> Section:
    (section,) = sections(made[0], gather(*made)[0])
    return section


def _texts(table: Table | None) -> dict[str, list[str]]:
    assert table
    return {line[0].text: [cell.text for cell in line[1:]] for line in table.lines}


# --- scorecard, crossover, frontier --------------------------------------------------------------------------------------------


def test_the_scorecard_has_a_geometric_mean_over_the_points_that_both_have() -> None:
    section = _section(crossing_run())
    flash, flex, eager = scorecard(section, judged(section))
    assert flash.is_baseline
    assert flex.time == "0.965×"
    assert (flex.n, flex.of) == (5, 5)
    assert flex.best == ("0.700×", "seq len 8192")
    assert flex.worst == ("1.30×", "seq len 512")
    assert (eager.time, eager.n, eager.of, eager.without) == ("5.00×", 4, 5, "1 OOM")
    assert dict(eager.words) == {"worse": 4, "didn't run": 1}


def test_one_point_has_no_scorecard() -> None:
    section = _section(ladder_run())
    assert scorecard(section, judged(section)) == ()


def test_a_crossing_lies_between_the_sizes_at_which_each_is_shown_to_be_faster() -> None:
    (found,) = crossings(_section(crossing_run()).facets[0])
    assert (found.first, found.second, found.settled) == ("sdpa_flash", "flex", True)
    assert 1024 < found.low <= found.at <= found.high < 4096
    assert found.at == pytest.approx(2048, rel=0.01)
    assert re.fullmatch(r"flex overtakes sdpa_flash at seq len 2050 \(1\d\d0–2\d\d0\)", found.words("seq_len"))


def test_with_too_few_trials_only_medians_cross_and_the_sentence_says_so() -> None:
    run, rows = crossing_run(trials=1)
    rows = [row for row in rows if row.case.params["seq_len"] != 2048]
    (found,) = crossings(_section((run, rows)).facets[0])
    assert (found.low, found.high, found.settled) == (1024, 4096, False)
    assert found.words("seq_len").endswith("by medians; too few trials to judge")
    ranks = dataclasses.replace(found, at=1.03, low=1, high=1.9)
    assert ranks.words("world_size").endswith("overtakes sdpa_flash between world size 1 and 2 by medians; too few trials to judge")


def test_lines_that_only_differ_by_noise_do_not_cross() -> None:
    run = factories.run(id="run-n", suite_data={})
    rows = [
        factories.result(
            run.id, factories.case(name, seq_len=size), index=index, time_s=1e-3 * (1 + 0.01 * index + 0.001 * (place ^ flip))
        )
        for flip, size in enumerate((128, 256, 512))
        for place, name in enumerate(("a", "b"))
        for index in range(4)
    ]
    assert crossings(_section((run, rows)).facets[0]) == ()


def test_the_frontier_names_the_largest_that_fits_and_the_smallest_that_does_not() -> None:
    section = _section(search_run())
    table = frontier_table(section, section.facets[0], styles(section.labels), {})
    assert table
    found = _texts(table)
    assert list(found) == ["full", "plain"]
    assert found["plain"][:2] == ["16384", "18432"]
    assert found["full"][:2] == ["65536", "none seen"]
    assert table.svg
    assert "16384 fits, 18432 does not" in table.svg


def test_the_frontier_tells_what_else_a_size_takes_and_what_is_planned_for_the_one_that_does_not_fit() -> None:
    run, rows = search_run()
    planned = {PREDICTED: {"peak_bytes": 97 * 2**30, "phase": "backward", "moment": "loss", "causes": {}, "notes": []}}
    disk = factories.measurement("disk_bytes", (3.0 * 2**30,))
    rows = [
        dataclasses.replace(row, conditions=planned)
        if row.status is Status.OOM
        else dataclasses.replace(row, measurements=(*row.measurements, disk))
        for row in rows
    ]
    section = _section((run, rows))
    table = frontier_table(section, section.facets[0], styles(section.labels), {})
    assert table
    assert [head.text for head in table.heads][-1] == "on disk there"
    assert {line[0].text: (line[2].note, line[-1].text) for line in table.lines} == {
        "plain": ("planned: 97.0 GiB", "3.00 GiB"),
        "full": ("", "3.00 GiB"),
    }


@pytest.mark.parametrize(("device", "told"), [("cuda", True), ("cpu", False)])
def test_the_frontier_under_a_cap_on_a_gpu_tells_what_the_cap_holds_and_whose_times_they_are(device: str, told: bool) -> None:
    run, rows = search_run()
    capped = []
    for row in rows:
        case = dataclasses.replace(row.case, device=device, params={**row.case.params, MEMORY_LIMIT_PARAM: 24 * 10**9})
        capped.append(dataclasses.replace(row, trial=dataclasses.replace(row.trial, case=case)))
    for given, expected in ((capped, told), (rows, False)):
        section = _section((run, given))
        table = frontier_table(section, section.facets[0], styles(section.labels), {})
        assert table
        assert ("about 600 MiB less" in table.caption) is expected
        assert ("times are those of this GPU" in table.caption) is expected


def test_out_of_memory_in_a_plain_sweep_has_a_frontier_and_without_there_is_none() -> None:
    section = _section(crossing_run())
    assert _texts(frontier_table(section, section.facets[0], styles(section.labels), {}))["eager"][:2] == ["4096", "8192"]
    run, rows = crossing_run()
    calm = _section((run, [row for row in rows if row.status is Status.OK]))
    assert frontier_table(calm, calm.facets[0], styles(calm.labels), {}) is None


# --- combinations ----------------------------------------------------------------------------------------------------------------


def test_the_ladder_holds_each_step_against_the_one_before_and_the_first() -> None:
    section = _section(ladder_run())
    ladder, left_out = step_tables(section, section.facets[0], {})
    found = _texts(ladder)
    assert list(found) == ["as it is", "+ flash", "+ fused norms", "+ fused optimizer"]
    assert found["as it is"][1:3] == ["–", "–"]
    assert found["+ flash"][1].startswith("0.750× (")
    assert found["+ fused optimizer"][1].startswith("0.900× (")
    assert found["+ fused optimizer"][2] == "0.675×"
    notes = {line[0].text: line[2].note for line in ladder.lines}
    assert notes == {"as it is": "", "+ flash": "▼ better", "+ fused norms": "= same", "+ fused optimizer": "▼ better"}
    without = _texts(left_out)
    assert list(without) == ["all together", "without flash", "without optimizer"]
    assert without["without flash"][1].startswith("1.33× (")


def test_a_step_of_the_ladder_in_other_numerics_is_told_and_not_called_better() -> None:
    run, rows = ladder_run()
    eight_bit = [
        dataclasses.replace(row, conditions={**row.conditions, "numerics_states": "uint8" if fused else "bf16"})
        for row in rows
        for fused in [row.case.subject["optimizer"] == "adamw_fused"]
    ]
    section = _section((run, eight_bit))
    ladder, left_out = step_tables(section, section.facets[0], {})
    notes = {line[0].text: (line[2].text[:7], line[2].note, line[5].note) for line in ladder.lines[1:]}
    assert notes["+ flash"] == ("0.750× ", "▼ better", "▼ better")
    assert notes["+ fused optimizer"] == ("0.900× ", "other numbers", "other numbers")
    assert {line[0].text: line[2].note for line in left_out.lines[1:]} == {
        "without flash": "▲ worse",
        "without optimizer": "other numbers",
    }


def test_bars_of_a_ladder_begin_at_zero() -> None:
    section = _section(ladder_run())
    ladder = step_tables(section, section.facets[0], {})[0]
    shares = [line[1].share for line in ladder.lines]
    assert shares == pytest.approx([1.0, 0.75, 0.75, 0.675])


def test_the_matrix_of_pairs_has_a_word_in_each_cell_and_the_words_of_what_refuses() -> None:
    run, rows = pairs_run()
    page = render_page([run], rows, now=NOW)
    matrix = page[page.index('<div class="view compat">') : page.index('<details class="facet"')]
    for text in ("✓ works", "≠ wrong loss", "○ no effect", "× refuses", "– either or", "float8 alone too"):
        assert text in matrix
    assert "float8: refuses: NotImplementedError: &lt;float8&gt; needs" in matrix
    assert REFUSAL not in page
    first = page[page.index('<ul class="readings advice">') : page.index("What is doubtful")]
    assert "<b>6 work together</b>, 1 wrong loss, 1 no effect, 1" not in first
    assert "look at flash with nf4, Liger with 8-bit" in first
    assert set(re.findall(r'href="#(r-[^"]+)"', matrix)) <= set(re.findall(r'id="(r-[^"]+)"', page))


# --- memory, errors, stability, ranks ------------------------------------------------------------------------------------------


def test_a_prediction_stands_beside_the_measured_peak_of_a_step() -> None:
    run, rows = ladder_run()
    case = gather(run, rows)[0][0]
    found = predicted_causes(case)
    # 1 235 814 400 parameters in bf16, and two states for each.
    assert found["parameters"] == pytest.approx(1_235_814_400 * 2, rel=0.001)
    assert found["optimizer_states"] == pytest.approx(1_235_814_400 * 4, rel=0.001)
    pattern = r"defaults: [\d.]+ GiB predicted by today's formulas, 13\.7 GiB measured, [+-][\d.]+ %"
    assert re.fullmatch(pattern, prediction_words(case))
    assert "Below each bar what the memory model predicts of it:" in render_page([run], rows, now=NOW)


def test_a_page_computes_the_prediction_of_a_case_once(monkeypatch: pytest.MonkeyPatch) -> None:
    run, rows = ladder_run()
    asked: list[str] = []

    def counted(params: Any, subject: Any, target: Any) -> Any:
        asked.append(canonical_json([params, subject]))
        return predict(params, subject, target)

    _predicted.cache_clear()
    monkeypatch.setattr("bench.report.numbers.predicted.predict", counted)
    assert "Below each bar what the memory model predicts of it:" in render_page([run], rows, now=NOW)
    assert len(asked) == len(set(asked)) > 1


def test_the_curves_of_ranks_are_no_lines_among_the_conditions() -> None:
    run, rows = ranks_run()
    seen = {"phase": "loss", "peak_bytes": 1, "timeline": [{"at_s": 0.1, "phase": "loss", "bytes": {"parameters": 1}}]}
    by_rank = {str(rank): {"memory_explained": seen, "cpu": rank} for rank in range(4)}
    page = render_page([run], [dataclasses.replace(row, conditions={"ranks": by_rank}) for row in rows], now=NOW)
    assert "ranks.3.cpu" in page
    assert "memory_explained" not in page


def test_what_a_row_stored_before_it_ran_is_told_rather_than_what_is_computed_now() -> None:
    run, rows = ladder_run(trials=1)
    kept = {PREDICTED: {"peak_bytes": 2**30, "phase": "loss", "causes": {"parameters": 2**30}}}
    first = dataclasses.replace(rows[0], conditions={**rows[0].conditions, **kept})
    refused = dataclasses.replace(rows[1], conditions={PREDICTED: {"refused": "no formulas"}})
    cases = {case.label: case for case in gather(run, [first, refused, *rows[2:]])[0]}
    assert predicted_causes(cases["defaults"]) == {"parameters": 2.0**30}
    assert prediction_words(cases["defaults"]) == "defaults: 1.00 GiB predicted before it ran, 13.7 GiB measured, -92.7 %"
    assert prediction_words(cases["1: + flash"]) == ""
    page = render_page([run], [first, refused, *rows[2:]], now=NOW)
    assert "defaults: 1.00 GiB predicted before it ran" in page
    assert verify_page(page).agrees


def test_what_has_no_sizes_or_did_not_run_on_a_gpu_has_no_prediction() -> None:
    run, rows = ladder_run()
    bare = [dataclasses.replace(row, trial=dataclasses.replace(row.trial, case=dataclasses.replace(row.case, params={"seq_len": 8})))
            for row in rows]  # fmt: skip
    assert predicted_causes(gather(run, bare)[0][0]) == {}
    case = factories.case()
    assert predicted_causes(gather(run, [factories.result(run.id, case)])[0][0]) == {}


def test_errors_are_drawn_as_shares_of_their_limit_with_plain_pytorch_beside() -> None:
    section = _section(crossing_run())
    (table,) = numerics(section.facets[0], styles(section.labels))
    assert table.svg
    assert "1.0e-07 of 2.0e-07 (out, small)" in table.svg
    assert table.svg.count("fill:var(--card);stroke:var(--s") == 3
    assert ">limit<" in table.svg


def test_stability_shows_what_each_precision_loses_and_marks_it() -> None:
    section = _section(precision_run())
    table = stability(section, section.facets[0], {})
    assert table
    lines = {line[0].text: line for line in table.lines}
    assert [cell.text for cell in lines["precision=fp16_amp_unscaled"][1:3]] == ["33.0 %", "60.0 %"]
    assert lines["precision=fp16_amp_unscaled"][1].tint == "warn"
    assert lines["precision=fp16_amp_unscaled"][-1].text == "+0.550 nat"
    assert lines["precision=bf16_pure"][1].tint == ""
    assert lines["precision=fp16_pure"][1].text == "incorrect"
    section = _section(ladder_run())
    assert stability(section, section.facets[0], {}) is None


def test_each_rank_has_a_line_and_the_uneven_one_is_named() -> None:
    section = _section(ranks_run())
    table = rank_table(section, section.facets[0], {})
    assert table
    assert [[cell.text for cell in line[1:]] for line in table.lines][-1] == ["rank 3", "110 ms", "7.45 GiB"]
    assert len(table.lines) == 4
    assert table.words == (
        "optimizer=adamw_foreach: time per call 1.10× from the lowest rank to the highest (rank 3), peak memory 2.00× from the lowest rank"
        " to the highest (rank 3).",
    )
    alone = _section(ladder_run())
    assert rank_table(alone, alone.facets[0], {}) is None


def test_of_ranks_bytes_stand_by_collective_reserved_peaks_are_told_and_what_is_shared_out() -> None:
    run, rows = ranks_run()
    more = [
        factories.measurement(name, (2.0**30,), scope=f"rank:{rank}")
        for rank in range(4)
        for name in ("host_pinned_bytes", "backward_peak_reserved_bytes", "reduce_scatter_bytes", "all_gather_bytes")
    ]
    told = {"shared_out": "gradients, states", "kept_whole": "weights"}
    rows = [dataclasses.replace(row, measurements=(*row.measurements, *more), conditions=told) for row in rows]
    section = _section((run, rows))
    table = rank_table(section, section.facets[0], {})
    assert table
    assert table.words[0] == "optimizer=adamw_foreach: shared out are gradients, states; whole on each rank weights."
    assert [head.text for head in table.heads] == [
        "subject", "rank", "time per call", "all gather", "reduce scatter", "peak memory", "backward peak reserved", "host pinned",
    ]  # fmt: skip


# --- rows, trust, method -------------------------------------------------------------------------------------------------------


def test_a_histogram_has_a_digit_for_each_bin_and_wrong_numbers_have_none() -> None:
    run, rows = everything(trials=2)
    cases = gather(run[0], rows)[0]
    found = {case.label: histogram(case) for case in cases}
    text = found["sdpa_flash"]
    assert text is not None
    low, high, digits = text.split()
    assert float(low) < float(high)
    assert len(digits) == BINS
    assert max(digits) == DIGITS[-1]
    assert all(histogram(case) is None for case in cases if TIME not in case.values)
    assert any(TIME not in case.values for case in cases)


def test_trust_tells_planned_measured_and_judged_and_marks_what_speaks_against_the_run() -> None:
    run, rows = crossing_run()
    cases, reach = gather(run, rows)
    section = _section((run, rows))
    lines = {line.name: line for line in trust(run, cases, reach, [judged(section)])}
    assert (
        lines["coverage"].text
        == "60 of 60 planned trials have a row, 14 of 15 cases a time; 10 are judged against a baseline, 9 of them settled"
    )
    assert lines["numbers"].good
    assert "canaries" not in lines
    short = {line.name: line for line in trust(dataclasses.replace(run, planned_trials=61), cases, reach, [])}
    assert not short["coverage"].good


def test_a_gpu_without_canaries_or_with_throttled_trials_is_told() -> None:
    run, rows = ladder_run()
    hot = [dataclasses.replace(row, conditions={"throttle_share": {"hw_thermal_slowdown": 0.2}}) for row in rows]
    lines = {line.name: line for line in trust(run, gather(run, hot)[0], Reach(), [])}
    assert lines["throttling"].text.endswith("(hw thermal slowdown 18)")
    assert not lines["throttling"].good
    assert not lines["canaries"].good


def test_what_nobody_read_or_checked_is_no_zero_and_nothing_to_trust() -> None:
    run, rows = ladder_run()
    bare = [dataclasses.replace(row, conditions={"throttle_share": None}, checks=()) for row in rows]
    lines = {line.name: line for line in trust(run, gather(run, bare)[0], Reach(), [])}
    assert lines["throttling"].text == "0 of 0 trials at some time saw a reason for lower clocks; of 18 it is not known"
    assert lines["numbers"].text.endswith("0 failed, 6 with a time held against nothing")
    assert not lines["throttling"].good
    assert not lines["numbers"].good
    read = [dataclasses.replace(row, conditions={"throttle_share": {}}) for row in rows]
    assert {line.name: line for line in trust(run, gather(run, read)[0], Reach(), [])}["throttling"].good


def test_the_method_has_fifteen_lines_with_the_parameters_of_the_run() -> None:
    run, rows = everything(trials=1)
    lines = method(run[0], gather(run[0], rows)[0])
    assert len(lines) == 15
    text = "\n".join(lines)
    for told in (
        "Trials: 5 a case",
        "shuffled by the seed 7",
        "at least 30 samples",
        "ended after 120 s",
        "Timer: the host's clock",
        "warm:",
    ):
        assert told in text
    assert "at most not told" in text
    assert "not told a case" in method(factories.run(suite_data={}), [])[0]


@pytest.mark.parametrize("made", [crossing_run, ladder_run])
def test_every_view_is_the_same_at_every_rendering(made: Made) -> None:
    run, rows = made()
    assert render_page([run], rows, now=NOW) == render_page([run], rows[::-1], now=NOW)


# --- the drawing of strips ------------------------------------------------------------------------------------------------------


def test_a_strip_draws_what_is_above_zero_and_escapes_names() -> None:
    rows = [Strip("<a>", (Mark(FULL, 2.0), Mark(WALL, 0.0)), "2 & 0", 1), Strip("b", (), "nothing", 2)]
    svg = strips(rows, title='"quoted"', tick=lambda value: f"{value:g}")
    assert svg
    assert svg.count("<circle") == 1
    assert "&lt;a&gt;" in svg
    assert "2 &amp; 0" in svg
    assert "nothing" in svg
    assert strips([Strip("b", (), "nothing", 2)], title="", tick=str) is None
