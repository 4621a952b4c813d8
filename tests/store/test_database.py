"""What a store promises, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.errors import SelectionError, StoreError
from bench.records import (
    Case,
    Check,
    Cost,
    Environment,
    Measurement,
    Pass,
    Proof,
    Result,
    RevisionItem,
    Run,
    RunState,
    Status,
    Trial,
)
from bench.store import Store, new_id
from bench.store.queries import Shared
from tests import factories

HOSTILE = [
    "<script>alert(1)</script>",
    'it\'s "quoted"; DROP TABLE result; --',
    "🦙 émoji",
    "x" * 300,
    "%_\\",
    "nul\x00 and \ue000 here",
    "",
]


def stored_run(store: Store, **changes: Any) -> Run:
    run = factories.run(**{"id": new_id(), **changes})
    store.add_run(run)
    return run


def test_what_is_read_equals_what_was_stored(store: Store) -> None:
    run = stored_run(store)
    result = factories.result(run.id)
    assert store.add_result(result) is True
    assert store.find_run(run.id) == run
    assert store.find_result(result.id) == result
    assert store.results([run.id]) == [result]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = texts.filter(bool)
integers = st.integers(-(2**63), 2**63 - 1)
counts = st.integers(0, 2**31)
numbers = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-(10**30), 10**30), numbers, texts)
facts = st.dictionaries(names, scalars, max_size=4)
documents = st.dictionaries(
    texts,
    st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6),
    max_size=4,
)
cases = st.builds(
    Case,
    workload=texts,
    workload_version=counts,
    subject=st.dictionaries(names, names, min_size=1, max_size=3),
    pass_=st.sampled_from(Pass),
    dtype=texts,
    device=texts,
    cache=texts,
    timer=texts,
    params=facts,
    world_size=counts,
)
measurements = st.lists(
    st.builds(
        Measurement,
        metric=names,
        unit=texts,
        samples=st.lists(numbers, min_size=1, max_size=6).map(tuple),
        scope=names,
        calls_per_sample=counts,
        note=st.none() | texts,
    ),
    max_size=4,
    unique_by=lambda m: (m.metric, m.scope),
).map(tuple)
maybe_number = st.none() | numbers
checks = st.lists(
    st.builds(Check, texts, texts, maybe_number, maybe_number, maybe_number, st.booleans(), st.none() | texts), max_size=3
).map(tuple)
proofs = st.builds(Proof, texts, st.lists(texts, max_size=3).map(tuple), st.none() | texts)
costs = st.builds(Cost, st.none() | integers, st.none() | integers, st.none() | integers)


@st.composite
def results(draw: st.DrawFn) -> Result:
    status = draw(st.sampled_from(Status))
    return Result(
        id=new_id(),
        run_id="",
        trial=Trial(
            draw(cases),
            draw(counts),
            draw(counts),
            draw(counts),
            arm=draw(names),
            pair_index=draw(st.none() | counts),
            attempt=draw(counts),
        ),
        status=status,
        reason=draw(st.sampled_from([None, ""])) if status is Status.OK else draw(names),
        environment=Environment(draw(facts), draw(facts)),
        started_at=draw(st.datetimes()).isoformat(),
        duration_s=draw(numbers),
        seed=draw(integers),
        command=draw(texts),
        error_type=draw(st.none() | texts),
        phase=draw(st.none() | texts),
        rank=draw(st.none() | counts),
        measurements=draw(measurements),
        checks=draw(checks),
        proof=draw(st.none() | proofs),
        cost=draw(st.none() | costs),
        conditions=draw(documents),
        log=draw(texts),
        method_version=draw(counts),
        harness_version=draw(texts),
        excluded_reason=draw(st.none() | texts),
    )


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    drawn=results(),
    data=documents,
    revision=st.lists(st.builds(RevisionItem, texts, texts, st.none() | texts, dirty=st.none() | st.booleans())),
)
def test_any_record_survives_the_database(store: Store, drawn: Result, data: dict[str, Any], revision: list[RevisionItem]) -> None:
    run = stored_run(store, suite_data=data, options=data, revision=tuple(revision), label=drawn.command)
    result = dataclasses.replace(drawn, run_id=run.id)
    assert store.add_result(result)
    store._shared = Shared()
    assert store.find_result(result.id) == result
    assert store.find_run(run.id) == run
    # Types that compare equal (1, 1.0 and True) must not change either.
    assert repr(store.find_result(result.id).conditions) == repr(result.conditions)
    assert store.find_result(result.id).case.key == result.case.key


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_only_text(store: Store, name: str) -> None:
    run = stored_run(store, suite=name, label=name or None, question=name, suite_file=name, command=name)
    case = factories.case(name, params={"model": name, name: 1})
    result = factories.result(run.id, case, status=Status.FAILED, reason=name or "-", log=name, error_type=name, command=name)
    store.add_result(result)
    assert store.results([run.id]) == [result]
    assert [found.id for found in store.runs(suite=name)] == [run.id]
    if name:
        assert store.find_run(name) == run


def test_the_same_trial_is_stored_once_and_the_first_row_stays(store: Store) -> None:
    run = stored_run(store)
    first = factories.result(run.id, time_s=1.0)
    assert store.add_result(first) is True
    assert store.add_result(first) is False
    assert store.add_result(dataclasses.replace(factories.result(run.id, time_s=2.0), id=new_id())) is False
    assert store.results([run.id]) == [first]
    assert store.add_results([first, factories.result(run.id, index=1), factories.result(run.id, index=1)]) == 1
    assert len(store.results([run.id])) == 2


def test_index_arm_and_attempt_each_make_another_trial(store: Store) -> None:
    run = stored_run(store)
    base = factories.result(run.id)
    trials = [base.trial, *(dataclasses.replace(base.trial, **change) for change in ({"index": 1}, {"arm": "b"}, {"attempt": 1}))]
    for trial in trials:
        assert store.add_result(dataclasses.replace(base, id=new_id(), trial=trial))
    assert set(store.done(run.id)) == {(base.case.key, trial.arm, trial.index, trial.attempt) for trial in trials}


def test_an_id_that_names_another_trial_is_our_own_mistake(store: Store) -> None:
    run = stored_run(store)
    first = factories.result(run.id)
    store.add_result(first)
    with pytest.raises(ValueError, match="names another trial"):
        store.add_result(dataclasses.replace(factories.result(run.id, index=5), id=first.id))


def test_a_result_of_an_unknown_run_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="run that is not stored"):
        store.add_result(factories.result("nowhere"))
    with pytest.raises(ValueError, match="run that is not stored"):
        store.add_results([factories.result("nowhere")])
    with pytest.raises(ValueError, match="stored already"):
        store.add_run(stored_run(store))


@pytest.mark.parametrize(
    "change", [{"duration_s": float("nan")}, {"duration_s": float("inf")}, {"seed": 2**63}, {"conditions": {"a": float("nan")}}]
)
def test_what_sql_cannot_hold_is_refused_whole(store: Store, change: dict[str, Any]) -> None:
    run = stored_run(store)
    with pytest.raises(ValueError):
        store.add_result(factories.result(run.id, **change))
    assert store.results([run.id]) == []
    assert store.check() == []


def test_two_measurements_of_one_metric_are_refused(store: Store) -> None:
    run = stored_run(store)
    with pytest.raises(ValueError, match="two measurements"):
        store.add_result(factories.result(run.id, measurements=(factories.measurement(), factories.measurement())))


def test_text_that_is_not_unicode_is_refused_in_words(store: Store) -> None:
    with pytest.raises(StoreError, match="not valid Unicode"):
        stored_run(store, suite_file="caf\udce9.yaml")


@pytest.mark.parametrize("status", Status)
def test_every_status_is_a_row(store: Store, status: Status) -> None:
    run = stored_run(store)
    result = factories.result(run.id, status=status)
    store.add_result(result)
    assert store.find_result(result.id).status is status


@pytest.mark.parametrize("state", RunState)
def test_every_state_of_a_run_can_be_set(store: Store, state: RunState) -> None:
    run = stored_run(store, state=RunState.RUNNING, finished_at=None)
    store.finish_run(run.id, state, "2026-01-02T04:00:00+00:00")
    assert store.find_run(run.id) == dataclasses.replace(run, state=state, finished_at="2026-01-02T04:00:00+00:00")
    with pytest.raises(SelectionError):
        store.finish_run("nowhere", state, "2026-01-02T04:00:00+00:00")


@pytest.mark.parametrize("count", [2, 80])
def test_an_id_that_names_two_trials_is_refused_however_many_come_at_once(store: Store, count: int) -> None:
    from sqlalchemy.exc import IntegrityError

    run = stored_run(store)
    rows = [dataclasses.replace(factories.result(run.id, index=index), id=new_id()) for index in range(count)]
    with pytest.raises(IntegrityError):
        store.add_results([*rows[:-1], dataclasses.replace(rows[-1], id=rows[0].id)])
    assert store.results([run.id]) == []
    assert store.add_results(rows) == count
    assert store.results([run.id]) == rows


def test_texts_that_a_server_refuses_come_back_however_many_come_at_once(store: Store) -> None:
    run = stored_run(store)
    rows = [
        dataclasses.replace(factories.result(run.id, index=index, command=HOSTILE[index % len(HOSTILE)]), id=new_id())
        for index in range(80)
    ]
    store.add_results(rows)
    assert store.results([run.id]) == rows


def test_many_batches_come_in_whole_or_not_at_all(store: Store) -> None:
    runs = [factories.run() for _ in range(2)]
    for run in runs:
        store.add_run(run)
    cases = [factories.case(seq_len=16 * number) for number in range(1, 8)]
    # A generator, as an import gives them: cases and environments come anew in later batches, and a second run in the last one.
    rows = [
        factories.result(
            runs[number // 1100].id, cases[number % 7], index=number, environment=factories.environment(turn=number // 300)
        )
        for number in range(1200)
    ]
    with pytest.raises(ValueError, match="two measurements of one metric"):
        store.add_results([*rows, factories.result(runs[0].id, index=5000, measurements=(factories.measurement(),) * 2)])
    assert store.count_results() == 0
    assert store.add_results(row for row in rows) == 1200
    assert {row.id: row for row in store.results([run.id for run in runs])} == {row.id: row for row in rows}
    assert store.add_results(row for row in rows) == 0
    assert store.check() == []


def test_a_whole_run_can_be_excluded_and_first_reasons_stay(store: Store) -> None:
    run, other = stored_run(store), stored_run(store)
    rows = [factories.result(run.id, index=index) for index in range(3)]
    store.add_results([*rows, factories.result(other.id)])
    store.exclude(rows[0].id, "another process was busy")
    assert store.exclude_run(run.id, "the fan was blocked") == 2
    assert store.exclude_run(run.id, "second thoughts") == 0
    assert store.results([run.id]) == []
    reasons = [row.excluded_reason for row in store.results([run.id], include_excluded=True)]
    assert reasons == ["another process was busy", "the fan was blocked", "the fan was blocked"]
    assert len(store.results([other.id])) == 1
    with pytest.raises(SelectionError, match="no run nowhere"):
        store.exclude_run("nowhere", "why")
    with pytest.raises(ValueError, match="needs a reason"):
        store.exclude_run(run.id, "")


def test_an_excluded_result_is_kept_with_its_first_reason(store: Store) -> None:
    run = stored_run(store)
    kept, out = factories.result(run.id), factories.result(run.id, index=1)
    store.add_results([kept, out])
    store.exclude(out.id, "another process was busy")
    store.exclude(out.id, "second thoughts")
    assert store.results([run.id]) == [kept]
    assert [result.excluded_reason for result in store.results([run.id], include_excluded=True)] == [
        None,
        "another process was busy",
    ]
    assert len(store.done(run.id)) == 2
    with pytest.raises(SelectionError):
        store.exclude("nowhere", "why")
    with pytest.raises(ValueError):
        store.exclude(kept.id, "")


def test_a_run_is_found_by_id_prefix_label_and_latest(store: Store) -> None:
    with pytest.raises(SelectionError, match="no run yet"):
        store.find_run("latest")
    old = stored_run(store, id="aaaa-1", started_at="2026-01-01T00:00:00+00:00", label="before")
    new = stored_run(store, id="aaab-2", started_at="2026-01-03T00:00:00+00:00", label="100% done_")
    stored_run(store, id="zzzz-3", started_at="2026-01-02T00:00:00+00:00")
    assert store.find_run("latest") == new
    assert store.find_run("before") == store.find_run("aaaa") == store.find_run("aaaa-1") == old
    assert store.find_run("100% done_") == new
    assert [run.id for run in store.runs()] == ["aaab-2", "zzzz-3", "aaaa-1"]
    with pytest.raises(SelectionError, match=r"2 runs answer to 'aaa'.*aaab-2.*aaaa-1"):
        store.find_run("aaa")
    for nobody in ("", "AAAA", "%", "a_", "nothing"):
        with pytest.raises(SelectionError, match="no run has"):
            store.find_run(nobody)


def test_a_label_of_two_runs_needs_an_id(store: Store) -> None:
    stored_run(store, label="same")
    stored_run(store, label="same")
    with pytest.raises(SelectionError, match="2 runs answer"):
        store.find_run("same")


def test_a_result_is_found_by_a_unique_prefix(store: Store) -> None:
    run = stored_run(store)
    first, second = factories.result(run.id, id="r-10"), factories.result(run.id, index=1, id="r-11")
    store.add_results([first, second])
    assert store.find_result("r-10") == first
    with pytest.raises(SelectionError, match="several results"):
        store.find_result("r-1")
    with pytest.raises(SelectionError, match="no result"):
        store.find_result("x")


def test_results_come_run_by_run_in_the_planned_order(store: Store) -> None:
    first, second = stored_run(store), stored_run(store)
    planned = [
        dataclasses.replace(factories.result(run.id), trial=Trial(factories.case(), index=position, block=block, position=position))
        for run in (second, first)
        for block in (0, 1)
        for position in (0, 1, 10)
        if (block, position) != (1, 1)
    ]
    distinct = [dataclasses.replace(r, trial=dataclasses.replace(r.trial, index=n)) for n, r in enumerate(planned)]
    store.add_results(reversed(distinct))
    assert store.results([second.id, first.id]) == distinct


def test_the_order_in_which_axes_were_written_is_kept(store: Store) -> None:
    run = stored_run(store, suite_data={"sweep": {"seq_len": [2, 1], "batch": [1], "a": [3]}})
    assert list(store.find_run(run.id).suite_data["sweep"]) == ["seq_len", "batch", "a"]


def test_shared_facts_are_stored_once(store: Store) -> None:
    from sqlalchemy import text

    run = stored_run(store)
    store.add_results([factories.result(run.id, index=index) for index in range(3)])
    store.add_result(factories.result(run.id, index=3))
    with store.reading() as connection:
        for table, rows in {"case_": 1, "environment": 1, "result": 4, "measurement": 8, "sample": 4, "log": 4}.items():
            assert connection.execute(text(f"SELECT count(*) FROM {table}")).scalar() == rows, table


def test_derived_statistics_stand_beside_the_samples(store: Store) -> None:
    from sqlalchemy import text

    run = stored_run(store)
    store.add_result(factories.result(run.id, measurements=(factories.measurement("time_s", tuple(map(float, range(1, 102)))),)))
    with store.reading() as connection:
        row = connection.execute(text("SELECT n, median, mean, p05, p95 FROM measurement")).one()
    assert tuple(row) == (101, 51.0, 51.0, 6.0, 96.0)


def test_a_reader_writes_nothing(store: Store, url: str) -> None:
    run = stored_run(store)
    with Store.open(url, read_only=True) as reader:
        assert reader.find_run(run.id) == run
        with pytest.raises(StoreError, match="for reading only"):
            reader.add_run(factories.run())
        with pytest.raises(StoreError, match="for reading only"):
            reader.exclude("x", "y")


def test_a_new_id_is_a_uuid_of_version_7_that_sorts_by_time() -> None:
    ids = [new_id() for _ in range(200)]
    assert len(set(ids)) == 200
    assert {uuid.UUID(text).version for text in ids} == {7}
    assert {uuid.UUID(text).variant for text in ids} == {uuid.RFC_4122}
    assert [text[:13] for text in ids] == sorted(text[:13] for text in ids)
