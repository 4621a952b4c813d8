"""The order of a night: canaries, what matters, what was never measured, and then by turns; every row's turn comes."""

from __future__ import annotations

from pathlib import Path

from bench.catalogue import load_catalogue
from bench.records import Status
from bench.run import Plan, RunOptions, make_plan
from bench.run.night import in_turns, last_measured
from bench.store import Store
from bench.suite import Suite, expand, load_suite, parse_filters
from tests import factories

SUITE = """
schema: 1
name: norms
question: Which?
workload: rms_norm
subjects: {rms_norm: [eager, torch_native]}
sweep: {model: [tiny], seq_len: [32, 64, 96, 128, 160, 192], batch: [1], dtype: [fp32], pass: [forward]}
"""


def planned(folder: Path) -> tuple[Plan, Suite]:
    path = folder / "norms.yaml"
    path.write_text(SUITE)
    catalogue = load_catalogue([])
    suite = load_suite(path, catalogue)
    return make_plan(suite, expand(suite, catalogue, device="cpu"), RunOptions(trials=2, seed=1)), suite


def sizes(plan: Plan) -> list[object]:
    return [block[0].case.params["seq_len"] for block in plan.blocks]


def test_priority_comes_first_then_what_was_never_measured_then_the_longest_unmeasured(tmp_path: Path) -> None:
    plan, suite = planned(tmp_path)
    last = {case.key: f"2026-01-{case.params['seq_len']:03}" for case in plan.cases if case.params["seq_len"] != 160}
    ordered = in_turns(plan, suite, last, parse_filters(["seq_len=128"]))
    assert sizes(ordered) == [128, 160, 32, 64, 96, 192]
    assert sorted(trial.key for trial in ordered.trials) == sorted(trial.key for trial in plan.trials)
    assert [len(block) for block in ordered.blocks] == [4] * 6


def test_with_time_for_two_rows_a_night_every_row_is_measured_within_its_turn_and_priority_always(tmp_path: Path) -> None:
    plan, suite = planned(tmp_path)
    last: dict[str, str] = {}
    seen: list[object] = []
    for night in range(5):
        tonight = in_turns(plan, suite, last, parse_filters(["seq_len=32"])).blocks[:2]
        assert tonight[0][0].case.params["seq_len"] == 32
        for block in tonight:
            last |= {trial.case.key: f"night {night}" for trial in block}
        seen.append(tonight[1][0].case.params["seq_len"])
    assert sorted(map(str, seen)) == sorted(["64", "96", "128", "160", "192"])


def test_when_a_case_was_looked_at_last_is_read_from_its_suites_rows_however_they_ended(tmp_path: Path) -> None:
    case, other = factories.case(), factories.case("sdpa_flash")
    with Store.open(tmp_path / "bench.db") as store:
        for number, suite in enumerate(("attention", "attention", "another")):
            run = factories.run(suite=suite)
            store.add_run(run)
            moment = f"2026-01-0{number + 1}T00:00:00+00:00"
            store.add_result(factories.result(run.id, case, started_at=moment))
            store.add_result(factories.result(run.id, other, started_at=moment, status=Status.OOM))
        newest = "2026-01-02T00:00:00+00:00"
        assert last_measured(store, "attention") == {case.key: newest, other.key: newest}


def test_a_subject_that_never_runs_keeps_no_block_in_front_of_the_others(tmp_path: Path) -> None:
    """As where a package is not installed: each block has a row of it, and none has a number."""
    plan, suite = planned(tmp_path)
    seen: list[object] = []
    with Store.open(tmp_path / "bench.db") as store:
        for night in range(3):
            run = factories.run(suite=suite.name)
            store.add_run(run)
            for block in in_turns(plan, suite, last_measured(store, suite.name), ()).blocks[:2]:
                seen.append(block[0].case.params["seq_len"])
                for case in {trial.case.key: trial.case for trial in block}.values():
                    status = Status.OK if case.subject_label == "eager" else Status.UNAVAILABLE
                    store.add_result(
                        factories.result(run.id, case, started_at=f"2026-01-0{night + 1}T00:00:00+00:00", status=status)
                    )
    assert sorted(map(str, seen)) == sorted(["32", "64", "96", "128", "160", "192"])
