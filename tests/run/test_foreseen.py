"""A search of what fits under a cap begins where `bench plan` says that the cap ends."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench.catalogue import load_catalogue
from bench.plan.rounding import MARGIN
from bench.plan.stored import foretold_bytes
from bench.records import MEMORY_LIMIT_PARAM, Case, Status
from bench.run import Plan, RunOptions, make_plan
from bench.run.foreseen import foreseen
from bench.run.search import Searching, at_value, most_probes
from bench.suite import expand, load_suite

SUITE = Path(__file__).parents[2] / "suites" / "llama8b_context.yaml"


def planned(profile: str) -> Plan:
    catalogue = load_catalogue([])
    suite = load_suite(SUITE, catalogue, profile=profile)
    expansion = expand(suite, catalogue, device="cuda")
    return make_plan(suite, expansion, RunOptions(suite_file=str(SUITE), device="cuda", seed=1), catalogue=catalogue)


@pytest.fixture(scope="module")
def cards() -> Searching:
    found = planned("cards").searching
    assert found is not None
    return found


def needed(case: Case, value: int) -> float:
    peak = foretold_bytes(at_value(case, "seq_len", value))
    assert peak is not None
    return peak * (1 + MARGIN)


def test_the_first_probe_is_the_last_value_whose_planned_peak_the_cap_holds(cards: Searching) -> None:
    between = 0
    for group in cards.groups:
        asked = {trial.case.key for block in cards.blocks(lambda trial: None, group) for trial in block}
        for case in group.cases:
            cap, value = case.params[MEMORY_LIMIT_PARAM], cards.guesses[case.key]
            assert isinstance(cap, int)
            assert len(group.cases) > 1 or at_value(case, "seq_len", value).key in asked
            if value > cards.search.start:
                assert needed(case, value) <= cap
            if value < cards.search.stop:
                assert needed(case, value + 1024) > cap
            between += cards.search.start < value < cards.search.stop
    assert between >= 3


def test_a_search_that_begins_near_its_end_needs_few_probes(cards: Searching) -> None:
    """Of caps whose end lies within two steps of the plan's."""
    for group in cards.groups:
        for case in group.cases:
            guess = cards.guesses[case.key]
            for end in (guess - 2048, guess - 1024, guess, guess + 1024):
                answers: dict[int, Status] = {}
                while (value := cards.next_value(case, answers)) is not None:
                    answers[value] = Status.OK if value <= end else Status.OOM
                assert len(answers) <= 3
            assert most_probes(cards.search, guess) <= most_probes(cards.search) + 1


def test_subjects_that_are_timed_go_up_from_the_lowest_value_together() -> None:
    quick = planned("quick").searching
    assert quick is not None
    assert not quick.guesses


def test_what_the_plan_does_not_speak_of_has_no_guess(cards: Searching) -> None:
    case = cards.groups[0].cases[0]
    uncapped = {name: value for name, value in case.params.items() if name != MEMORY_LIMIT_PARAM}
    assert foreseen(cards.search, case) is not None
    assert foreseen(cards.search, dataclasses.replace(case, params=uncapped)) is None
    assert foreseen(cards.search, dataclasses.replace(case, workload="attention")) is None
    assert foreseen(cards.search, dataclasses.replace(case, subject={**case.subject, "attention": "mine"})) is None
