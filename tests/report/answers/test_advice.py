"""The first sentences: what to use, judged, and the settings to copy."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from bench.records import Result, Run, Status
from bench.report.answers.advice import Advice, advice
from bench.report.answers.against import judged
from bench.report.answers.readings import readings
from bench.report.answers.settings import setting
from bench.report.numbers.layout import Section, sections
from bench.report.numbers.summary import TIME, gather
from bench.report.views.frontier import frontier_advice
from tests import factories
from tests.report.step_sample import quantized_run
from tests.report.views_sample import crossing_run, ladder_run, search_run, step, timed


def _section(run: Run, rows: list[Result]) -> Section:
    (section,) = sections(run, gather(run, rows)[0])
    return section


def _advice(run: Run, rows: list[Result]) -> list[Advice]:
    section = _section(run, rows)
    return advice(section, judged(section))


def test_a_sentence_says_where_what_how_much_with_its_interval_and_what_it_costs() -> None:
    found = _advice(*crossing_run())
    assert [entry.text for entry in found[:2]] == [
        "seq len 512–1024: stay with sdpa_flash, nothing is faster; the next, flex, takes 1.15× its time at 1024",
        "seq len 2048: stay with sdpa_flash, nothing is shown to be faster; flex can't be told from it",
    ]
    last = found[2]
    assert (last.where, last.verb, last.subject, last.settled) == ("seq len 4096–8192", "use", "flex", True)
    assert last.numbers.startswith("1.43× faster than sdpa_flash (1.4")
    assert last.numbers.endswith("), the same memory at 8192")


def test_too_few_trials_recommend_nothing_for_sure() -> None:
    run, rows = crossing_run(trials=1)
    found = [entry for entry in _advice(run, rows) if entry.subject == "flex"]
    assert found
    assert all(not entry.settled and entry.verb == "perhaps" for entry in found)
    assert all(entry.doubt == "1 trial: an interval needs 3" for entry in found)


def test_one_trial_a_side_shows_of_nobody_that_nothing_is_faster() -> None:
    stay = [entry for entry in _advice(*crossing_run(trials=1)) if entry.verb == "stay with"]
    assert stay
    for entry in stay:
        assert not entry.settled
        assert entry.numbers.startswith("no median is lower; the next, flex, is as fast within 0.5 %")
        assert entry.doubt == "1 trial: an interval needs 3"


def _run_of(times: dict[str, tuple[float, ...]], peaks: dict[str, int] | None = None, **suite: Any) -> tuple[Run, list[Result]]:
    run = factories.run(id="run-e", suite_data=suite)
    return run, [
        factories.result(run.id, factories.case(name), index=index, time_s=time_s, peak=(peaks or {}).get(name, 2**30))
        for name, values in times.items()
        for index, time_s in enumerate(values)
    ]


def test_a_median_that_is_lower_by_less_than_is_printed_is_no_reason_to_change() -> None:
    baseline = {"baseline": {"attention": "sdpa_flash"}}
    (found,) = _advice(*_run_of({"sdpa_flash": (1.0,), "flex": (0.998,)}, **baseline))
    assert (found.verb, found.subject, found.settled, found.setting) == ("stay with", "sdpa_flash", False, None)
    assert found.numbers == "nothing is shown to be faster; flex can't be told from it"
    assert found.doubt == "1 trial: an interval needs 3"
    (wide,) = _advice(*_run_of({"sdpa_flash": (0.9, 1.0, 1.1), "flex": (0.88, 0.999, 1.12)}, **baseline))
    assert (wide.verb, wide.subject, wide.settled) == ("stay with", "sdpa_flash", False)
    assert wide.doubt is not None
    assert wide.doubt.startswith("can't tell: ")


def test_the_next_whose_time_prints_the_same_is_as_fast() -> None:
    (found,) = _advice(*_run_of({"sdpa_flash": (1.0,), "flex": (1.002,)}, baseline={"attention": "sdpa_flash"}))
    assert found.numbers == "no median is lower; the next, flex, is as fast within 0.5 %"


@pytest.mark.parametrize("baseline", [{}, {"baseline": {"attention": "sdpa_flash"}}])
def test_others_whose_times_are_withheld_were_measured_all_the_same(baseline: dict[str, Any]) -> None:
    run, rows = _run_of({"sdpa_flash": (1.0,), "flex": (0.5,)}, **baseline)
    beside = {"other_compute_processes": ["python3"], "busy_processes": [{"name": "python3", "cores": 0.7}]}
    alone, left = (
        [dataclasses.replace(row, conditions=beside) if row.case.subject_label == "flex" else row for row in rows],
        [row for row in rows if row.case.subject_label != "flex"],
    )
    words = {}
    for shown in (alone, left):
        section = _section(run, shown)
        (found,) = advice(section, judged(section))
        (reading,) = readings(section, TIME)
        words[len(shown)] = (found.verb, found.subject, found.numbers, found.settled, reading.doubt)
    assert words[2] == ("only", "sdpa_flash", "nothing else has a time here", False, "nothing else has a time here")
    assert words[1] == ("only", "sdpa_flash", "nothing else has a number here", True, "nothing else has a number here")


def test_where_no_baseline_is_named_medians_that_print_alike_are_told_as_alike() -> None:
    (found,) = _advice(*_run_of({"eager": (1.0,), "flex": (0.998,)}))
    assert (found.verb, found.numbers) == ("perhaps", "as fast as eager in its median, the same memory")


def test_other_numbers_at_the_same_printed_time_are_not_worth_a_sentence() -> None:
    run, rows = quantized_run(trials=1)
    for share, said in ((0.998, False), (0.9, True)):
        changed = [
            dataclasses.replace(row, measurements=(factories.measurement("time_s", (share * 1e-3,) * 30), *row.measurements[1:]))
            if row.case.subject_label == "int8"
            else row
            for row in rows
        ]
        assert any(entry.subject == "int8" for entry in _advice(run, changed)) is said


def test_a_size_at_which_nothing_is_said_ends_the_span() -> None:
    """In the middle eager needs as much as the others, so that it saves nothing there."""
    run = factories.run(id="run-g", suite_data={"baseline": {"attention": "sdpa_flash"}})
    rows = [
        factories.result(
            run.id, factories.case(name, seq_len=seq_len), index=index, time_s=time_s * (1 + 0.001 * index),
            peak=2**29 if name == "eager" and seq_len != 1024 else 2**30,
        )
        for seq_len in (512, 1024, 2048)
        for name, time_s in (("sdpa_flash", 1.0), ("flex", 0.8), ("eager", 1.1))
        for index in range(3)
    ]  # fmt: skip
    assert [entry.where for entry in _advice(run, rows) if entry.verb == "to save memory use"] == ["seq len 512", "seq len 2048"]


def test_who_is_shown_to_be_faster_is_named_before_a_lower_median_that_shows_nothing() -> None:
    run = factories.run(id="run-n", suite_data={"baseline": {"attention": "sdpa_flash"}})
    times = {"sdpa_flash": (1.0, 1.001, 1.002), "flex": (0.9, 0.901, 0.902), "eager": (0.4, 0.89, 2.4)}
    rows = [
        factories.result(run.id, factories.case(name), index=index, time_s=time_s)
        for name, values in times.items()
        for index, time_s in enumerate(values)
    ]
    found = _advice(run, rows)[0]
    assert (found.verb, found.subject, found.settled) == ("use", "flex", True)
    assert found.numbers.endswith("eager can't be told from it")


def test_who_needs_least_memory_has_a_sentence_of_its_own_where_it_is_not_the_fastest() -> None:
    run = factories.run(id="run-m", suite_data={"baseline": {"attention": "sdpa_flash"}})
    rows = [
        factories.result(run.id, factories.case(name), index=index, time_s=time_s * (1 + 0.001 * index), peak=peak)
        for name, time_s, peak in (("sdpa_flash", 1.0, 2**30), ("flex", 0.8, 2**30), ("eager", 1.1, 2**29))
        for index in range(3)
    ]
    fast, small = _advice(run, rows)
    assert fast.subject == "flex"
    assert small.text.startswith(
        "the one point measured: to save memory use eager, 0.500× the memory of sdpa_flash, 1.10× slower (1."
    )


def test_of_those_whose_memory_is_told_as_the_same_the_fastest_is_named_to_save_it() -> None:
    times = {"sdpa_flash": (1.0,), "flex": (0.5,), "eager": (0.7,)}
    peaks = {"sdpa_flash": 2**30, "flex": 2**28 + 2**18, "eager": 2**28}
    fast, small = _advice(*_run_of(times, peaks, baseline={"attention": "sdpa_flash"}))
    assert (fast.verb, fast.subject, fast.settled) == ("perhaps", "flex", False)
    assert (small.verb, small.subject) == ("to save memory use", "flex")
    assert small.numbers == "0.250× the memory of sdpa_flash, 2.00× faster in its median"


def test_who_computes_something_else_is_only_recommended_where_other_numbers_will_do() -> None:
    found = _advice(*quantized_run())
    by_subject = {entry.subject: entry for entry in found}
    assert by_subject["int8"].verb == "where other numbers will do, use"
    assert "error 2.10 % instead of 0.170 %" in by_subject["int8"].numbers
    assert found[0].subject == "plain_other"


def test_where_the_baseline_did_not_run_the_fastest_is_held_against_the_next() -> None:
    run, rows = crossing_run()
    rows = [
        dataclasses.replace(row, status=Status.OOM, reason="out of memory", measurements=(), checks=())
        if row.case.subject_label == "sdpa_flash"
        else row
        for row in rows
    ]
    found = _advice(run, rows)
    assert found[0].numbers == "6.25× faster than eager (6.17–6.33), less than 1.0 % of the memory at 4096"
    assert found[-1].text.endswith("only flex, nothing else has a number here")


def test_a_search_recommends_who_comes_farthest() -> None:
    (found,) = frontier_advice(_section(*search_run()))
    assert found.text == (
        "on this machine: use full, up to seq len 65536 fits, and nothing larger was asked for; the others: plain 16384"
    )
    assert not found.settled


def test_those_who_come_equally_far_are_named_together() -> None:
    run, rows = search_run()
    found = frontier_advice(_section(run, [row for row in rows if row.case.params["seq_len"] <= 16384]))
    assert [entry.text for entry in found] == [
        "on this machine: use plain or full, up to seq len 16384 fits, and nothing larger was asked for"
    ]


def test_a_training_step_comes_with_settings_for_the_trainer() -> None:
    found = next(entry for entry in _advice(*ladder_run()) if entry.verb == "use")
    assert found.setting is not None
    assert found.setting.title == "for transformers and its Trainer"
    settings = json.loads(found.setting.text)
    assert settings["from_pretrained"]["attn_implementation"] == "sdpa"
    assert settings["TrainingArguments"]["optim"] == "adamw_torch_fused"
    assert settings["TrainingArguments"]["liger_kernel_config"]["rms_norm"] is True


def test_what_has_no_settings_says_so_and_can_be_measured_again() -> None:
    run, _ = ladder_run()
    row = timed(
        run, step({"attention": "another_kernel"}), 0, 0.1, command="bench run suites/x.yaml --filter attention=another_kernel"
    )
    (case,) = gather(run, [row])[0]
    found = setting(case)
    assert found.note is not None
    assert found.note.startswith("no settings for transformers: ")
    assert "another_kernel" in found.note
    assert "attention: another_kernel" in found.text
    assert found.command == "bench run suites/x.yaml --filter attention=another_kernel"


def test_what_is_offloaded_and_how_large_buckets_are_is_in_the_settings_to_copy() -> None:
    run, _ = ladder_run()
    buckets = {
        "zero_options": "set", "zero_reduce_bucket": 50_000_000, "zero_gather_bucket": 50_000_000, "zero_overlap_comm": "off",
        "zero_contiguous_gradients": True, "zero_prefetch_bucket": 1_000_000, "zero_persistence_threshold": 0,
    }  # fmt: skip

    def arguments(slots: dict[str, str], **params: object) -> dict[str, Any]:
        (case,) = gather(run, [timed(run, step({"precision": "bf16_master", **slots}, **params), 0, 0.1)])[0]
        found = setting(case)
        assert found.note is None
        settings: dict[str, Any] = json.loads(found.text)
        return settings["TrainingArguments"]  # type: ignore[no-any-return]

    to_host = {"offloading": "parameters_optimizer_cpu"}
    assert arguments({"sharding": "fsdp2", **to_host})["fsdp"] == "full_shard auto_wrap offload"
    zero = arguments({"sharding": "zero3", "optimizer": "adamw_cpu_deepspeed", **to_host})["deepspeed"]["zero_optimization"]
    assert (zero["offload_optimizer"]["device"], zero["offload_param"]["device"]) == ("cpu", "cpu")
    small = arguments({"sharding": "zero3"}, **buckets)["deepspeed"]["zero_optimization"]
    assert (small["reduce_bucket_size"], small["stage3_param_persistence_threshold"]) == (50_000_000, 0)


def test_kernels_come_with_the_call_that_chooses_them() -> None:
    run = factories.run(id="run-k")

    def text(workload: str, slot: str, name: str) -> str:
        case = dataclasses.replace(factories.case(), workload=workload, subject={slot: name})
        (summary,) = gather(run, [factories.result(run.id, case)])[0]
        return setting(summary).text

    cudnn = text("attention", "attention", "sdpa_cudnn")
    assert "SDPBackend.CUDNN_ATTENTION" in cudnn
    assert "(q, k, v, is_causal=True, enable_gqa=True)" in cudnn
    assert 'attn_implementation="flash_attention_2"' in text("attention", "attention", "flash_attn2")
    assert text("rms_norm", "rms_norm", "liger") == (
        'TrainingArguments(**{"use_liger_kernel": True, "liger_kernel_config": {"rms_norm": True}})'
    )
    assert text("optimizer", "optimizer", "adamw8bit_bnb") == 'TrainingArguments(optim="adamw_bnb_8bit")'
    assert '"bnb_4bit_quant_type": "nf4"' in text("linear", "linear", "nf4_bnb")
    assert "{rms_norm: compiled}" in text("rms_norm", "rms_norm", "compiled")
