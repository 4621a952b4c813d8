"""A suite may search an axis: what it says of it is checked, its cases are the first probes, and a filter asks for values instead."""

from __future__ import annotations

from typing import Any

import pytest

from bench.catalogue import Catalogue
from bench.errors import SelectionError, SuiteError
from bench.suite import Search, expand, load_suite, parse_filters
from tests.suite.conftest import PLAIN, Load, Write

SEARCH = {"axis": "seq_len", "until": "oom", "from": 16, "to": 4096}


def sweep(**changes: Any) -> dict[str, Any]:
    said = {**PLAIN["sweep"], "seq_len": None, **changes}
    return {key: value for key, value in said.items() if value is not None}


def test_a_searched_axis_begins_at_its_lowest_value_with_one_trial_a_probe(load: Load, catalogue: Catalogue) -> None:
    suite = load(search=SEARCH, sweep=sweep())
    assert suite.search == Search(axis="seq_len", until="oom", start=16, stop=4096)
    assert suite.protocol.trials == 1
    expansion = expand(suite, catalogue, device="cpu")
    assert {case.params["seq_len"] for case in expansion.cases} == {16}
    assert expansion.search == suite.search
    assert load(search=SEARCH, sweep=sweep(), protocol={"trials": 3}).protocol.trials == 3


def test_a_filter_on_the_searched_axis_asks_for_values_and_nothing_is_searched(load: Load, catalogue: Catalogue) -> None:
    suite = load(search=SEARCH, sweep=sweep())
    expansion = expand(
        suite, catalogue, device="cpu", filters=parse_filters(["seq_len=1000,24", "attention=eager", "pass=forward"])
    )
    assert [case.params["seq_len"] for case in expansion.cases] == [1000, 24]
    assert expansion.search is None
    with pytest.raises(SelectionError, match="seq_len=8 is outside the search, which goes from 16 to 4096"):
        expand(suite, catalogue, device="cpu", filters=parse_filters(["seq_len=8"]))


def test_a_profile_may_narrow_a_search_or_take_it_away(load: Load) -> None:
    profiles = {"cpu": {"search": {"to": 64}}, "quick": {"search": None, "seq_len": [32]}}
    assert load(search=SEARCH, sweep=sweep(), profiles=profiles, profile="cpu").search == Search(
        axis="seq_len", until="oom", start=16, stop=64
    )
    plain = load(search=SEARCH, sweep=sweep(), profiles=profiles, profile="quick")
    assert (plain.search, plain.sweep["seq_len"], plain.protocol.trials) == (None, (32,), 5)
    changed = load(search=SEARCH, sweep=sweep(), sets=("search.to=128", "search.step=16")).search
    assert changed == Search(axis="seq_len", until="oom", start=16, stop=128, step=16)


@pytest.mark.parametrize(
    ("search", "more", "message"),
    [
        ({"axis": "seqlen"}, {}, "search.axis: unknown whole number to search 'seqlen'; known: seq_len, batch"),
        ({"axis": "dropout"}, {}, "search.axis: unknown whole number to search 'dropout'"),
        ({"axis": "window"}, {}, "search.axis: unknown whole number to search 'window'"),
        ({"axis": 3}, {}, "search.axis: must be text, not 3"),
        ({"until": "timeout"}, {}, "search.until: must be 'oom', not 'timeout'"),
        ({"until": None}, {}, "search.until: must be 'oom', not None"),
        ({"from": 0}, {}, "search.from: must be at least 1, not 0"),
        ({"from": 16.5}, {}, "search.from: must be a whole number, not 16.5"),
        ({"to": 8}, {}, "search: to (8) is less than from (16)"),
        ({"step": 0}, {}, "search.step: must be at least 1, not 0"),
        ({"stop": 9}, {}, "search.stop: unknown key; known: axis, until, from, to, step"),
        ({}, {"sweep": sweep(seq_len=[16])}, "sweep.seq_len: seq_len is searched, so the sweep says nothing about it"),
        ({}, {"sweep": sweep(batch={"tokens": 64})}, "sweep.batch: {tokens: N} ties the batch to seq_len, and seq_len is searched"),
        ({}, {"exclude": [{"seq_len": {"gt": 64}}]}, "exclude[0].seq_len: seq_len is searched, so no rule can name it"),
    ],
)
def test_a_mistake_in_a_search_is_told_where_it_is(load: Load, search: dict[str, Any], more: dict[str, Any], message: str) -> None:
    with pytest.raises(SuiteError) as caught:
        load(**{"search": {**SEARCH, **search}, "sweep": sweep(), **more})
    (problem,) = caught.value.problems
    assert message in str(problem)


def test_a_search_without_its_ends_says_what_is_missing(load: Load) -> None:
    with pytest.raises(SuiteError) as caught:
        load(search={"axis": "seq_len", "until": "oom"}, sweep=sweep())
    assert [problem.key for problem in caught.value.problems] == ["search.from", "search.to"]


def test_values_that_the_workload_refuses_at_either_end_are_told_before_anything_is_measured(
    write: Write, catalogue: Catalogue
) -> None:
    said = sweep(mask="document", documents=32)
    suite = load_suite(write(search=SEARCH, sweep=said), catalogue)
    with pytest.raises(SuiteError, match="document"):
        expand(suite, catalogue, device="cpu")
