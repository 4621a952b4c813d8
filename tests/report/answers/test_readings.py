"""The sentences on top name a lowest median with its range, and never hide a doubt."""

from __future__ import annotations

import dataclasses

import pytest

from bench.records import Measurement, Result, RunState, Status
from bench.report.answers.readings import readings
from bench.report.numbers.layout import sections
from bench.report.numbers.summary import TIME, summarize
from bench.report.trust.doubts import doubts
from tests import factories

RUN = factories.run(id="run-1", planned_trials=0, suite_data={"baseline": {"attention": "eager"}})


def _rows(name: str, seq_len: int, times: list[float], **changes: object) -> list[Result]:
    return [
        factories.result(
            "run-1", factories.case(name, seq_len=seq_len), index=i, measurements=(Measurement(TIME, "s", (t,) * 30),), **changes
        )
        for i, t in enumerate(times)
    ]


def _readings(rows: list[Result]):  # type: ignore[no-untyped-def]
    (section,) = sections(RUN, summarize(RUN, rows))
    return readings(section, TIME)


def test_sizes_with_the_same_fastest_are_one_sentence_with_range_n_and_ratio() -> None:
    rows = [row for s in (128, 256) for row in _rows("eager", s, [4.0, 4.1, 4.2]) + _rows("flex", s, [2.0, 2.05, 2.1])]
    (reading,) = _readings(rows)
    assert reading.where == "seq len 128–256"
    assert reading.subject == "flex"
    assert reading.detail == "2.05 s (2.00–2.10 s, n 3) at 256; 0.500× (0.476–0.525) of the baseline eager"
    assert reading.doubt is None


def test_overlapping_ranges_are_told_with_the_size_where_they_overlap() -> None:
    rows = _rows("eager", 128, [4.0, 4.1, 4.2]) + _rows("flex", 128, [3.0, 3.9, 4.05])
    rows += _rows("eager", 256, [8.0, 8.1, 8.2]) + _rows("flex", 256, [3.0, 3.9, 4.05])
    (reading,) = _readings(rows)
    assert reading.doubt == "its range overlaps that of eager at 128"


def test_a_winner_without_rival_says_so() -> None:
    rows = [*_rows("eager", 128, [4.0]), factories.result("run-1", factories.case("flex", seq_len=128), status=Status.OOM)]
    (reading,) = _readings(rows)
    assert reading.subject == "eager"
    assert reading.doubt == "nothing else has a number here"


def test_a_wrong_subject_never_wins() -> None:
    wrong = _rows("flex", 128, [0.001])
    wrong.append(factories.result("run-1", factories.case("flex", seq_len=128), index=9, status=Status.INCORRECT))
    (reading,) = _readings(_rows("eager", 128, [4.0]) + wrong)
    assert reading.subject == "eager"


def test_equal_peaks_share_the_sentence() -> None:
    rows = [factories.result("run-1", factories.case(name)) for name in ("eager", "flex")]
    (section,) = sections(RUN, summarize(RUN, rows))
    (reading,) = readings(section, "peak_bytes")
    assert reading.subject == "eager and flex"
    assert reading.detail.startswith("each 1.00 MiB")


def _doubts(rows: list[Result], **run: object) -> str:
    of = dataclasses.replace(RUN, **run)
    return "\n".join(f"{doubt.count} {doubt.text}" for doubt in doubts(of, summarize(of, rows)))


def test_a_clean_run_has_no_doubt() -> None:
    assert _doubts(_rows("eager", 128, [4.0, 4.0, 4.0])) == ""


def test_what_lowers_trust_is_counted() -> None:
    noisy = {"conditions": {"launch_bound": True, "warmup_stable": False, "busy_processes": [{"name": "backup", "cores": 1.0}],
                            "throttle_share": {"gpu_idle": 1.0, "sw_power_cap": 0.5}}, "proof": None}  # fmt: skip
    rows = _rows("eager", 128, [4.0, 6.0], **noisy)
    rows += _rows("flex", 128, [1.0, 1.0, 1.0], environment=factories.environment(extra=1))
    text = _doubts(rows, planned_trials=9, state=RunState.BUDGET)
    assert "4 of 9 planned trials have no row: the run stopped at its time budget" in text
    assert "2 software environments" in text
    assert "1 of 2 timed cases rest on fewer than 3 trials" in text
    assert "1 of 2 timed cases range over more than 10 %" in text
    assert "2 trials were timed with gaps in which the device waited for the host" in text
    assert "2 of 5 timed trials were not stable when warm-up ended" in text
    assert "2 of 5 timed trials ran beside busy processes of others (backup)" in text
    assert "2 of 5 timed trials saw the clocks held back: sw power cap" in text
    assert "1 of 2 timed cases have no proof" in text
    assert "idle" not in text


def test_a_loss_scale_that_had_to_fall_is_told_and_one_that_stood_or_grew_is_not() -> None:
    fell = {"conditions": {"loss_scale_history": "[[0, 65536.0], [2, 32768.0], [15, 16.0]]"}}
    text = _doubts(_rows("eager", 128, [4.0, 4.0, 4.0], **fell))
    assert text.startswith(
        "3 of 3 timed trials began by lowering a loss scale that overflows (at most from 65536 to 16 in 15 steps): updates"
    )
    for history in ("[[0, 65536.0]]", "[[0, 1.0], [2000, 2.0]]", "[]", "no history", "[1, 2]"):
        assert _doubts(_rows("eager", 128, [4.0, 4.0, 4.0], conditions={"loss_scale_history": history})) == ""


@pytest.mark.parametrize(("first", "doubted"), [(2.0, 3), (5.0, 0), (None, 2)])
def test_updates_that_were_left_out_once_samples_may_have_begun_are_a_doubt(first: float | None, doubted: int) -> None:
    rows = _rows("eager", 128, [4.0, 4.0, 4.0], conditions={"steps_skipped": 5})
    if first is not None:
        told = Measurement("skipped_steps", "count", (first,))
        rows = [dataclasses.replace(row, measurements=(*row.measurements, told)) for row in rows]
    text = _doubts(rows)
    assert (f"left out updates after an overflow later on (at most {doubted})" in text) == bool(doubted)
    assert ("3 of 3 timed trials left out" in text) == bool(doubted)


def test_kernels_that_torch_could_not_analyse_are_a_doubt() -> None:
    told = {"conditions": {"kernels_not_analysed": "torch's analysis of _rms_norm_backward_kernel failed"}}
    assert _doubts(_rows("eager", 128, [4.0, 4.0, 4.0], **told)) == (
        "3 of 3 timed trials heard torch.compile say that it could not tell what a kernel writes: their rows say which, and what to do"
    )


def test_different_hard_environments_are_told() -> None:
    other = dataclasses.replace(factories.environment(), hard={"device": "cpu", "cpu_model": "Other CPU", "threads": 1})
    assert "must not be compared" in _doubts(_rows("eager", 128, [4.0] * 3) + _rows("flex", 128, [4.0] * 3, environment=other))
