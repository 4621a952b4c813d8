"""Trials become one value with its spread."""

from __future__ import annotations

import dataclasses

from bench.records import Check, Measurement, Status
from bench.report.numbers.summary import PEAK, TIME, summarize
from tests import factories

RUN = factories.run(id="run-1")


def _trial(index: int, attempt: int = 0) -> dict[str, object]:
    made = factories.result("run-1").trial
    return {"trial": dataclasses.replace(made, index=index, attempt=attempt)}


def test_a_case_is_the_median_over_trial_medians_with_their_range_and_number() -> None:
    rows = [factories.result("run-1", index=i, measurements=(Measurement(TIME, "s", samples),))
            for i, samples in enumerate([(1.0, 2.0, 90.0), (3.0, 3.0, 3.0), (5.0, 5.0, 4.0)])]  # fmt: skip
    (case,) = summarize(RUN, rows)
    value = case.values[TIME]
    assert (value.median, value.low, value.high, value.n) == (3.0, 2.0, 5.0, 3)


def test_one_wrong_trial_withholds_the_times_of_the_whole_case() -> None:
    wrong = factories.result("run-1", index=1, status=Status.INCORRECT, checks=(Check("out", "small", 1.0, 0.1, 0.2, False),))
    (case,) = summarize(RUN, [factories.result("run-1"), wrong])
    assert case.status is Status.INCORRECT
    assert TIME not in case.values
    assert PEAK in case.values
    assert case.time_withheld


def test_trials_of_different_hardware_have_no_time_together() -> None:
    here = factories.result("run-1")
    hard = {**here.environment.hard, "cpu_model": "Other CPU"}
    there = factories.result("run-1", index=1, time_s=2e-3, environment=dataclasses.replace(here.environment, hard=hard))
    (case,) = summarize(RUN, [here, there])
    assert "time_s" not in case.values
    assert case.time_withheld == "no time is shown: its trials ran on different hardware (Other CPU, Test CPU)"
    assert case.values["peak_bytes"].n == 2


def test_an_interpreter_has_memory_but_no_speed() -> None:
    (case,) = summarize(RUN, [factories.result("run-1", factories.case(device="cpu-interpreter"))])
    assert case.status is Status.OK
    assert TIME not in case.values
    assert PEAK in case.values


def test_a_case_with_some_good_trials_is_ok_and_says_how_the_others_ended() -> None:
    rows = [factories.result("run-1"), factories.result("run-1", index=1, status=Status.TIMEOUT)]
    (case,) = summarize(RUN, rows)
    assert case.status is Status.OK
    assert dict(case.counts) == {Status.OK: 1, Status.TIMEOUT: 1}
    assert case.values[TIME].n == 1


def test_excluded_rows_and_superseded_attempts_are_kept_aside_and_count_for_nothing() -> None:
    rows = [
        factories.result("run-1", time_s=1.0, **_trial(0, attempt=0)),
        factories.result("run-1", time_s=2.0, **_trial(0, attempt=1)),
        factories.result("run-1", time_s=9.0, excluded_reason="a backup ran", **_trial(1, attempt=1)),
    ]
    (case,) = summarize(RUN, rows)
    assert case.values[TIME].n == 1
    assert 2.0 <= case.values[TIME].median < 2.1
    assert [why for _, why in case.set_aside] == ["superseded: its block was started anew", "excluded: a backup ran"]


def test_arms_are_told_apart_and_rows_of_other_runs_are_ignored() -> None:
    trial = factories.result("run-1").trial
    rows = [factories.result("run-1", trial=dataclasses.replace(trial, arm=arm)) for arm in "AB"] + [factories.result("run-2")]
    assert [case.label for case in summarize(RUN, rows)] == ["eager [A]", "eager [B]"]


def test_subjects_come_in_the_order_of_the_suite() -> None:
    run = factories.run(id="run-1", suite_data={"subjects": {"attention": ["zeta", "alpha"]}})
    rows = [factories.result("run-1", factories.case(name)) for name in ("alpha", "other", "zeta")]
    assert [case.label for case in summarize(run, rows)] == ["zeta", "alpha", "other"]
