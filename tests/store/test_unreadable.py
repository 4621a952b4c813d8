"""A value that does not read: every read method names database and row and says what to do, and `check` finds it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.errors import StoreError
from bench.judge.points import load_levels
from bench.records import Measurement
from bench.store import Store, new_id
from tests import factories
from tests.store.conftest import file_without_rows

RUN = factories.run(id="run-whole", label="whole")
RESULT = factories.result(RUN.id, id="result-whole")
OTHER_RUN = factories.run(id="run-other", started_at="2026-01-01T00:00:00+00:00")
OTHER = factories.result(OTHER_RUN.id, factories.case("sdpa_flash"), id="result-other")

HARMS = [
    ("run", "UPDATE run SET state = 'sleeping'", "run.state is 'sleeping', no RunState"),
    ("run", "UPDATE run SET suite_data = '{broken'", "suite_data is no JSON"),
    ("run", "UPDATE run SET options = '[]'", "options is no JSON object"),
    ("run", "UPDATE run SET started_at = 'yesterday'", "started_at is 'yesterday', which is no time"),
    ("run", "UPDATE run SET finished_at = 'soon'", "finished_at is 'soon', which is no time"),
    ("run", "UPDATE run SET planned_trials = 'many'", "run.planned_trials is 'many', no whole number"),
    ("run", "UPDATE run SET question = X'00FF'", "run.question is b'\\x00\\xff', no text"),
    ("run", "UPDATE run SET question = CAST(X'41FF' AS TEXT)", "run.question is 'A\\udcff', no text in UTF-8"),
    ("result", "UPDATE result SET status = 'great'", "result.status is 'great', no Status"),
    ("result", "UPDATE result SET conditions = '{broken'", "conditions is no JSON"),
    ("result", "UPDATE result SET conditions = '\"text\"'", "conditions is no JSON object"),
    ("result", "UPDATE result SET conditions = CAST(X'7BFF7D' AS TEXT)", "no text in UTF-8"),
    ("result", "UPDATE result SET proof_observed = '7'", "proof_observed is no JSON list of texts"),
    ("result", "UPDATE result SET started_at = 'yesterday'", "started_at is 'yesterday', which is no time"),
    ("result", "UPDATE result SET block = 'first'", "result.block is 'first', no whole number"),
    ("result", "UPDATE result SET duration_s = 'long'", "result.duration_s is 'long', no number"),
    ("result", "UPDATE result SET reason = 'but'", "ok has none"),
    ("result", "UPDATE measurement SET median = 'abc' WHERE n = 1", "measurement.median is 'abc', no number"),
    ("result", "UPDATE measurement SET median = 9e999 WHERE n = 1", "measurement.median is inf, no finite number"),
    ("result", "UPDATE measurement SET median = -1.0 WHERE n = 1", "a sample of -1 byte is negative"),
    ("result", "UPDATE measurement SET unit = 'ms' WHERE metric = 'time_s'", "time_s is in 'ms', and its unit is 's'"),
    ("result", "UPDATE measurement SET calls_per_sample = X'01'", "measurement.calls_per_sample is b'\\x01', no whole number"),
    ("result", "UPDATE sample SET data = X'0102'", "samples do not decode"),
    ("result", "UPDATE check_ SET error = 'small'", "check_.error is 'small', no number"),
    ("result", "UPDATE log SET data = X'00'", "a log does not decompress"),
    ("case", "UPDATE case_ SET pass_ = 'sideways'", "case_.pass_ is 'sideways', no Pass"),
    ("case", "UPDATE case_param SET value = '{' WHERE name = 'mask'", "mask is no JSON"),
    ("case", "DELETE FROM case_", "results name it, and it is not there"),
    ("environment", "UPDATE environment_item SET value = '{' WHERE name = 'python'", "python is no JSON"),
    ("environment", "DELETE FROM environment", "results name it, and it is not there"),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "bench.db"
    path.write_bytes(file_without_rows())
    with Store.open(path) as store:
        for run, result in ((OTHER_RUN, OTHER), (RUN, RESULT)):
            store.add_run(run)
            store.add_result(result)
        store.compact()
    return path.read_bytes()


@pytest.fixture
def harmed(whole: bytes, tmp_path: Path) -> Callable[[str], Store]:
    """A database with one statement carried out on it that nothing in SQLite refuses, opened for reading."""
    opened = []

    def make(harm: str) -> Store:
        path = tmp_path / "bench.db"
        path.write_bytes(whole)
        with sqlite3.connect(path, isolation_level=None) as connection:
            connection.executescript(f"PRAGMA foreign_keys=OFF; PRAGMA ignore_check_constraints=ON; {harm};")
        connection.close()
        opened.append(Store.open(path, read_only=True))
        return opened[-1]

    yield make  # type: ignore[misc]
    for store in opened:
        store.close()


def ids_of(kind: str) -> set[str]:
    from bench.store.rows import environment_row

    return {
        "run": {RUN.id, OTHER_RUN.id},
        "result": {RESULT.id, OTHER.id},
        "case": {RESULT.case.key, OTHER.case.key},
        "environment": {environment_row(RESULT.environment)["id"]},
    }[kind]


@pytest.mark.parametrize(("kind", "harm", "words"), HARMS, ids=[harm for _, harm, _ in HARMS])
def test_what_does_not_read_is_found_by_the_check_and_named_by_every_command(
    harmed: Callable[[str], Store], kind: str, harm: str, words: str
) -> None:
    store = harmed(harm)
    findings = store.check()
    beginnings = tuple(f"{kind} {one} does not read: " for one in ids_of(kind))
    assert any(line.startswith(beginnings) and words in line for line in findings), findings

    reads = {
        "run": (store.runs, lambda: store.find_run("latest"), lambda: store.find_run("whole"), lambda: store.find_run(RUN.id)),
        "result": (lambda: store.results([RUN.id]), lambda: store.find_result(RESULT.id)),
    }.get(kind, (lambda: store.results([RUN.id], metrics=["time_s"]), lambda: store.find_result(RESULT.id)))
    for read in reads:
        with pytest.raises(StoreError) as raised:
            read()
        said = str(raised.value)
        assert f"database {store.location.shown}: " in said
        assert any(beginning in said for beginning in beginnings), said
        assert words in said
        assert "`bench db check`" in said
        assert ("`bench db exclude" if kind == "result" else "`bench db export RUN") in said


def test_a_sound_database_has_nothing_that_does_not_read(harmed: Callable[[str], Store]) -> None:
    store = harmed("SELECT 1")
    assert store.check() == []
    assert store.results([RUN.id]) == [RESULT]


def test_a_number_that_a_judge_reads_out_of_the_tables_is_named_too(harmed: Callable[[str], Store]) -> None:
    store = harmed("UPDATE result SET attempt = 'again' WHERE id = 'result-whole'")
    with pytest.raises(StoreError, match=r"result result-whole does not read: result.attempt is 'again', no whole number"):
        load_levels(store, [RUN, OTHER_RUN], ["time_s"])
    with pytest.raises(StoreError, match=r"result result-whole does not read"):
        store.results([RUN.id])
    assert store.results([OTHER_RUN.id]) == [OTHER]


def test_a_row_that_is_excluded_and_does_not_read_is_left_out_and_the_rest_goes_into_a_new_database(
    harmed: Callable[[str], Store], tmp_path: Path
) -> None:
    path = harmed("UPDATE result SET conditions = '{' WHERE id = 'result-whole'").location.path
    assert path is not None
    with Store.open(path) as store:
        third = factories.result(RUN.id, index=3, id=new_id())
        store.add_result(third)
        assert store.find_result_id("result-wh") == (RESULT.id, RUN.id)
        store.exclude(RESULT.id, "does not read")
        assert store.exclusions(RUN.id) == {RESULT.id: "does not read"}
        assert store.results([RUN.id], include_excluded=True) == [third]
        assert store.unread == {RESULT.id}
        (finding,) = store.check()
        assert "it is excluded, so it is left out of all that is read" in finding
        store.export_jsonl(tmp_path / "all.jsonl")
    with Store.open(tmp_path / "new.db") as other:
        assert other.import_file(tmp_path / "all.jsonl").results_new == 2
        assert other.check() == []


def test_a_run_that_does_not_read_keeps_no_other_from_being_exported(harmed: Callable[[str], Store], tmp_path: Path) -> None:
    store = harmed("UPDATE run SET options = '{' WHERE id = 'run-whole'")
    assert store.export_jsonl(tmp_path / "other.jsonl", [OTHER_RUN.id]).results == 1
    with pytest.raises(StoreError, match="run run-whole does not read: options is no JSON"):
        store.export_jsonl(tmp_path / "all.jsonl")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"started_at": "yesterday"}, "started_at is 'yesterday', which is no time"),
        ({"measurements": (Measurement("time_s", "ms", (1.0,)),)}, "time_s is in 'ms', and its unit is 's'"),
    ],
)
def test_what_would_not_read_is_not_stored_either(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    with Store.open(tmp_path / "bench.db") as store:
        store.add_run(RUN)
        with pytest.raises(ValueError, match=words):
            store.add_result(factories.result(RUN.id, **changes))
        assert store.check() == []
