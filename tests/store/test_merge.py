"""Merging: what machines that never met have measured comes together by natural keys, on every kind of database."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.errors import StoreError
from bench.records import Run, RunState
from bench.store import Store, new_id
from tests import factories


def fill(store: Store, *, trials: int = 3, run: Run | None = None, first: int = 0) -> Run:
    made = run or factories.run(id=new_id())
    if run is None or run.id not in {one.id for one in store.runs()}:
        store.add_run(made)
    store.add_results([dataclasses.replace(factories.result(made.id, index=first + n), id=new_id()) for n in range(trials)])
    return made


def test_shards_of_several_machines_come_together(new_url: Callable[[], str]) -> None:
    with Store.open(new_url()) as one, Store.open(new_url()) as two, Store.open(new_url()) as all_:
        first, second = fill(one), fill(two, trials=2)
        assert all_.merge(one).results_new == 3
        report = all_.merge(two)
        assert (report.runs_new, report.runs_same, report.results_new, report.results_same) == (1, 0, 2, 0)
        for store, run in ((one, first), (two, second)):
            assert all_.find_run(run.id) == run
            assert all_.results([run.id]) == store.results([run.id])
        assert all_.check() == []


def test_merging_again_adds_nothing_and_takes_nothing_back(new_url: Callable[[], str]) -> None:
    with Store.open(new_url()) as ours, Store.open(new_url()) as theirs:
        run = fill(theirs)
        ours.merge(theirs)
        ours.exclude(ours.results([run.id])[0].id, "the fan was blocked")
        report = ours.merge(theirs)
        assert (report.runs_new, report.runs_same, report.results_new, report.results_same) == (0, 1, 0, 3)
        assert report.conflicts == ()
        assert len(ours.results([run.id])) == 2


def test_a_database_of_another_kind_is_merged_too(tmp_path: Path, url: str) -> None:
    with Store.open(tmp_path / "shard.db") as shard, Store.open(url) as store:
        run = fill(shard)
        store.merge(shard)
        assert store.results([run.id]) == shard.results([run.id])
        with Store.open(tmp_path / "back.db") as back:
            back.merge(store)
            assert back.results([run.id]) == shard.results([run.id])


def test_a_run_that_went_on_elsewhere_is_completed(new_url: Callable[[], str]) -> None:
    with Store.open(new_url()) as ours, Store.open(new_url()) as theirs:
        run = factories.run(id=new_id(), state=RunState.RUNNING, finished_at=None)
        fill(theirs, run=run)
        ours.merge(theirs)
        fill(theirs, run=run, first=3, trials=2)
        theirs.finish_run(run.id, RunState.FINISHED, "2026-01-02T05:00:00+00:00")
        report = ours.merge(theirs)
        assert (report.results_new, report.results_same, report.conflicts) == (2, 3, ())
        assert ours.find_run(run.id) == theirs.find_run(run.id)


def test_conflicts_are_told_and_kept_out(new_url: Callable[[], str]) -> None:
    with Store.open(new_url()) as ours, Store.open(new_url()) as theirs:
        run = factories.run(id=new_id())
        for store in (ours, theirs):
            store.add_run(run)
        same = factories.result(run.id, index=0)
        mine, other = factories.result(run.id, index=1), factories.result(run.id, index=1)
        ours.add_results([same, mine])
        theirs.add_results([dataclasses.replace(same, duration_s=99.0), other, factories.result(run.id, index=2)])
        report = ours.merge(theirs)
        shown = theirs.location.shown
        assert report.results_new == 1
        assert set(report.conflicts) == {
            f"{shown}: result {same.id} is stored with other content",
            f"{shown}: the trial of result {other.id} is stored as result {mine.id}",
        }
        assert ours.results([run.id])[:2] == [same, mine]


def test_pins_and_exclusions_come_along(new_url: Callable[[], str]) -> None:
    with Store.open(new_url()) as ours, Store.open(new_url()) as theirs:
        run = fill(theirs)
        theirs.exclude_run(run.id, "measured with the lid open")
        theirs.pin(run.id, "baseline of March")
        ours.merge(theirs)
        assert ours.results([run.id]) == []
        assert ours.pins() == theirs.pins()
        assert ours.merge(theirs).conflicts == ()


def test_a_database_is_not_merged_into_itself(store: Store, url: str) -> None:
    with Store.open(url, read_only=True) as again, pytest.raises(StoreError, match="name another one"):
        store.merge(again)


def test_a_merge_that_fails_leaves_nothing_behind(new_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.store import merge

    def refused(*_: object) -> None:
        raise ValueError("no")

    with Store.open(new_url()) as ours, Store.open(new_url()) as theirs:
        theirs.pin(fill(theirs).id, "kept")
        monkeypatch.setattr(merge.writes, "pin", refused)
        with pytest.raises(ValueError, match="no"):
            ours.merge(theirs)
        assert ours.runs() == []
