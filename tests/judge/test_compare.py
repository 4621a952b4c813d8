"""Two sides as a whole: which rows meet, what stopped running, what moved together, and what no row may be told about."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from bench.judge.compare import Comparison, compare
from bench.judge.evidence import Evidence
from bench.judge.verdict import Kind, Verdict, Word
from bench.records import Environment, RunState, Status
from tests import factories
from tests.judge.sides import H200, evidence, noisy, trials

EAGER, FLASH = factories.case("eager"), factories.case("sdpa_flash")


def one(found: Comparison, metric: str = "time_s") -> Verdict:
    verdicts = [verdict for verdict in found.verdicts if verdict.series.metric == metric]
    assert len(verdicts) == 1
    return verdicts[0]


def times(seed: int, centre: float, **more: Any) -> Evidence:
    case = more.pop("case", EAGER)
    environments = [more["environment"]] if "environment" in more else []
    run = more.pop("run", None)
    return evidence(trials(case, noisy(random.Random(seed), centre, 0.003, 5), **more), [case], environments, run)


def test_a_slower_case_is_worse_with_all_that_a_reader_needs() -> None:
    verdict = one(compare(times(1, 1e-2), times(2, 1.1e-2)))
    assert (verdict.word, verdict.kind, verdict.reader_word, verdict.counts) == (Word.WORSE, Kind.VALUE, "worse", True)
    assert (verdict.first.n, verdict.first.outcome) == (5, "5 ok")
    assert verdict.ratio is not None
    assert verdict.ratio.interval is not None
    assert verdict.threshold is not None
    assert verdict.p_adjusted is not None
    assert verdict.effect == 1.0
    assert len(verdict.series.key) == 64


def test_an_out_of_memory_case_is_worse_by_status_and_has_no_ratio() -> None:
    second = evidence(trials(EAGER, [None] * 5, status=Status.OOM), [EAGER])
    verdict = one(compare(times(1, 1e-2), second), "status")
    assert (verdict.word, verdict.kind, verdict.ratio, verdict.second.outcome) == (Word.WORSE, Kind.STATUS, None, "5 oom")


def test_a_case_that_ran_on_neither_side_did_not_run_and_is_not_the_same() -> None:
    rows = trials(EAGER, [None] * 3, status=Status.UNAVAILABLE)
    verdict = one(compare(evidence(rows, [EAGER]), evidence(rows, [EAGER])), "status")
    assert (verdict.word, verdict.reader_word) == (Word.SAME, "didn't run")


def test_other_hardware_is_incomparable_and_the_differing_fact_is_named() -> None:
    h200, other = Environment(H200, {}), Environment({**H200, "gpu_model": "NVIDIA H100"}, {})
    found = compare(times(1, 1e-2, environment=h200), times(2, 1e-2, environment=other))
    verdict = one(found, "status")
    assert (verdict.word, "gpu_model" in verdict.reason, verdict.ratio) == (Word.INCOMPARABLE, True, None)
    assert [(entry.hard, entry.name) for entry in found.environment] == [(True, "gpu_model")]
    assert "gpu_model" in found.banners[0]


def test_another_driver_is_comparable_under_a_banner() -> None:
    found = compare(times(1, 1e-2), times(2, 1e-2, environment=factories.environment(driver="581")))
    assert one(found).word is Word.SAME
    assert [(entry.name, entry.first, entry.second) for entry in found.environment] == [("driver", (), ("581",))]
    assert any("environment differs" in banner for banner in found.banners)


def test_another_version_of_a_workload_or_of_the_method_is_changed_and_never_worse() -> None:
    newer = dataclasses.replace(EAGER, workload_version=2)
    assert one(compare(times(1, 1e-2), times(2, 2e-2, case=newer)), "status").word is Word.CHANGED
    assert one(compare(times(1, 1e-2), times(2, 2e-2, method_version=2)), "status").word is Word.CHANGED


def test_what_only_one_side_has_is_missing_or_new() -> None:
    both = evidence([*trials(EAGER, [1e-2] * 3), *trials(FLASH, [1e-2] * 3)], [EAGER, FLASH])
    alone = evidence(trials(EAGER, [1e-2] * 3), [EAGER])
    gone, come = one(compare(both, alone), "status"), one(compare(alone, both), "status")
    assert (gone.word, gone.counts, gone.reader_word) == (Word.MISSING, True, "didn't run")
    assert (come.word, come.reader_word) == (Word.NEW, "can't tell")


@pytest.mark.parametrize(
    "changes",
    [{"state": RunState.INTERRUPTED}, {"options": {"filters": ["attention=eager"]}}, {"suite_data": {"name": "other"}}],
    ids=["interrupted", "filtered", "another suite"],
)
def test_what_nobody_asked_for_or_no_run_came_to_is_missing_without_blame(changes: dict[str, Any]) -> None:
    both = evidence([*trials(EAGER, [1e-2] * 3), *trials(FLASH, [1e-2] * 3)], [EAGER, FLASH])
    alone = evidence(trials(EAGER, [1e-2] * 3), [EAGER], run=factories.run(**changes))
    assert one(compare(both, alone), "status").counts is False


def test_what_somebody_excluded_is_missing_without_blame_and_for_the_reason_given() -> None:
    both = evidence([*trials(EAGER, [1e-2] * 3), *trials(FLASH, [1e-2] * 3)], [EAGER, FLASH])
    alone = evidence(trials(EAGER, [1e-2] * 3), [EAGER])
    excluded = dataclasses.replace(alone, set_aside={(FLASH.key, "-"): "the machine was busy"})
    verdict = one(compare(both, excluded), "status")
    assert (verdict.word, verdict.counts) == (Word.MISSING, False)
    assert verdict.reason == "its rows on the second side are excluded: the machine was busy"


def test_a_number_that_only_one_side_has_is_told_and_not_taken_for_zero() -> None:
    second = evidence(trials(EAGER, [1e-2] * 3, peak_bytes=2.0**20), [EAGER])
    verdict = one(compare(evidence(trials(EAGER, [1e-2] * 3), [EAGER]), second), "peak_bytes")
    assert (verdict.word, verdict.first.n, verdict.second.n) == (Word.NEW, 0, 3)


def test_an_interpreter_has_no_speed_to_compare() -> None:
    case = dataclasses.replace(EAGER, device="cpu-interpreter")
    sides = [evidence(trials(case, [t] * 3, peak_bytes=1e8), [case]) for t in (1.0, 9.0)]
    assert [verdict.series.metric for verdict in compare(*sides).verdicts] == ["peak_bytes"]


def test_one_slow_row_in_five_hundred_equal_ones_is_found_and_hardly_any_other() -> None:
    rng = random.Random(20)
    cases = [factories.case("eager", seq_len=128 + place) for place in range(500)]
    sides = [
        evidence(
            [
                row
                for place, case in enumerate(cases)
                for row in trials(case, noisy(rng, 1e-2 * (1.05 if side and place == 250 else 1.0), 0.003, 5))
            ],
            cases,
        )
        for side in (0, 1)
    ]
    found = compare(*sides)
    worse = [verdict.series.case.params["seq_len"] for verdict in found.verdicts if verdict.word is Word.WORSE]
    assert worse == [128 + 250]
    assert found.verdicts[0].word is Word.WORSE
    assert found.count()["same"] > 490


def shifted(machine: dict[str, Any]) -> Comparison:
    rng = random.Random(21)
    cases = [factories.case("eager", seq_len=128 * place) for place in (1, 2, 3, 4)]
    sides = []
    for factor, soft in ((1.0, {}), (1.2, machine)):
        environment = factories.environment(**soft)
        rows = [row for case in cases for row in trials(case, noisy(rng, 1e-2 * factor, 0.003, 5), environment=environment)]
        sides.append(evidence(rows, cases, [environment]))
    return compare(*sides)


def test_rows_that_all_move_together_are_one_event_and_blamed_on_no_code_where_the_machine_changed() -> None:
    same_machine, other_machine = shifted({}).mass_shift, shifted({"driver": "581"}).mass_shift
    assert same_machine is not None
    assert other_machine is not None
    assert (same_machine.word, same_machine.moved, same_machine.of, same_machine.machine_changed) == (Word.WORSE, 4, 4, False)
    assert other_machine.machine_changed


def test_canaries_are_judged_apart_and_say_that_the_machine_moved() -> None:
    rng = random.Random(22)
    canary = dataclasses.replace(factories.case(), workload="matmul", subject={"matmul": "torch_matmul"}, params={"m": 8192})
    cases = [factories.case("eager", seq_len=128 * place) for place in (1, 2, 3)]
    run = factories.run(suite_data={"workload": "attention"})
    sides = []
    for factor in (1.0, 1.2):
        rows = [row for case in (*cases, canary) for row in trials(case, noisy(rng, 1e-2 * factor, 0.003, 5))]
        sides.append(evidence(rows, [*cases, canary], run=run))
    found = compare(*sides)
    assert [verdict.series.case.workload for verdict in found.canaries] == ["matmul"]
    assert all(verdict.series.case.workload == "attention" for verdict in found.verdicts)
    assert found.mass_shift is not None
    assert found.mass_shift.canaries_moved
    assert "machine moved" in found.mass_shift.text


def test_the_geometric_mean_is_over_the_common_rows_and_says_what_was_left_out() -> None:
    cases = [factories.case("eager", seq_len=128 * place) for place in (1, 2, 3, 4)]
    first = [row for case in cases for row in trials(case, [1e-2] * 3)]
    second = [*trials(cases[0], [2e-2] * 3), *trials(cases[1], [0.5e-2] * 3), *trials(cases[2], [None] * 3, status=Status.OOM)]
    found = compare(evidence(first, cases), evidence(second, cases))
    (total,) = found.totals
    assert (total.metric, total.n, dict(total.left_out)) == ("time_s", 2, {"worse": 1, "missing": 1})
    assert total.ratio == pytest.approx(1.0)


def test_a_settling_command_asks_for_more_trials_of_this_very_row() -> None:
    wide = evidence(trials(EAGER, [1.0, 1.2, 0.8, 1.1, 0.9]), [EAGER])
    verdict = one(compare(wide, wide))
    assert verdict.word is Word.INSUFFICIENT
    assert verdict.settle == "bench run suites/attention.yaml --filter attention=eager --trials 16"


def test_sides_without_a_common_row_say_so_for_every_row() -> None:
    found = compare(times(1, 1e-2), times(2, 1e-2, case=FLASH))
    assert {verdict.word for verdict in found.verdicts} == {Word.MISSING, Word.NEW}
