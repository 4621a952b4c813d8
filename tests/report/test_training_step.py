"""Training steps: all that is resident counts, the peak has causes, the step has parts, and rates are tokens and MFU."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
from collections.abc import Mapping
from xml.etree import ElementTree

import pytest

from bench.catalogue.shapes import read_models
from bench.metrics import PEAK_CAUSES
from bench.records import Case, Environment, Json, Measurement, Pass, Result, Run, Status
from bench.report import render_markdown, render_page, rows_csv, rows_json
from bench.report.answers.readings import questions, readings
from bench.report.drawing.figures import styles
from bench.report.drawing.parts import ORDER, pattern_definitions
from bench.report.drawing.stacked import stacked
from bench.report.drawing.timeline import timeline
from bench.report.numbers.findings import other_numbers
from bench.report.numbers.layout import Facet, Section, sections
from bench.report.numbers.memory import by_cause, read_explained
from bench.report.numbers.rates import utilisation
from bench.report.numbers.summary import PEAK, TOTAL, summarize
from bench.report.recompute.verify import verify_page
from bench.report.views.beside import extras
from bench.workloads.train_step import WORKLOAD
from tests import factories
from tests.report.hostile import NASTY
from tests.report.step_sample import ARMS, ENVIRONMENT, causes_of, explained_of, step_case, step_run

NOW = "2026-01-02T04:00:00+00:00"
MIB = 2**20
PARTS = ("forward", "backward", "optimizer", "peak_gradients")


def _section(run: Run, rows: list[Result]) -> Section:
    (section,) = sections(run, summarize(run, rows))
    return section


def _facet() -> Facet:
    (facet,) = _section(*step_run(trials=1)).facets
    return facet


def _texts(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))
    return ["".join(element.itertext()).strip() for element in root.iter("{http://www.w3.org/2000/svg}text")]


def test_the_memory_of_a_training_step_is_compared_with_all_that_is_resident() -> None:
    section = _section(*step_run())
    assert section.memory == TOTAL
    assert questions(section)[1] == (TOTAL, "Least memory measured, all that is resident included")
    same, apart = readings(section, TOTAL)
    assert same.subject == "checkpointing=full"
    assert same.detail.startswith("1.72 GiB")
    assert apart.subject == "optimizer=adamw8bit"


def test_a_step_of_an_optimizer_alone_and_other_passes_keep_the_net_peak() -> None:
    run, rows = step_run(trials=1)
    alone = [
        dataclasses.replace(
            r,
            measurements=tuple(m for m in r.measurements if not m.metric.startswith(PARTS)),
            trial=dataclasses.replace(r.trial, case=dataclasses.replace(r.case, workload="optimizer")),
        )
        for r in rows
    ]
    run_alone = dataclasses.replace(run, suite_data={**run.suite_data, "workload": "optimizer"})
    assert _section(run_alone, alone).memory == PEAK
    forward = [
        dataclasses.replace(r, trial=dataclasses.replace(r.trial, case=dataclasses.replace(r.case, pass_=Pass.FORWARD)))
        for r in rows
    ]
    assert _section(run, forward).memory == PEAK


def test_tokens_and_utilisation_stand_in_the_sentence_the_cells_and_the_opened_row_with_formula_and_denominator() -> None:
    run, rows = step_run()
    (reading,) = readings(_section(run, rows), "time_s")
    assert "= 173k tokens/s, MFU 52 %" in reading.detail.replace("\u00a0", " ")
    page = render_page([run], rows, now=NOW)
    assert "125k tokens/s <i>MFU 38 %</i>" in page
    assert (
        "MFU 38 % = 3.07 TFLOP by the workload&#39;s formula / 8.22 ms / the 989 TFLOP/s of dense bf16 in the H200 SXM data sheet"
        in page
    )
    assert rows_json([run], rows)["cases"][0]["mfu"] == pytest.approx(0.378, abs=0.001)


def _real_rows(checkpointing: str) -> tuple[Run, list[Result]]:
    """Rows of an eight-billion step, of which the work can be told again from the case."""
    run, _ = step_run()
    fills = {**WORKLOAD.defaults, "checkpointing": checkpointing}
    shape = read_models()["llama-3-8b"].dims()
    params = {param.name: param.default for param in WORKLOAD.params if param.only_where is None}
    params |= {name: shape[name] for name in WORKLOAD.dims} | {"model": "llama-3-8b", "seq_len": 2048}
    case = Case("train_step", WORKLOAD.version, fills, Pass.STEP, "bf16", "cuda", "cold", "events", params)
    cost = WORKLOAD.cost(WORKLOAD.spec(case), Pass.STEP)
    measured = tuple(factories.measurement(name, (0.3,) * 30) for name in ("time_s", "forward_s"))
    return run, [factories.result(run.id, case, environment=ENVIRONMENT, cost=cost, measurements=measured)]


def test_what_checkpointing_computes_again_counts_for_the_hardware_and_not_for_the_model() -> None:
    run, rows = _real_rows("full")
    told = rows_json([run], rows)["cases"][0]
    # 32 layers forward once more but for their last products, beside three times the layers and the last layer.
    again = (2 * (6_979_321_856 - 32 * 4096 * 14336) + 2 * 32 * 4096 * 2049) * 2048
    all_once = (6 * (6_979_321_856 + 4096 * 128256) + 6 * 32 * 4096 * 2049) * 2048
    assert told["hfu"] / told["mfu"] == pytest.approx(1 + again / all_once)
    page = render_page([run], rows, now=NOW)
    assert re.search(
        r"HFU \d+ % = \(95\.5 TFLOP \+ 22\.0 TFLOP that checkpointing computes again\) / 300 ms / the 989 TFLOP/s of dense bf16",
        page,
    )
    assert verify_page(page).agrees
    assert re.search(r"\(MFU \d+ %, HFU \d+ %\)", render_markdown([run], rows))


def test_without_anything_computed_again_both_utilisations_are_one_and_a_way_from_outside_has_no_second() -> None:
    run, rows = _real_rows("none")
    told = rows_json([run], rows)["cases"][0]
    assert told["hfu"] == told["mfu"] == pytest.approx(0.322, abs=0.001)
    assert "HFU" not in render_page([run], rows, now=NOW)
    run, rows = _real_rows("my_own")
    assert rows_json([run], rows)["cases"][0]["hfu"] is None


def test_there_is_no_utilisation_on_an_unknown_gpu_nor_of_what_is_no_training_step() -> None:
    run, rows = step_run(trials=1)
    unknown = Environment({"device": "cuda", "gpu_model": "Some GPU", "mig": None}, {})
    strange = [dataclasses.replace(row, environment=unknown) for row in rows]
    assert {utilisation(case) for case in summarize(run, strange)} == {None}
    assert "MFU (of" not in render_page([run], strange, now=NOW)
    assert utilisation(summarize(factories.run(id="run-1"), [factories.result("run-1")])[0]) is None


def test_bars_of_causes_have_sums_units_a_legend_and_show_what_is_not_attributed() -> None:
    parts = {"parameters": 100.0 * MIB, "gradients": 60.0 * MIB, "unattributed": 40.0 * MIB}
    svg = stacked([("eager", parts), ("liger", {"parameters": 100.0 * MIB})], "byte", title="peak", prefix="b1", bold="eager")
    assert svg is not None
    texts = _texts(svg)
    assert {"eager", "liger", "200 MiB", "100 MiB", "parameters", "gradients", "unattributed", "0 MiB"} <= set(texts)
    assert svg.count(f"url(#part{ORDER.index('unattributed')})") == 2  # the bar and the legend
    assert not re.findall(r"#5e5|#[0-9a-f]{6}", svg)
    assert stacked([("eager", {"parameters": 1.0})], "byte", title="peak", prefix="b2") is None
    assert stacked([], "byte", title="peak", prefix="b3") is None


def test_every_part_has_a_pattern_of_its_own_that_no_other_shares() -> None:
    looks = re.findall(r'<pattern id="part(\d+)"[^>]*>(.*?)</pattern>', pattern_definitions())
    assert [int(number) for number, _ in looks] == list(range(len(ORDER)))
    causes = [look for number, look in looks if ORDER[int(number)] in dict(PEAK_CAUSES)]
    assert len(set(causes)) == len(PEAK_CAUSES)


def test_a_panel_shows_causes_parts_of_the_step_and_the_front_where_it_has_them() -> None:
    facet = _facet()
    found = extras(facet, "seq_len", styles(facet.labels), "x1", 9)
    assert [extra.title for extra in found] == [
        "Peak by cause at seq len 4096",
        "Forward, backward, optimizer at seq len 4096",
        "Time against memory at seq len 4096",
    ]
    assert found[0].numbers is not None
    assert found[0].numbers.lines[0][0] == "defaults"
    assert found[0].numbers.lines[0][-1] == "2.71 GiB"
    assert "The sum over the timed step: defaults 1.02×" in found[1].words[0]
    assert (
        found[2]
        .words[0]
        .startswith("Unbeaten at seq len 4096: attention=sdpa_flash layers=liger (23.6 ms, 2.21 GiB), checkpointing=full (")
    )
    assert "for each of the other 2 one of these is at least as fast and as small" in found[2].words[0]
    assert found[2].words[0].endswith("optimizer=adamw8bit computes something else on purpose.")
    assert len(extras(facet, "seq_len", styles(facet.labels), "x1", 1)) == 1


def test_three_subjects_have_no_front_and_unexplained_peaks_no_bars() -> None:
    run = factories.run(id="run-1")
    (facet,) = _section(run, [factories.result("run-1", factories.case(name)) for name in ("a", "b", "c")]).facets
    assert extras(facet, None, styles(facet.labels), "x2", 9) == []


def test_the_causes_of_a_peak_are_summed_as_they_were_measured() -> None:
    run, rows = step_run(trials=1)
    case = next(c for c in summarize(run, rows) if c.label == "checkpointing=full" and c.axis("seq_len") == 2048)
    assert by_cause(case) == {k: v for k, v in causes_of(ARMS[3], 2048).items() if v}
    assert sum(by_cause(case).values()) == pytest.approx(case.values[TOTAL].median)


def test_a_timeline_marks_phases_and_the_peak_and_an_opened_row_tells_where_temporaries_were_made() -> None:
    run, rows = step_run()
    page = render_page([run], rows, now=NOW)
    row = page[page.index('<div class="explained">') :]
    svg = row[row.index("<svg") : row.index("</svg>") + 6]
    texts = _texts(svg)
    assert {"forward", "backward", "optimizer", "0 B"} <= set(texts)
    assert svg.count('class="phase"') == 4
    assert svg.count('class="peak"') == 1
    assert "<code>aten::mm in modeling_llama.py(95): forward</code> 23.0 MiB" in row
    assert "Peak of the pass that explains it: 1.39 GiB, in loss. The undisturbed memory pass: 1.39 GiB; they differ by" in row
    assert "memory_explained" not in page


def test_two_peaks_that_agree_to_the_byte_say_so() -> None:
    run, rows = step_run(trials=1, sizes=(1024,))
    exact = [_with_peak(row, 3 * 2**30, 3 * 2**30) for row in rows]
    assert "The undisturbed memory pass has the same peak, to the byte." in render_page([run], exact, now=NOW)
    apart = [_with_peak(row, 3 * 2**30, 4 * 2**30) for row in rows]
    assert "The undisturbed memory pass: 4.00 GiB; they differ by 1.00 GiB, 25 %." in render_page([run], apart, now=NOW)


def _with_peak(row: Result, explained: int, total: int) -> Result:
    others = tuple(m for m in row.measurements if m.metric != TOTAL)
    facts = {**explained_of(causes_of(ARMS[0], 1024)), "peak_bytes": explained}
    return dataclasses.replace(
        row, measurements=(*others, Measurement(TOTAL, "byte", (float(total),))), conditions={"memory_explained": facts}
    )


@pytest.mark.parametrize(
    "data",
    [
        None, 7, [],
        {"peak_bytes": "much"}, {"peak_bytes": -1}, {"peak_bytes": 10**400}, {"peak_bytes": float("inf")}, {"peak_bytes": True},
    ],
)  # fmt: skip
def test_facts_of_another_shape_explain_nothing(data: Json) -> None:
    assert read_explained(data) is None


def test_strange_moments_and_hostile_names_neither_break_the_page_nor_become_markup() -> None:
    run, rows = step_run(trials=1, sizes=(1024,))
    facts = {
        "phase": NASTY, "peak_bytes": 5, "temporaries": [{"where": NASTY, "bytes": 5}, {"bytes": "x"}, 3],
        "timeline": [{"at_s": s, "phase": NASTY, "bytes": {"parameters": 5, NASTY: 9, "loss": -4}} for s in (0.0, 0.5, 1.0)] + [None, {}],
    }  # fmt: skip
    page = render_page([run], [dataclasses.replace(row, conditions={"memory_explained": facts}) for row in rows], now=NOW)
    assert '<svg class="timeline"' in page
    assert "<script>window.hacked" not in page


def test_a_step_that_lasts_no_time_or_holds_nothing_has_no_curve() -> None:
    moment = {"at_s": 0.0, "phase": "forward", "bytes": {"parameters": 5}}
    found = read_explained({"peak_bytes": 5, "timeline": [moment] * 4})
    assert found is not None
    assert timeline(found, title="t") is None
    empty = read_explained({"peak_bytes": 5, "timeline": [{**moment, "at_s": s, "bytes": {}} for s in (0.0, 1.0, 2.0)]})
    assert empty is not None
    assert timeline(empty, title="t") is None


def test_text_and_table_forms_have_the_compared_peak_the_causes_the_parts_and_the_exponents() -> None:
    run, rows = step_run()
    text = render_markdown([run], rows)
    assert "| rate (MFU) | peak memory, residents included | kept for backward | error of the update | states |" in text
    assert "Peak by cause at seq len 4096, all that is resident included." in text
    assert (
        "| defaults | 240 MiB | 240 MiB | 480 MiB | 512 KiB | – | 1.40 GiB | 246 MiB | 123 MiB | 8.00 MiB | 3.00 MiB | 2.71 GiB |"
        in text
    )
    assert "- Grows: peak ∝ seq\\_len^(0.48 ± 0.62), defaults." in text
    assert "- Unbeaten at seq len 4096: " in text
    (first, *_) = csv.DictReader(io.StringIO(rows_csv([run], rows)))
    assert float(first["peak_total_bytes.median"]) == pytest.approx(sum(causes_of({}, 1024).values()))
    assert float(first["forward_s.median"]) > 0
    assert "output_error.median" not in first
    assert rows_json([run], rows)["units"]["update_error"] == "ratio"


def test_subjects_of_many_slots_are_called_as_the_suite_calls_them() -> None:
    run, rows = step_run(trials=1, sizes=(1024,))
    assert [case.label for case in summarize(run, rows)] == [
        "defaults", "attention=sdpa_flash", "attention=sdpa_flash layers=liger", "checkpointing=full", "optimizer=adamw8bit",
    ]  # fmt: skip
    odd = dataclasses.replace(run, suite_data={"defaults": {}, "arms": [7]})
    assert summarize(odd, rows)[0].label == summarize(odd, rows)[0].case.subject_label
    assert step_case({}, 1024).subject_label in {case.label for case in summarize(odd, rows)}


def test_subjects_whose_precision_says_the_dtype_stand_side_by_side_and_another_dtype_is_other_numbers() -> None:
    run, rows = step_run(trials=1, sizes=(1024,))
    own = {"checkpointing=full": "fp32"}
    labels = {case.case.key: case.label for case in summarize(run, rows)}
    mixed = [
        dataclasses.replace(row, trial=dataclasses.replace(row.trial, case=dataclasses.replace(row.case, dtype=dtype)))
        for row in rows
        for dtype in [own.get(labels[row.case.key], row.case.dtype)]
    ]
    section = _section(run, mixed)
    (facet,) = section.facets
    assert section.followers["dtype"] == "dtype follows from the subject"
    assert "dtype" not in section.fixed
    assert other_numbers(facet) == {"checkpointing=full", "optimizer=adamw8bit"}


BF16: Mapping[str, Json] = {
    "numerics_weights": "bf16",
    "numerics_states": "bf16",
    "numerics_compute": "bf16",
    "learned_parameters": 1000,
}


@pytest.mark.parametrize(
    ("changed", "otherwise"),
    [
        ({}, False),
        ({"numerics_states": "uint8"}, True),
        ({"numerics_weights": "Params4bit+bf16"}, True),
        ({"numerics_compute": "bf16+float8"}, True),
        ({"learned_parameters": 10}, True),
        ({"numerics_weights": "fp32 shards", "numerics_states": "DTensor"}, False),
        ({"numerics_states": None}, False),
    ],
)
def test_a_step_of_other_numerics_or_other_weights_that_learn_is_never_simply_smaller(
    changed: Mapping[str, Json], otherwise: bool
) -> None:
    run, rows = step_run(trials=1, sizes=(1024,))
    named = {case.case.key: case.label for case in summarize(run, rows)}
    rows = [
        dataclasses.replace(
            row, conditions={**row.conditions, **BF16, **(changed if named[row.case.key] == "checkpointing=full" else {})}
        )
        for row in rows
    ]
    (facet,) = _section(run, rows).facets
    assert ("checkpointing=full" in other_numbers(facet)) is otherwise
    if "learned_parameters" in changed:
        assert verify_page(render_page([run], rows, now=NOW, light=True)).agrees


def test_steps_that_do_not_say_their_numerics_are_compared_as_before() -> None:
    (facet,) = _section(*step_run(trials=1, sizes=(1024,))).facets
    assert other_numbers(facet) == {"optimizer=adamw8bit"}


def test_the_data_inside_the_page_holds_the_compared_peak_findings_and_parts_only_where_they_were_measured() -> None:
    run, rows = step_run(trials=1, sizes=(1024,))

    def columns(page: str) -> list[str]:
        found = re.search(r'id="data">(.*?)</script>', page, re.S)
        assert found
        named: list[str] = json.loads(found[1])["trials"]["columns"]
        return named

    of_steps = columns(render_page([run], rows, now=NOW))
    assert {TOTAL, "state_bytes", "update_error", "backward_s"} <= set(of_steps)
    assert "weight_bytes" not in of_steps
    assert TOTAL not in columns(render_page([factories.run(id="run-1")], [factories.result("run-1")], now=NOW))


def test_a_wrong_step_shows_no_time_of_its_parts_either() -> None:
    run, rows = step_run(trials=3, sizes=(1024,))
    wrong = [dataclasses.replace(row, status=Status.INCORRECT, reason="wrong") if row.trial.index == 2 else row for row in rows]
    assert not any(name.endswith("ward_s") for case in summarize(run, wrong) for name in case.values)
