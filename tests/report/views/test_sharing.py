"""What is said of steps that are shared out: scaling, from which size each stage pays and why it does not, and predictions by phase."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from bench.lang.messages import language
from bench.lang.pages import page_in
from bench.plan.stored import PREDICTED
from bench.records import Measurement, Result
from bench.report import render_page
from bench.report.numbers.by_rank import fullest
from bench.report.numbers.layout import Section, sections
from bench.report.numbers.summary import gather
from bench.report.recompute.verify import verify_page
from bench.report.views.frontier import reaches
from bench.report.views.planned import planned_table
from bench.report.views.ranks import rank_table
from bench.report.views.scaling import scaling_table
from bench.report.views.sharing import pooled, sharing_tables
from bench.report.views.stages import stage_tables
from bench.report.views.tables import Table
from bench.report.views.why_no_less import why_no_less
from tests.report.chromium import NOW
from tests.report.views.sharding_sample import HIGHER, Made, longer, out_of_memory, shared_run
from tests.report.views_sample import ladder_run, precision_run, ranks_run

STAGES = ("ddp", "zero1", "zero2", "zero3", "fsdp2")
LAYERS = (1, 4, 16)


def section_of(made: Made) -> Section:
    (section,) = sections(made[0], gather(*made)[0])
    return section


def lines(table: Table | None) -> dict[tuple[str, ...], dict[str, tuple[str, str, str]]]:
    """The first two cells of each line to head, to text, note and tint."""
    assert table
    heads = [head.text for head in table.heads]
    return {
        (line[0].text, line[1].text): {head: (c.text, c.note, c.tint) for head, c in zip(heads, line, strict=True)}
        for line in table.lines
    }


@pytest.fixture(scope="module")
def made() -> Made:
    return shared_run(("none", *STAGES), (1, 2))


@pytest.fixture(scope="module")
def sized() -> Made:
    return out_of_memory(shared_run(STAGES[:-1], (2,), LAYERS, model="llama-3-8b", trials=1), "ddp", 2, layers=16)


@pytest.fixture(scope="module")
def page(made: Made) -> str:
    return render_page([made[0]], made[1], now=NOW)


def changed(made: Made, change: Callable[[Result], Result]) -> Made:
    return made[0], [change(row) for row in made[1]]


# --- scaling -----------------------------------------------------------------------------------------------------------------------


def test_each_subject_is_held_against_itself_on_the_fewest_gpus_and_all_against_the_fastest_there(made: Made) -> None:
    found = lines(scaling_table(section_of(made), {}))
    two = found["sharding=zero3", "2"]
    # 4096 tokens in 0.1 s, times 1.3 for the stage and 1.1 for the second rank.
    assert two["tokens/s per GPU"][0] == "28.2 k"
    assert two["efficiency"][0] == "90.9 %"
    low, high = (float(end) for end in re.findall(r"[\d.]+", two["efficiency"][1]))
    assert low < 100 / 1.1 < high
    assert two["of the fastest on 1"][0] == "69.9 %"
    assert found["sharding=none", "1"]["of the fastest on 1"][:2] == ("100 %", "the fastest")
    assert found["sharding=zero3", "1"]["efficiency"][0] == "–"


def test_what_is_sent_and_what_nothing_hides_is_told_of_several_ranks_alone(made: Made) -> None:
    table = scaling_table(section_of(made), {})
    found = lines(table)
    assert found["sharding=zero2", "2"]["communication not hidden"][0] == "4.48 %"
    assert found["sharding=zero2", "2"]["sent in a step"][:2] == ("954 MiB", "all gather 1.86 GiB")
    assert found["sharding=zero2", "1"]["sent in a step"][0] == found["sharding=zero2", "1"]["communication not hidden"][0] == "–"
    assert table
    assert table.words == (
        "On 2 GPUs sharding=ddp trains the most: 34.9 k tokens/s on each, 86.6 % of those of sharding=none on 1 GPU.",
        "On 2 GPUs communication that nothing hides takes from 4.20 % of a step (sharding=ddp) to 5.20 % of a step (sharding=zero3).",
        "Communication that is not hidden is seen in one profiled call, waiting for other ranks included: timed steps "
        "may lose less.",
    )
    alone = scaling_table(section_of(out_of_memory(shared_run(("ddp",), (1, 2), trials=1), "ddp", 2)), {})
    assert alone
    assert not any("profiled call" in text for text in alone.words)


@pytest.mark.parametrize(("trials", "note"), [(1, "n 1"), (2, "90.7–91.1 % over trials")])
def test_too_few_trials_for_an_interval_tell_their_range_or_that_there_is_one(trials: int, note: str) -> None:
    found = lines(scaling_table(section_of(shared_run(("zero1",), (1, 2), trials=trials)), {}))
    assert found["sharding=zero1", "2"]["efficiency"][1] == note


def test_without_a_time_there_is_no_efficiency_and_the_status_stands_instead(made: Made) -> None:
    found = lines(scaling_table(section_of(out_of_memory(made, "ddp", 2)), {}))
    assert found["sharding=ddp", "2"]["tokens/s per GPU"] == ("OOM", "", "word")
    assert found["sharding=ddp", "2"]["efficiency"][0] == "–"
    found = lines(scaling_table(section_of(out_of_memory(made, "ddp", 1)), {}))
    assert found["sharding=ddp", "2"]["efficiency"][0] == "–"
    assert found["sharding=ddp", "2"]["of the fastest on 1"][0] == "86.6 %"


def test_the_longest_context_is_told_by_the_number_of_gpus() -> None:
    made = longer(shared_run(("zero3",), (1, 2), trials=1), (16384, 65536, 131072))
    assert scaling_words(made) == []
    made = out_of_memory(out_of_memory(made, "zero3", 1, seq_len=65536), "zero3", 1, seq_len=131072)
    told = "sharding=zero3: the largest seq len that fits is 16384 on 1 GPU, at least 131072 on 2 GPUs."
    assert scaling_words(made) == [told]
    assert scaling_words(out_of_memory(made, "zero3", 2, seq_len=131072)) == [told.replace("at least 131072", "65536")]


def test_where_no_context_fits_on_so_many_gpus_that_is_told_of_the_shortest() -> None:
    made = longer(shared_run(("zero3",), (1, 2), trials=1), (16384, 65536))
    for size in (16384, 65536):
        made = out_of_memory(made, "zero3", 1, seq_len=size)
    assert scaling_words(made) == [
        "sharding=zero3: the largest seq len that fits is at least 65536 on 2 GPUs.",
        "sharding=zero3: not even seq len 16384 fits on 1 GPU.",
    ]
    for size in (16384, 65536):
        made = out_of_memory(made, "zero3", 2, seq_len=size)
    assert scaling_words(made) == [f"sharding=zero3: not even seq len 16384 fits on {where}." for where in ("1 GPU", "2 GPUs")]
    found = [f"sharding=zero3：在{where} 上連序列長度 16384 都放不下。" for where in ("一顆 GPU", "2 顆 GPU")]
    assert [language("zh-TW").said(words) for words in scaling_words(made)] == found


def scaling_words(made: Made) -> list[str]:
    table = scaling_table(section_of(made), {})
    assert table
    return [text for text in table.words if " fits" in text]


def test_who_trains_the_most_is_not_firm_by_one_trial_nor_where_ranges_touch(made: Made) -> None:
    by_one = "Who trains the most is told by one trial, so it is not firm."
    assert by_one in firmness(shared_run(("ddp", "zero1"), trials=1))
    assert firmness(made) == []
    said = "Ranges over trials of sharding=ddp and sharding=zero1, sharding=zero2 overlap, so who trains the most is not firm."
    assert firmness(changed(made, wide)) == [said]
    assert language("zh-TW").said(said).startswith("sharding=ddp 與 sharding=zero1, sharding=zero2 的試驗範圍重疊")
    sized = longer(shared_run(("ddp", "zero1"), (1, 2), trials=2), (2048, 4096))
    few = sized[0], [row for row in sized[1] if row.trial.index == 0 or row.case.params["seq_len"] == 2048]
    assert "At seq len 4096 who trains the most is told by one trial, so it is not firm." in firmness(few)


def wide(row: Result) -> Result:
    """Trials up to a tenth apart."""
    factor = 1 + 0.1 * row.trial.index / 2
    return replace(row, measurements=tuple(
        replace(one, samples=tuple(sample * factor for sample in one.samples)) if one.metric == "time_s" else one
        for one in row.measurements
    ))  # fmt: skip


def firmness(made: Made) -> list[str]:
    table = scaling_table(section_of(made), {})
    assert table
    return [text for text in table.words if "not firm" in text]


# --- from which size -----------------------------------------------------------------------------------------------------------------


def test_each_stage_stands_beside_the_one_before_at_every_size(sized: Made) -> None:
    (table,) = stage_tables(section_of(sized), {})
    assert table.title == "From which size each stage pays, on 2 GPUs"
    assert [head.text for head in table.heads] == ["model", *STAGES[:-1]]
    first, _, last = table.lines
    assert (first[0].text, first[0].note) == ("layers 1", "1.27 G weights")
    assert [cell.tint for cell in first[1:]] == ["", "faster", "", "slower"]
    assert first[3].note == "1.00× of zero1"
    # What runs where the other is out of memory holds less, and has no ratio.
    assert [(cell.text, cell.note, cell.tint) for cell in last[1:3]] == [("OOM", "", "word"), ("53.2 GiB", "", "faster")]


def test_a_sentence_says_from_which_size_on_as_measured_and_as_planned(sized: Made) -> None:
    (table,) = stage_tables(section_of(sized), {})
    told = [text for text in table.words if "bench plan: " in text]
    assert told == [
        "zero1 holds less than ddp at every size measured, from layers 1 (1.27 G weights) on; bench plan: with layers like these from "
        "the first on.",
        "zero2 holds no less than zero1 at any size measured, up to layers 16 (4.54 G weights); bench plan: with layers like these not "
        "up to 128.",
        "zero3 holds no less than zero2 at any size measured, up to layers 16 (4.54 G weights); bench plan: with layers like these from "
        "34 on (8.47 G weights).",
    ]


def test_where_a_stage_never_pays_on_these_ranks_the_plan_is_asked_of_more(made: Made) -> None:
    (table,) = stage_tables(section_of(made), {})
    told = next(text for text in table.words if text.startswith("zero3 holds"))
    assert told == (
        "zero3 holds no less than zero2 at llama-3.2-1b (1.24 G weights); bench plan: with layers like these not up to 128; "
        "on 4 GPUs from 54 on (3.55 G weights)."
    )


def test_where_a_stage_begins_to_pay_between_two_sizes_both_are_named(sized: Made) -> None:
    def less(row: Result) -> Result:
        late = row.case.subject["sharding"] == "zero3" and row.case.params["layers"] == 16
        return replace(row, measurements=tuple(halved(one) for one in row.measurements)) if late else row

    def halved(one: Measurement) -> Measurement:
        return replace(one, samples=tuple(value / 2 for value in one.samples)) if one.metric == "peak_total_bytes" else one

    (table,) = stage_tables(section_of(changed(sized, less)), {})
    told = next(text for text in table.words if text.startswith("zero3 holds"))
    assert told.startswith(
        "zero3 holds less than zero2 from layers 16 (4.54 G weights) on, and no less at layers 4 (1.92 G weights);"
    )
    assert any(text.startswith("At layers 4 (1.92 G weights) zero3 peaks at") for text in table.words)


def test_numbers_of_ranks_and_other_axes_have_tables_of_their_own() -> None:
    made = longer(shared_run(("zero1", "zero2"), (1, 2, 4), trials=1), (2048, 4096))
    titles = [table.title for table in stage_tables(section_of(made), {})]
    assert sorted(titles) == [
        f"From which size each stage pays, on {ranks} GPUs · seq len {length}" for ranks in (2, 4) for length in (2048, 4096)
    ]


# --- why not -------------------------------------------------------------------------------------------------------------------------


def test_the_reason_is_told_by_phase_by_cause_and_by_what_the_plan_has_at_its_peaks(made: Made) -> None:
    cases = {case.case.subject["sharding"]: case for case in section_of(made).cases if case.case.world_size == 2}
    equal = why_no_less(cases["zero1"], cases["zero2"], "1B", "peak_total_bytes")
    assert equal == [
        "At 1B zero2 peaks at 22.3 GiB in the backward, zero1 at 22.3 GiB in the backward.",
        "zero2 less zero1: by phase forward and loss ±0, backward ±0, update ±0; by cause at the peaks nothing differs by 1 %.",
        "At its peak zero1 holds 0 B of gradients, which is all that zero2 shares out beyond it.",
        "bench plan has both fullest at: backward of loss; zero2 less zero1 there: nothing that differs by 1 %.",
    ]
    more = why_no_less(cases["zero2"], cases["zero3"], "1B", "peak_total_bytes")
    assert more[1].startswith(
        "zero3 less zero2: by phase forward and loss +2.87 GiB, backward +2.87 GiB, update -248 MiB; by cause"
    )
    assert "bucket to reduce +954 MiB" in more[-1]
    assert not any(text.startswith("At its peak") for text in more)


def test_causes_are_those_of_the_fullest_rank_since_those_of_several_do_not_add_up(made: Made) -> None:
    case = next(case for case in section_of(made).cases if case.label == "sharding=zero3" and case.case.world_size == 2)
    own = fullest(case)
    causes = sum(value for name, value in own.items() if re.fullmatch(r"peak_(?!total|requested|reserved)\w+_bytes", name))
    assert causes == pytest.approx(own["peak_total_bytes"], rel=1e-9)
    assert own["peak_total_bytes"] == case.values["peak_total_bytes"].median


def test_nothing_is_explained_where_a_side_has_no_peak(made: Made) -> None:
    cases = {
        case.case.subject["sharding"]: case
        for case in section_of(out_of_memory(made, "zero2", 2)).cases
        if case.case.world_size == 2
    }
    assert why_no_less(cases["zero1"], cases["zero2"], "1B", "peak_total_bytes") == []


# --- predicted and measured ----------------------------------------------------------------------------------------------------------


def test_every_phase_has_its_prediction_below_and_how_far_that_is_off(made: Made) -> None:
    table = planned_table(section_of(made), {})
    found = lines(table)["sharding=zero3", "2"]
    assert found["update"] == ("13.9 GiB", "plan 13.7 GiB, -2.0 %", "")
    assert found["the whole step"] == ("25.1 GiB", "plan 24.6 GiB, -2.0 %", "")
    assert table
    assert len(table.words) == 1
    assert table.words[0].startswith(
        "Of the whole step 11 of 11 predictions are within what is granted (5.0 % on one and 10 % on several);"
    )


def test_what_is_off_by_more_than_is_granted_is_marked_and_counted(made: Made) -> None:
    def more(row: Result) -> Result:
        far = row.case.subject["sharding"] == "zero1" and row.case.world_size == 1
        told = row.conditions[PREDICTED]
        return (
            replace(row, conditions={**row.conditions, PREDICTED: {**told, "peak_bytes": int(told["peak_bytes"] * 1.2)}})
            if far
            else row
        )

    table = planned_table(section_of(changed(made, more)), {})
    assert lines(table)["sharding=zero1", "1"]["the whole step"][2] == "warn"
    assert table
    assert "10 of 11" in table.words[0]
    assert f"farthest off: sharding=zero1 on 1 GPU, {1.2 / HIGHER - 1:+.1%}".replace("%", " %") in table.words[0]


def test_rows_that_keep_no_phases_are_beside_today_s_formulas_and_say_so() -> None:
    made = shared_run(("zero1",), (2,), with_phases=False, trials=1)
    table = planned_table(section_of(made), {})
    assert table
    assert table.lines[0][4].note.startswith("plan ")
    assert table.words[1] == "Rows of sharding=zero1 keep no prediction of phases: theirs are by today's formulas."
    section = section_of(made)
    ranks = rank_table(section, section.facets[0], {})
    assert ranks
    assert not any(cell.note for line in ranks.lines for cell in line)


def test_what_was_to_lie_off_the_gpu_stands_beside_what_was_seen_there(made: Made) -> None:
    def on_host(row: Result) -> Result:
        if row.case.subject["sharding"] != "zero3":
            return row
        told = {**row.conditions[PREDICTED], "away": {"host": 12 * 2**30, "host_pinned": 10 * 2**30}}
        seen = Measurement("host_pinned_bytes", "byte", (11.0 * 2**30,))
        return replace(row, conditions={**row.conditions, PREDICTED: told}, measurements=(*row.measurements, seen))

    offloaded = changed(made, on_host)
    found = lines(planned_table(section_of(offloaded), {}))
    assert found["sharding=zero3", "2"]["page-locked on the host"] == ("11.0 GiB", "plan 10.0 GiB, -9.1 %", "")
    assert found["sharding=zero2", "2"]["page-locked on the host"][:2] == ("–", "")
    assert "on disk" not in found["sharding=zero3", "2"]
    assert "page-locked on the host" not in lines(planned_table(section_of(made), {}))["sharding=zero3", "2"]
    text = render_page([offloaded[0]], offloaded[1], now=NOW)
    assert "page-locked on the host" in text
    assert verify_page(text).agrees
    assert "主機上鎖定分頁" in page_in(text, language("zh-TW"))
    forged = verify_page(text.replace("plan 10.0 GiB", "plan 10.9 GiB"))
    assert [difference.what for difference in forged.differences][:1] == ["predictions by phase"]


def test_what_did_not_fit_stands_beside_what_was_planned_and_what_was_refused_beside_nothing(made: Made) -> None:
    found = lines(planned_table(section_of(out_of_memory(made, "ddp", 2)), {}))
    assert found["sharding=ddp", "2"]["the whole step"] == ("OOM", "plan 31.0 GiB", "word")
    refused = changed(made, lambda row: replace(row, conditions={PREDICTED: {"refused": "no formulas"}}))
    assert planned_table(section_of(refused), {}) is None


def test_each_rank_stands_beside_the_plan_of_the_rank_that_needs_most(made: Made) -> None:
    section = section_of(made)
    table = rank_table(section, section.facets[0], {})
    found = lines(table)
    head = "backward peak"
    assert found["sharding=zero2 at world size 2", "rank 1"][head][1] == "plan -2.0 %"
    assert found["sharding=zero2 at world size 2", "rank 0"][head][1] == "plan +12.0 %"
    assert table
    assert table.words[0].startswith("Below a peak: how far the plan's")


# --- several runs ------------------------------------------------------------------------------------------------------------------


def apart(made: Made, of: Callable[[Result], int]) -> list[Made]:
    """The same as runs of their own, by number, in which what is the same trial may come again."""
    run, rows = made
    found = []
    for number in sorted({of(row) for row in rows}):
        own = replace(run, id=f"run-{number}", started_at=f"2026-01-02T0{number}:00:00+00:00")
        found.append((own, [replace(row, id=f"{row.id}-{number}", run_id=own.id) for row in rows if of(row) == number]))
    return found


def tables(*made: Made) -> list[tuple[Table, ...]]:
    """Of each run in a page of them all."""
    cases = {run.id: gather(run, rows)[0] for run, rows in made}
    pools = pooled([run for run, _ in made], cases)
    return [sharing_tables(section, pools.get(run.id)) for run, _ in made for section in sections(run, cases[run.id])]


def test_numbers_of_gpus_that_were_measured_by_runs_apart_are_told_together(made: Made) -> None:
    whole, other = tables(*apart(made, lambda row: row.case.world_size))
    assert [table.kind for table in whole] == ["scaling", "stages", "planned"]
    assert lines(whole[0])["sharding=zero3", "2"]["efficiency"][:2] == ("90.9 %", "90.5–91.3 % over trials")
    assert (
        whole[0].words[3] == "Numbers of ranks were measured by runs apart: what the machine did in between is in the efficiency."
    )
    assert [table.words for table in other] == [
        ("Scaling, sizes and predictions are told together with the run of 2026-01-02 01:00, above.",)
    ]


def test_sizes_of_a_model_that_were_measured_by_runs_apart_are_told_together(sized: Made) -> None:
    whole, *others = tables(*apart(sized, lambda row: int(row.case.params["layers"]) // 8))
    assert [line[0].text for line in whole[1].lines] == [f"layers {layers}" for layers in LAYERS]
    assert len(others) == 1


def test_models_of_other_widths_are_named_beside_the_layers() -> None:
    small, large = (
        shared_run(("zero1", "zero2"), (2,), layers, model=model, trials=1)
        for model, layers in (("llama-3.2-1b", (4, 8)), ("llama-3-8b", (None,)))
    )
    first, second = (apart(one, lambda row, number=number: number)[0] for number, one in enumerate((small, large), 1))
    whole, _ = tables(first, second)
    assert [line[0].text for line in whole[1].lines] == ["llama-3.2-1b · layers 4", "llama-3.2-1b · layers 8", "llama-3-8b"]


def test_the_longest_contexts_of_runs_apart_are_one_answer() -> None:
    probes = [
        out_of_memory(longer(shared_run(("zero3",), (ranks,), trials=1), lengths), "zero3", ranks, seq_len=lengths[-1])
        for ranks, lengths in ((1, (16384, 32768)), (2, (65536, 131072)))
    ]
    parts = [apart(one, lambda row, number=number: number)[0] for number, one in enumerate(probes, 1)]
    whole, _ = tables(*parts)
    assert whole[0].words[-1] == "sharding=zero3: the largest seq len that fits is 16384 on 1 GPU, 65536 on 2 GPUs."
    planned = {(line[2].text, line[-1].text): line[-1].note for line in whole[-1].lines}
    assert planned["seq len 131072", "OOM"].startswith("plan ")


def test_a_size_that_one_gpu_does_not_hold_is_no_end_of_what_two_hold() -> None:
    """In one run of both the ranks follow the sizes, so that a panel has sizes of one GPU and of two on one axis."""
    one, two = (
        out_of_memory(longer(shared_run(("zero3",), (ranks,), trials=1), lengths), "zero3", ranks, seq_len=lengths[-1])
        for ranks, lengths in ((1, (16384, 32768)), (2, (65536, 131072)))
    )

    def told(*made: Made) -> list[str]:
        section = section_of((made[0][0], [row for _, rows in made for row in rows]))
        return [entry.label for facet in section.facets for entry in reaches(section, facet)]

    assert told(one) == told(two) == ["sharding=zero3"]
    assert told(one, two) == []


def test_what_was_measured_twice_or_elsewhere_or_in_another_way_is_two_answers(made: Made) -> None:
    twice = [apart(made, lambda row, number=number: number)[0] for number in (1, 2)]
    assert [len(own) for own in tables(*twice)] == [3, 3]
    one, two = apart(made, lambda row: row.case.world_size)
    hard = {**one[1][0].environment.hard, "gpu_model": "NVIDIA B200"}
    elsewhere = changed(two, lambda row: replace(row, environment=replace(row.environment, hard=hard)))
    assert [len(own) for own in tables(one, elsewhere)] == [1, 3]
    later = changed(two, lambda row: replace(row, method_version=row.method_version + 1))
    assert [len(own) for own in tables(one, later)] == [1, 3]
    probes = replace(two[0], suite_data={**two[0].suite_data, "protocol": {"probe": True}}), two[1]
    assert [len(own) for own in tables(one, probes)] == [1, 3]


def test_speeds_beside_other_processes_are_told_to_be_not_firm(made: Made) -> None:
    def crowded(row: Result) -> Result:
        beside = {"busy_processes": [{"name": "python", "share": 1.0}]} if row.case.subject["sharding"] == "zero2" else {}
        return replace(row, conditions={**row.conditions, **beside})

    told = scaling_table(section_of(changed(made, crowded)), {})
    assert told
    assert told.words[-1] == "Other processes were at work beside trials of 2 of 11 lines: their speeds are not firm."


def test_a_page_of_runs_apart_agrees_with_its_data_and_links_to_rows_that_are_there(made: Made) -> None:
    parts = apart(made, lambda row: row.case.world_size)
    page = render_page([run for run, _ in parts], [row for _, rows in parts for row in rows], now=NOW, light=True)
    assert verify_page(page).agrees
    told = page[page.index('class="view scaling"') : page.index('class="view planned"')]
    links = set(re.findall(r'href="?#(r-\w+)', told))
    assert len(links) == 11
    assert links <= set(re.findall(r'id="?(r-\w+)', page))


# --- the page ------------------------------------------------------------------------------------------------------------------------


def test_a_section_that_shares_nothing_out_has_none_of_it() -> None:
    for other in (ladder_run, precision_run, ranks_run):
        assert tables(other()) == [()]


def test_the_page_agrees_with_its_data_and_a_changed_efficiency_is_found(page: str) -> None:
    assert verify_page(page).agrees
    assert page.count("90.9 %") > 3
    forged = verify_page(page.replace("90.9 %", "98.9 %", 1))
    assert [difference.what for difference in forged.differences] == ["scaling over ranks"]


def test_so_does_one_that_travels_light_and_one_in_chinese(made: Made, page: str) -> None:
    light = verify_page(render_page([made[0]], made[1], now=NOW, light=True))
    assert light.agrees
    assert light.stated["predictions by phase"] > 10
    own = language("zh-TW")
    chinese = page_in(page, own)
    assert "各階段從多大的模型起划算" in chinese
    assert verify_page(chinese).agrees


def test_a_page_of_an_older_version_lacks_these_views_and_is_told_to(page: str) -> None:
    older = re.sub(r'<div class="facet flat"><div class="view (?:scaling|stages|planned)">.*?</div>\n?</div>', "", page, flags=re.S)
    assert "phase by phase" not in re.sub(r"<script.*?</script>", "", older, flags=re.S)
    found = verify_page(older)
    assert found.agrees
    assert found.unlike
    assert "words that this version writes are not there" in found.unlike[0]


def test_the_page_of_a_run_that_has_only_one_gpu_tells_its_phases_alone() -> None:
    (own,) = tables(shared_run(("none", "zero2"), (1,), trials=1))
    assert [table.kind for table in own] == ["planned"]
