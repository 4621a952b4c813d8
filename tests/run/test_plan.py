"""The order of trials: the same for the same seed, blocks whole, subjects interleaved."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.errors import SuiteError
from bench.records import Case
from bench.run.options import RunOptions, parse_shard
from bench.run.order import order, trial_seed
from bench.run.plan import DEFAULT_TRIAL_S, estimate
from bench.store import Store
from tests import factories

SUBJECTS = ("a", "b", "c")
LENGTHS = (16, 32, 64, 128, 256)


@pytest.fixture
def cases() -> list[Case]:
    return [factories.case(subject, seq_len=length) for length in LENGTHS for subject in SUBJECTS]


def test_the_same_seed_gives_the_same_order_and_another_seed_another_one(cases: list[Case]) -> None:
    assert order(cases, 3, seed=1) == order(cases, 3, seed=1)
    orders = {tuple(trial.case.key for trial in order(cases, 3, seed=seed)) for seed in range(20)}
    assert len(orders) > 10


def test_inside_a_block_the_order_of_subjects_turns_around_with_every_trial(cases: list[Case]) -> None:
    block = [trial for trial in order(cases, 3, seed=1) if trial.block == 0]
    assert [(trial.case.subject_label, trial.index) for trial in block] == [
        ("a", 0), ("b", 0), ("c", 0), ("c", 1), ("b", 1), ("a", 1), ("a", 2), ("b", 2), ("c", 2),
    ]  # fmt: skip
    assert [trial.position for trial in block] == list(range(9))


def test_a_block_is_a_point_and_stays_together(cases: list[Case]) -> None:
    trials = order(cases, 2, seed=3)
    assert [trial.block for trial in trials] == sorted(trial.block for trial in trials)
    for block in range(len(LENGTHS)):
        assert len({trial.case.point_key for trial in trials if trial.block == block}) == 1


def test_shards_are_whole_blocks_and_together_are_the_plan(cases: list[Case]) -> None:
    whole = order(cases, 2, seed=3)
    parts = [order(cases, 2, seed=3, shard=(part, 3)) for part in (1, 2, 3)]
    assert sorted((trial for part in parts for trial in part), key=whole.index) == list(whole)
    blocks = [{trial.block for trial in part} for part in parts]
    assert sum(map(len, blocks)) == len(set().union(*blocks)) == len(LENGTHS)


def test_all_subjects_of_a_point_see_the_same_numbers_and_every_index_others(cases: list[Case]) -> None:
    block = [trial for trial in order(cases, 4, seed=1) if trial.block == 0]
    seeds = {index: {trial_seed(1, trial) for trial in block if trial.index == index} for index in range(4)}
    assert all(len(found) == 1 for found in seeds.values())
    assert len(set().union(*seeds.values())) == 4


@pytest.mark.parametrize("text", ["0/2", "3/2", "2", "a/b", "-1/2", "1/0", ""])
def test_a_shard_that_is_none_is_refused_with_the_form_it_takes(text: str) -> None:
    with pytest.raises(SuiteError, match="I/N"):
        parse_shard(text)


def test_options_come_back_from_their_data() -> None:
    options = RunOptions("suites/a.yaml", "cpu", ("a=1",), ("b=2",), 3, parse_shard("2/4"), 60.0, "night", "cpu", ("/p.py",), 7)
    assert RunOptions.from_data(options.to_data()) == options


def test_the_guess_says_that_it_is_a_default_without_earlier_results_and_uses_their_medians_with_them(
    cases: list[Case], tmp_path: Path
) -> None:
    by_key = {case.key: case for case in cases}
    seconds, source = estimate(by_key, "attention", None)
    assert set(seconds.values()) == {DEFAULT_TRIAL_S}
    assert "no earlier results" in source
    with Store.open(tmp_path / "bench.db") as store:
        run = factories.run()
        store.add_run(run)
        for index, duration_s in enumerate((1.0, 2.0, 9.0)):
            store.add_result(factories.result(run.id, cases[0], index=index, duration_s=duration_s))
        seconds, source = estimate(by_key, "attention", store)
        others = {case.key: case for case in cases if case.key != cases[0].key}
        assert estimate(others, "attention", store)[1] == "from earlier results of other cases"
    assert seconds[cases[0].key] == 2.0
    assert seconds[cases[3].key] == 2.0, "the same subject at another point"
    assert seconds[cases[1].key] == DEFAULT_TRIAL_S
    assert "1 of 15 cases" in source
