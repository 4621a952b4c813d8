"""What grows old loses samples and logs, never its rows, its medians or its reasons."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.errors import SelectionError
from bench.records import Result, Run, RunState, Status
from bench.store import Retention, Store, new_id
from tests import factories

NOW = "2026-06-01T00:00:00+00:00"
OLD = "2026-01-02T03:04:00+00:00"
YOUNG = "2026-05-30T00:00:00+00:00"
SAMPLES = tuple(1e-3 + 1e-6 * n for n in range(101))


def fill(store: Store, started_at: str = OLD, **changes: object) -> tuple[Run, list[Result]]:
    run = factories.run(id=new_id(), started_at=started_at, **changes)
    store.add_run(run)
    measured = (factories.measurement("time_s", SAMPLES, note="a note"), factories.measurement("peak_bytes", (4096.0,)))
    results = [dataclasses.replace(factories.result(run.id, index=n), id=new_id(), measurements=measured) for n in range(3)]
    store.add_results(results)
    return run, results


def test_old_samples_and_logs_go_and_medians_statuses_and_evidence_stay(store: Store) -> None:
    run, before = fill(store)
    failed = factories.result(run.id, index=9, status=Status.FAILED, log="why it failed\n")
    store.add_result(failed)

    done = store.collect(Retention(90, 90), now=NOW)

    assert (done.results, done.samples, done.logs, done.pinned_runs) == (4, 3, 4, 0)
    after = store.results([run.id])
    for old, new in zip(before, after, strict=False):
        assert dataclasses.replace(new, measurements=(), log="") == dataclasses.replace(old, measurements=(), log="")
        time_s, peak = new.measurements
        assert time_s.samples == (1.05e-3,)
        assert (
            time_s.note
            == "a note; samples dropped by `bench db gc` on 2026-06-01: the median of 101, mean 0.00105, 5 % 0.001005, 95 % 0.001095"
        )
        assert peak == old.measurements[1]
        assert new.log == "log dropped by `bench db gc` on 2026-06-01\n"
    assert after[-1].reason == failed.reason
    assert store.check() == []
    assert store.collect(Retention(90, 90), now=NOW).results == 0


def test_a_dry_run_tells_the_same_and_changes_nothing(store: Store, url: str) -> None:
    run, before = fill(store)
    with Store.open(url, read_only=True) as reader:
        told = reader.collect(Retention(90, 90), now=NOW, dry_run=True)
    assert store.results([run.id]) == before
    assert told.size_after is None
    done = store.collect(Retention(90, 90), now=NOW)
    assert dataclasses.replace(done, size_after=None, notices=()) == told
    assert done.size_after is not None


def test_samples_and_logs_have_ages_of_their_own(store: Store) -> None:
    run, before = fill(store)
    done = store.collect(Retention(samples_days=10_000, logs_days=10), now=NOW)
    assert (done.samples, done.sample_bytes, done.logs) == (0, 0, 3)
    after = store.results([run.id])
    assert [result.measurements for result in after] == [result.measurements for result in before]
    store.collect(Retention(samples_days=10, logs_days=10_000), now=NOW)
    assert [len(result.measurements[0].samples) for result in store.results([run.id])] == [1, 1, 1]
    assert store.check() == []


@pytest.mark.parametrize(
    "changes",
    [{"started_at": YOUNG}, {"started_at": ""}, {"state": RunState.RUNNING, "finished_at": None}],
    ids=["young", "of unknown age", "in progress"],
)
def test_what_is_young_unfinished_or_of_unknown_age_stays_whole(store: Store, changes: dict[str, object]) -> None:
    run, before = fill(store, **changes)
    assert store.collect(Retention(90, 90), now=NOW).results == 0
    assert store.results([run.id]) == before


def test_a_pinned_run_stays_whole_until_the_pin_is_gone(store: Store) -> None:
    run, before = fill(store)
    store.pin(run.id, "baseline of March")
    store.pin(run.id, "baseline of March")
    store.pin(run.id, "published")
    done = store.collect(Retention(90, 90), now=NOW)
    assert (done.results, done.pinned_runs) == (0, 1)
    assert store.results([run.id]) == before
    assert store.unpin(run.id, "published") == 1
    assert [pin.reason for pin in store.pins()] == ["baseline of March"]
    assert store.unpin(run.id) == 1
    assert store.collect(Retention(90, 90), now=NOW).results == 3
    with pytest.raises(SelectionError, match="no run nowhere"):
        store.pin("nowhere", "because")


def test_excluded_rows_grow_old_and_keep_their_reason(store: Store) -> None:
    _, before = fill(store)
    store.exclude(before[0].id, "the fan was blocked")
    store.collect(Retention(90, 90), now=NOW)
    kept = store.find_result(before[0].id)
    assert kept.excluded_reason == "the fan was blocked"
    assert len(kept.measurements[0].samples) == 1


def test_samples_whose_median_fits_in_no_number_are_all_there_is_and_stay(store: Store) -> None:
    run = factories.run(id=new_id(), started_at=OLD)
    store.add_run(run)
    huge = factories.measurement("device_used_bytes", (-1.7e308, 1.7e308))
    store.add_result(factories.result(run.id, measurements=(huge,), log=""))
    assert store.collect(Retention(0, 0), now=NOW).samples == 0
    assert store.results([run.id])[0].measurements == (huge,)


@pytest.mark.parametrize("thinned_first", [True, False])
def test_a_thinned_row_and_the_whole_one_are_the_same(new_url: Callable[[], str], tmp_path: Path, *, thinned_first: bool) -> None:
    with Store.open(new_url()) as whole, Store.open(new_url()) as thinned, Store.open(new_url()) as both:
        run, before = fill(whole)
        thinned.merge(whole)
        thinned.collect(Retention(90, 90), now=NOW)
        thinned.export_jsonl(tmp_path / "thinned.jsonl.gz")
        whole.export_jsonl(tmp_path / "whole.jsonl.gz")
        first, second = ("thinned", "whole") if thinned_first else ("whole", "thinned")
        both.import_file(tmp_path / f"{first}.jsonl.gz")
        report = both.import_file(tmp_path / f"{second}.jsonl.gz")
        assert (report.results_new, report.results_same, report.conflicts) == (0, 3, ())
        assert both.check() == []
        if not thinned_first:
            assert both.results([run.id]) == before


def test_a_thinned_row_with_another_median_is_a_conflict(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.db") as whole, Store.open(tmp_path / "b.db") as thinned:
        _, before = fill(whole)
        thinned.add_run(whole.runs()[0])
        other = factories.measurement("time_s", tuple(2 * sample for sample in SAMPLES), note="a note")
        thinned.add_result(dataclasses.replace(before[0], measurements=(other, before[0].measurements[1])))
        thinned.collect(Retention(90, 90), now=NOW)
        assert whole.merge(thinned).conflicts == (f"{thinned.location.shown}: result {before[0].id} is stored with other content",)


def test_the_file_becomes_smaller(tmp_path: Path) -> None:
    path = tmp_path / "bench.db"
    with Store.open(path) as store:
        run = factories.run(started_at=OLD)
        store.add_run(run)
        store.add_results([factories.result(run.id, index=n, log=os.urandom(20_000).hex()) for n in range(50)])
        done = store.collect(Retention(90, 90), now=NOW)
    assert done.size_after is not None
    assert done.size_after < done.size_before - 500_000
    assert path.stat().st_size == done.size_after


def test_a_reader_keeps_the_file_at_its_size_and_a_notice_says_so(tmp_path: Path) -> None:
    path = tmp_path / "bench.db"
    with Store.open(path, busy_timeout_s=0.1) as store:
        fill(store)
        with Store.open(path) as other, other.writing():
            assert store.compact() == ("the file keeps its size for now (database is locked): the free space is used for new rows",)


def test_a_database_that_another_process_writes_to_is_thinned_all_the_same(tmp_path: Path) -> None:
    with Store.open(tmp_path / "bench.db") as store, Store.open(tmp_path / "bench.db") as writer:
        _, before = fill(store)
        young, _ = fill(writer, YOUNG)
        store.collect(Retention(90, 90), now=NOW)
        assert writer.add_result(factories.result(young.id, index=77))
        assert len(writer.find_result(before[0].id).measurements[0].samples) == 1
