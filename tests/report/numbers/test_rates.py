"""What a GPU's run says beside times: rates with their denominators, cycles, exponents, and the canaries apart from the question."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re

import pytest

from bench.judge.growth import Growth
from bench.lang import language
from bench.lang.pages import page_in
from bench.records import Check, Cost, Result, Run, Status
from bench.report import render_markdown, render_page, rows_csv, rows_json
from bench.report.answers.readings import readings
from bench.report.drawing import figures
from bench.report.drawing.roofline import rooflines
from bench.report.numbers.layout import Section, sections
from bench.report.numbers.rates import Exponent, clock_wandered, exponents, growth_lines, reach_words, share_words
from bench.report.numbers.summary import PEAK, TIME, TOLERANCE_WORDS, gather, summarize
from bench.report.recompute.rows import rows_of
from bench.report.recompute.verify import verify_page
from bench.report.trust.doubts import doubts
from bench.report.trust.grounds import trust
from bench.store.page_data import read_page_data
from tests import factories
from tests.report.gpu_sample import gpu_case, gpu_result, gpu_run

NOW = "2026-01-02T04:00:00+00:00"


def _section(run: Run, results: list[Result]) -> Section:
    (section,) = sections(run, summarize(run, results))
    return section


def _doubts(run: Run, results: list[Result]) -> str:
    return "\n".join(f"{doubt.count} {doubt.text}" for doubt in doubts(run, summarize(run, results)))


def _visible(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page[: page.index('id="data"')]))


def test_canaries_are_no_cases_of_the_question_and_win_nothing() -> None:
    run, results = gpu_run()
    assert {summary.case.workload for summary in summarize(run, results)} == {"attention"}
    assert {reading.subject for reading in readings(_section(run, results), TIME)} == {"flex"}
    _, reach = gather(run, results)
    assert [summary.case.workload for summary in reach.canaries] == ["copy", "matmul"]


def test_a_suite_about_matrix_products_has_its_own_rows_as_cases() -> None:
    run, results = gpu_run()
    about = dataclasses.replace(run, suite_data={"workload": "matmul"})
    assert "matmul" in {summary.case.workload for summary in summarize(about, results)}


def test_trials_of_canaries_are_planned_trials_too() -> None:
    run, results = gpu_run()
    assert "have no row" not in _doubts(run, results)


def test_what_the_machine_reaches_is_said_with_spread_and_share() -> None:
    run, results = gpu_run()
    _, reach = gather(run, results)
    assert reach_words(reach) == [
        "matmul bf16 700 TFLOP/s (± 0.0 % over trials, n 3), 71 % of the H200 SXM data sheet",
        "copy 4.00 TB/s (± 0.0 % over trials, n 3), 83 % of the H200 SXM data sheet",
    ]
    text = _visible(render_page([run], results, now=NOW))
    assert "What this machine reaches" in text
    assert "9 cases and 2 of the machine itself, 33 of 33 planned trials" in text


def test_a_canary_that_failed_says_so_and_leaves_shares_of_the_data_sheet() -> None:
    run, results = gpu_run()
    results = [
        dataclasses.replace(r, status=Status.OOM, reason="no memory left", measurements=()) if r.case.workload == "matmul" else r
        for r in results
    ]
    _, reach = gather(run, results)
    assert reach_words(reach)[0] == "matmul bf16 oom: no memory left"
    (reading,) = readings(_section(run, results), TIME)
    assert "of the H200 SXM data sheet" in reading.detail.replace("\u00a0", " ")
    assert "no memory left" in _visible(render_page([run], results, now=NOW))


def test_the_fastest_on_a_gpu_has_its_rate_and_share_in_the_sentence() -> None:
    (reading,) = readings(_section(*gpu_run()), TIME)
    assert "= 412 TFLOP/s, 59 % of matmul bf16 of this run; " in reading.detail.replace("\u00a0", " ")


def test_a_page_shows_rates_cycles_kernels_and_names_the_denominators() -> None:
    run, results = gpu_run()
    page = render_page([run], results, now=NOW)
    text = _visible(page)
    assert "343 TFLOP/s 49 %" in text
    assert "cycles" in text
    assert re.search(r"M ± 0\.00 % cycles", text)
    assert re.search(r'<th scope="col" class="num"[^>]*>kernels</th>', page)
    assert "700 TFLOP/s (matmul bf16 of this run, 8192 × 8192 × 8192, median of 3 trials)" in page
    assert "NVIDIA H200 Tensor Core GPU data sheet" in page
    assert re.search(r"rate and its share of [^,]*matmul bf16 of this run \(700 TFLOP/s\)", text)


def test_a_page_of_a_cpu_has_rates_without_shares_and_neither_cycles_nor_a_roofline() -> None:
    run = factories.run(id="run-1", suite_data={"workload": "attention"})
    page = render_page([run], [factories.result("run-1", factories.case(seq_len=s)) for s in (128, 256, 512)], now=NOW)
    assert "990 MFLOP/s" in page
    assert "its share of" not in _visible(page[: page.index('id="method"')] + 'id="data"')
    assert "Roofline" not in page
    assert ">cycles</th>" not in page


def test_a_roofline_is_drawn_only_where_both_ceilings_were_measured() -> None:
    run, results = gpu_run()
    assert page_has_roofline(run, results)
    assert not page_has_roofline(run, [r for r in results if r.case.workload != "copy"])


def page_has_roofline(run: Run, results: list[Result]) -> bool:
    return "<b>Roofline</b>" in render_page([run], results, now=NOW)


def test_a_wrong_row_has_neither_rate_nor_cycles() -> None:
    run, results = gpu_run()
    results = [
        dataclasses.replace(r, status=Status.INCORRECT, reason="wrong")
        if r.case.subject_label == "flex" and r.trial.index == 2
        else r
        for r in results
    ]
    page = render_page([run], results, now=NOW)
    assert "412 TFLOP/s" not in page
    assert not next(s for s in summarize(run, results) if s.case.subject_label == "flex").rates.leading


def test_where_cycles_agree_and_times_do_not_the_clock_wandered() -> None:
    run, results = gpu_run()
    assert all(clock_wandered(summary) for summary in summarize(run, results))
    assert "9 of 9 timed cases: the clock wandered, the kernel did not" in _doubts(run, results)
    assert "The clock wandered, the kernel did not" in render_page([run], results, now=NOW)


def test_where_cycles_differ_as_well_the_kernel_did() -> None:
    rows = [gpu_result("run-g", gpu_case("flex", 1024), i, 1e-3 * (1 + i / 50), Cost(10**9, 10**9)) for i in range(3)]
    (summary,) = summarize(factories.run(id="run-g"), rows)
    assert not clock_wandered(summary)


def test_a_rate_above_the_measured_ceiling_is_a_doubt_and_told_in_the_row() -> None:
    run, results = gpu_run()
    fast = gpu_result(run.id, gpu_case("flex", 8192), 0, 1e-3, Cost(770 * 10**9, 600 * 2**20))
    assert "1 of 10 timed cases lie above a ceiling that this run measured (highest: flex, 110 %)" in _doubts(run, [*results, fast])
    page = render_page([run], [*results, fast], now=NOW)
    assert "770 TFLOP/s are 1.10× the measured ceiling, matmul bf16 of this run (700 TFLOP/s)" in page
    assert "above the ceiling" in page


def _in_format(result: Result, workload: str = "attention") -> Result:
    check = Check("out", "small", 0.01, 0.001, 0.05, True, TOLERANCE_WORDS)
    return dataclasses.replace(result, checks=(check,), trial=dataclasses.replace(
        result.trial, case=dataclasses.replace(result.case, workload=workload)))  # fmt: skip


def test_the_ceiling_of_a_dtype_says_nothing_of_what_computes_in_another_format() -> None:
    run, results = gpu_run()
    fast = gpu_result(run.id, gpu_case("flex", 8192), 0, 1e-3, Cost(940 * 10**9, 600 * 2**20))
    rows = [*results, _in_format(fast)]
    assert "above a ceiling" not in _doubts(run, rows)
    page = render_page([run], rows, now=NOW)
    assert "940 TFLOP/s" in page
    assert "above the ceiling" not in page
    assert "which may be in another format than the bf16 of the ceilings" in page
    assert verify_page(page).agrees
    drawn = []
    for shown in (rows, [row if row.case.workload != "attention" else _in_format(row) for row in rows]):
        section = _section(run, shown)
        drawn.append(len(rooflines(section, figures.styles(section.labels), "x", draw=False)))
    assert drawn == [1, 0]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nf4_bnb", "73 % of matmul bf16 of this run, 52 % of the H200 SXM data sheet"),
        ("int8_weight_only_ao", "73 % of matmul bf16 of this run, 52 % of the H200 SXM data sheet"),
        ("float8_dynamic_ao", "26 % of the H200 SXM data sheet for fp8"),
        ("int8_dynamic_ao", ""),
        ("from_a_plug_in", ""),
    ],
)
def test_a_layer_has_a_share_of_the_limit_of_the_format_that_it_says_it_multiplies_in(name: str, told: str) -> None:
    run, results = gpu_run()
    run = dataclasses.replace(run, suite_data={"workload": "linear", "subjects": {"linear": [name]}})
    case = dataclasses.replace(gpu_case("flex", 8192), workload="linear", subject={"linear": name})
    layer = _in_format(gpu_result(run.id, case, 0, 1e-3, Cost(512 * 10**9, 600 * 2**20)), "linear")
    rows = [*(row for row in results if row.case.workload != "attention"), layer]
    (summary,) = summarize(run, rows)
    flops = summary.rates.flops
    assert flops is not None
    assert share_words(flops) == told
    page = render_page([run], rows, now=NOW)
    assert told in page
    assert verify_page(page).agrees
    assert verify_page(page_in(page, language("zh-TW"))).agrees
    data = read_page_data(page)
    (again,) = summarize(run, rows_of(data))
    assert again.rates.flops == flops
    older = dataclasses.replace(data, trials=tuple(dataclasses.replace(trial, conditions={}) for trial in data.trials))
    (once,) = summarize(run, rows_of(older))
    assert once.rates.flops is not None
    assert once.rates.flops.share is None


def test_an_update_has_its_shares_whatever_it_stores_its_states_in() -> None:
    run, results = gpu_run()
    fast = gpu_result(run.id, gpu_case("flex", 8192), 0, 1e-3, Cost(70 * 10**9, 600 * 2**20))
    shares = {}
    for workload in ("optimizer", "linear"):
        about = dataclasses.replace(run, suite_data={"workload": workload})
        rows = [*results, _in_format(fast, workload)]
        (case,) = [case for case in summarize(about, rows) if case.case.workload == workload]
        shares[workload] = case.rates.flops is not None and case.rates.flops.share is not None
    assert shares == {"optimizer": True, "linear": False}


def test_a_canary_beside_which_others_computed_says_why_it_has_no_rate() -> None:
    run, results = gpu_run()
    beside = {"other_compute_processes": ["python3"], "busy_processes": [{"name": "python3", "cores": 0.7}]}
    rows = [dataclasses.replace(row, conditions=beside) if row.case.workload == "matmul" else row for row in results]
    why = "no time is shown: other processes computed on its GPU in 3 of 3 trials"
    assert reach_words(gather(run, rows)[1])[0] == f"matmul bf16 ok: {why}"
    reaches = re.findall(r'aria-label="?What this machine reaches.*?</dl>', render_page([run], rows, now=NOW), re.S)
    assert reaches
    assert f"<small>no rate</small><small>{why}</small>" in reaches[0]
    cases, reach = gather(run, rows)
    (line,) = [line for line in trust(run, cases, reach, []) if line.name == "canaries"]
    assert not line.good
    assert line.text.startswith("matmul bf16 ok without a rate, copy 4.00 TB/s")


@pytest.mark.parametrize(
    ("conditions", "text"),
    [
        ({"not_done": {"measured_check": "out of memory"}}, "1 of 1 timed trials did without measured check: out of memory"),
        ({"same_sm_share": 0.4}, "1 of 1 timed trials could read the clock of fewer than 90% of their samples"),
        ({"discarded_trials": 2}, "1 of 1 timed trials were measured again, since clocks were held back (2 discarded)"),
        ({"allocator_retries_while_sampling": 1}, "1 of 1 timed trials had the allocator free its cache"),
    ],
)
def test_what_a_trial_did_without_or_had_to_do_again_is_a_doubt(conditions: dict[str, object], text: str) -> None:
    row = gpu_result("run-1", gpu_case("flex", 1024), 0, 1e-3, Cost(), conditions=conditions)
    assert text in _doubts(factories.run(id="run-1"), [row])


@pytest.mark.parametrize(
    ("names", "end"), [(["other"], "others"), (["other", "backup"], "others (backup, other)"), (["backup"], "others (backup)")]
)
def test_neighbours_are_named_where_their_names_are_told(names: list[str], end: str) -> None:
    row = gpu_result("run-1", gpu_case("flex", 1024), 0, 1e-3, Cost(), conditions={"busy_processes": names})
    assert f"1 of 1 timed trials ran beside busy processes of {end}" in _doubts(factories.run(id="run-1"), [row]).splitlines()


@pytest.mark.parametrize(
    "conditions", [{"not_done": {}}, {"same_sm_share": 0.95}, {"same_sm_share": None}, {"allocator_retries_while_sampling": 0}]
)
def test_what_was_looked_at_and_found_well_is_no_doubt(conditions: dict[str, object]) -> None:
    row = gpu_result("run-1", gpu_case("flex", 1024), 0, 1e-3, Cost(), conditions=conditions)
    plain = gpu_result("run-1", gpu_case("flex", 1024), 0, 1e-3, Cost())
    run = factories.run(id="run-1")
    assert _doubts(run, [row]) == _doubts(run, [plain])


def test_exponents_of_time_and_peak_have_an_interval() -> None:
    run, results = gpu_run()
    (facet,) = _section(run, results).facets
    found = {(e.label, e.metric): e.words for label in facet.labels for e in exponents(label, facet.row(label), "seq_len")}
    assert found["eager", PEAK] == "2.00 ± 0"
    assert found["flex", PEAK] == "1.00 ± 0"
    page = render_page([run], results, now=NOW)
    assert "peak ∝ seq_len<sup>2.00 ± 0</sup>" in page
    assert "<span>sdpa_flash, flex</span> peak ∝ seq_len<sup>1.00 ± 0</sup>" in page


def test_where_the_batch_shrinks_as_sequences_grow_the_exponent_is_that_of_one_sequence() -> None:
    run, results = gpu_run()
    sizes = sorted({int(str(r.case.params["seq_len"])) for r in results if "seq_len" in r.case.params})

    def shared_out(result: Result) -> Result:
        if "seq_len" not in result.case.params:
            return result
        seq_len = int(str(result.case.params["seq_len"]))
        params = {**result.case.params, "batch": sizes[-1] // seq_len}
        trial = dataclasses.replace(result.trial, case=dataclasses.replace(result.case, params=params))
        return dataclasses.replace(result, trial=trial)

    (facet,) = _section(run, [shared_out(result) for result in results]).facets
    found = {(e.label, e.metric): e for label in facet.labels for e in exponents(label, facet.row(label), "seq_len")}
    assert found["flex", PEAK].words == "2.00 ± 0"  # that of the whole is 1.00
    lines = growth_lines(list(found.values()), facet.labels, PEAK, "seq_len")
    assert {what for _, what, _ in lines} == {"peak per sequence ∝ seq_len"}


def test_two_sizes_have_no_exponent() -> None:
    run, results = gpu_run(sizes=(1024, 2048))
    assert "∝ seq_len" not in render_page([run], results, now=NOW)


@pytest.mark.parametrize(
    ("growth", "words"),
    [
        (Growth(1.9983, 0.0123, 5), "2.00 ± 0.01"),
        (Growth(-0.0012, 0.05, 5), "0.00 ± 0.05"),
        (Growth(2.0002, 0.0021, 5), "2.000 ± 0.002"),
        (Growth(2.0002, 0.0002, 5), "2.000 ± 0.001"),
        (Growth(1.0, 1e-12, 3), "1.00 ± 0"),
    ],
)
def test_an_interval_is_never_rounded_to_nothing(growth: Growth, words: str) -> None:
    assert Exponent("eager", PEAK, growth).words == words


def test_markdown_json_and_csv_have_rates_and_canaries_apart() -> None:
    run, results = gpu_run()
    text = render_markdown([run], results)
    assert "- This machine reaches: matmul bf16 700 TFLOP/s" in text
    assert "343 TFLOP/s (49 %)" in text
    data = json.loads(json.dumps(rows_json([run], results), allow_nan=False))
    assert len(data["cases"]) == 9
    assert [case["workload"] for case in data["canaries"]] == ["copy", "matmul"]
    share = data["cases"][0]["rates"]["flops"]["shares"]["measured"]
    assert share["of_per_s"] == pytest.approx(700e12)
    assert share["source"].startswith("matmul bf16 of this run")
    lines = list(csv.DictReader(io.StringIO(rows_csv([run], results))))
    assert [line["canary"] for line in lines] == ["no"] * 9 + ["yes"] * 2
    assert float(lines[0]["flops_per_s"]) > 0


def test_every_rate_can_be_computed_again_from_the_data_inside_the_page() -> None:
    run, results = gpu_run()
    page = render_page([run], results, now=NOW)
    found = re.search(r'id="data">(.*?)</script>', page, re.S)
    assert found
    data = json.loads(found[1])
    cases, trials = (
        [{**data[name]["same"], **dict(zip(data[name]["columns"], row, strict=True))} for row in data[name]["rows"]]
        for name in ("cases", "trials")
    )
    assert len(trials) == len(results)
    product = next(i for i, case in enumerate(cases) if "matmul" in data["subjects"][case["subject"]])
    flops, _, _ = data["works"][cases[product]["work"]]
    assert flops / trials[next(i for i, t in enumerate(trials) if t["case"] == product)][TIME] == pytest.approx(700e12)


def test_an_exponent_that_could_be_any_is_not_told() -> None:
    found = [Exponent("known", TIME, Growth(1.0, 0.9, 3)), Exponent("not known", TIME, Growth(0.5, 2.4, 3))]
    assert [names for names, _, _ in growth_lines(found, ["known", "not known"], TIME, "tokens")] == ["known"]
