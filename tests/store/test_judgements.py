"""Baselines and acceptances are kept as they were decided, on both databases, and a merge brings them along."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.errors import SelectionError
from bench.store import Acceptance, Baseline, Store
from tests import factories

LATER = "2026-12-31T23:59:59+00:00"
HOSTILE = "'); DROP TABLE baseline; --\x00<b>"


def accepted(ratio: float | None = 1.25, reason: str = "the price of a fix") -> Acceptance:
    return Acceptance("0" * 64, "worse", ratio, "a person", reason, "2026-01-01T00:00:00+00:00", LATER)


def test_the_latest_row_of_a_name_holds_and_a_name_can_be_taken_away(store: Store) -> None:
    runs = [factories.run(), factories.run()]
    for run in runs:
        store.add_run(run)
    first = Baseline("release", runs[0].id, "a person", HOSTILE, "2026-01-01T00:00:00+00:00")
    second = Baseline("release", runs[1].id, "another", "1.1", "2026-02-01T00:00:00+00:00", LATER)
    other = Baseline("nightly", runs[0].id, "a person", "quiet night", "2026-01-01T00:00:00+00:00")
    for baseline in (first, other):
        store.set_baseline(baseline)
    assert store.baselines() == [other, first]
    store.set_baseline(second)
    assert store.baselines() == [other, second]
    store.set_baseline(Baseline("release", None, "another", "withdrawn", "2026-03-01T00:00:00+00:00"))
    assert store.baselines() == [other]


def test_a_baseline_names_a_run_that_is_stored(store: Store) -> None:
    with pytest.raises(SelectionError):
        store.set_baseline(Baseline("release", "no such run", "a person", "1.0", "2026-01-01T00:00:00+00:00"))
    assert store.baselines() == []


def test_acceptances_come_back_as_they_were_made(store: Store) -> None:
    store.accept([])
    made = [accepted(), accepted(None, HOSTILE)]
    store.accept(made)
    assert sorted(store.acceptances(), key=str) == sorted(made, key=str)


def test_a_merge_brings_decisions_along_once(new_url: Callable[[], str]) -> None:
    with Store.open(new_url()) as source, Store.open(new_url()) as target:
        run = factories.run()
        source.add_run(run)
        source.set_baseline(Baseline("release", run.id, "a person", HOSTILE, "2026-01-01T00:00:00+00:00"))
        source.accept([accepted(reason=HOSTILE)])
        for _ in range(2):
            target.merge(source)
        assert (target.baselines(), target.acceptances()) == (source.baselines(), source.acceptances())
        assert len(target.acceptances()) == 1


def test_what_judging_reads_is_the_same_in_every_database(new_url: Callable[[], str], tmp_path: Path) -> None:
    from bench.judge.compare import compare
    from bench.judge.evidence import load_evidence
    from bench.judge.history import find_series, histories
    from bench.judge.noise import load_noise
    from bench.judge.points import load_levels

    runs = [factories.run(started_at=f"2026-01-{day:02}T00:00:00+00:00") for day in (1, 2, 3)]
    rows = [
        factories.result(run.id, factories.case(seq_len=size), index=index, time_s=1e-3 * (1 + 0.01 * index))
        for run in runs
        for size in (128, 256)
        for index in range(3)
    ]
    said = []
    for url in (new_url(), str(tmp_path / "beside.db")):
        with Store.open(url) as store:
            for run in runs:
                store.add_run(run)
            store.add_results(rows)
            evidence = [load_evidence(store, [run]) for run in runs]
            found = compare(evidence[1], evidence[2], noise=load_noise(store, runs[:1]))
            assert {str(verdict.word) for verdict in found.verdicts} == {"same"}
            key = found.verdicts[0].series.key
            case_key = find_series(store, runs, key[:20], [found.verdicts[0].series.metric])
            levels = load_levels(store, runs, ["time_s", "peak_bytes"], case_key=case_key)
            said.append((found.verdicts, histories(levels, sorted(levels.by_series)), case_key))
    assert said[0] == said[1]
