"""What files do to us: read-only, locked, full, foreign, old and new."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bench.errors import StoreError
from bench.records import Result
from bench.store import Store, upgrade
from tests import factories


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bench.db"


def filled(path: Path) -> str:
    """A database with one run and one result; returns the run's id."""
    run = factories.run()
    with Store.open(path) as store:
        store.add_run(run)
        store.add_result(factories.result(run.id))
    return run.id


def until_full(store: Store, run_id: str, kept: list[Result]) -> None:
    """Adds results with logs that do not compress, and notes each that was taken."""
    for index in range(1000):
        result = factories.result(run_id, index=index, log=os.urandom(4000).hex())
        store.add_result(result)
        kept.append(result)


def findings_or_error(path: Path) -> str:
    try:
        with Store.open(path) as store:
            return "\n".join(store.check())
    except StoreError as error:
        return str(error)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_missing_folder_is_made(tmp_path: Path) -> None:
    with Store.open(tmp_path / "not" / "yet" / "bench.db") as store:
        assert store.check() == []


def test_settings_that_keep_rows_safe_are_on(path: Path) -> None:
    with Store.open(path) as store, store.reading() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("foreign_keys", "journal_mode", "busy_timeout")
        }
    assert pragmas == {"foreign_keys": 1, "journal_mode": "wal", "busy_timeout": 30_000}


@pytest.mark.parametrize("read_only", [True, False])
def test_a_missing_database_is_not_made_for_a_reader(path: Path, read_only: bool) -> None:
    with pytest.raises(StoreError, match=r"no database at .*bench\.db.*bench run"):
        Store.open(path, create=False, read_only=read_only)
    assert not path.exists()


def test_an_empty_file_is_a_fresh_database(path: Path) -> None:
    path.touch()
    with pytest.raises(StoreError, match="is empty"):
        Store.open(path, read_only=True)
    with Store.open(path) as store:
        assert store.runs() == []


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is a folder"):
        Store.open(tmp_path)


def test_a_file_where_the_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be made"):
        Store.open(tmp_path / "file" / "x" / "bench.db")


def test_a_file_of_another_kind_is_left_alone(path: Path) -> None:
    path.write_bytes(b"these are my notes, not a database\n" * 100)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not an SQLite database"):
        Store.open(path)
    assert path.read_bytes() == before


def test_somebody_elses_database_is_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE recipes (name)")
    with pytest.raises(StoreError, match=r"other tables \(recipes\)"):
        Store.open(path)
    with pytest.raises(StoreError, match=r"other tables \(recipes\)"):
        upgrade(path)


def test_a_newer_schema_asks_for_a_newer_bench(path: Path) -> None:
    filled(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    for act in (Store.open, upgrade):
        with pytest.raises(StoreError, match="schema 9999, which is newer"):
            act(path)


def test_a_locked_database_says_so(path: Path) -> None:
    filled(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other, Store.open(path, busy_timeout_s=0.05) as store:
        other.execute("BEGIN IMMEDIATE")
        assert len(store.runs()) == 1
        with pytest.raises(StoreError, match="keeps it locked"):
            store.add_run(factories.run())
        other.execute("ROLLBACK")
        store.add_run(factories.run())


def test_a_read_only_disk_can_be_read_and_says_that_it_takes_no_rows(small_disk: Path) -> None:
    path = small_disk / "bench.db"
    run_id = filled(path)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(StoreError, match="read-only"):
        Store.open(path)
    with Store.open(path, read_only=True) as store:
        assert len(store.results([run_id])) == 1
        assert store.check() == []
    with pytest.raises(StoreError, match="read-only"):
        Store.open(small_disk / "new.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_without_write_permission_can_be_read(path: Path) -> None:
    run_id = filled(path)
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        with pytest.raises(StoreError, match="read-only"):
            Store.open(path)
        with Store.open(path, read_only=True) as store:
            assert len(store.results([run_id])) == 1
    finally:
        path.parent.chmod(0o755)


def test_a_full_disk_loses_nothing_and_work_goes_on_when_there_is_room(small_disk: Path) -> None:
    path = small_disk / "bench.db"
    run = factories.run()
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"\0" * 300_000)
    with Store.open(path) as store:
        store.add_run(run)
        kept: list[Result] = []
        with pytest.raises(StoreError, match="disk"):
            until_full(store, run.id, kept)
        assert kept
        assert store.results([run.id]) == kept
        ballast.unlink()
        last = factories.result(run.id, index=len(kept))
        assert store.add_result(last)
        assert store.results([run.id]) == [*kept, last]
        assert store.check() == []
    with Store.open(path) as store:
        assert store.results([run.id]) == [*kept, last]


def test_a_limit_of_the_database_itself_loses_nothing(path: Path) -> None:
    run = factories.run()
    with Store.open(path) as store:
        store.add_run(run)
        with store.writing() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 20}")
        kept: list[Result] = []
        with pytest.raises(StoreError, match="the disk is full"):
            until_full(store, run.id, kept)
        assert store.results([run.id]) == kept != []
        with store.writing() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 100000")
        assert store.add_result(factories.result(run.id, index=len(kept)))
        assert store.check() == []


def test_a_disk_that_is_full_from_the_start_leaves_no_half_database(small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(b"\0" * (1024 * 1024 - 40 * 1024))
    with pytest.raises(StoreError):
        Store.open(small_disk / "bench.db")
    (small_disk / "ballast").unlink()
    with Store.open(small_disk / "bench.db") as store:
        assert store.check() == []


def test_the_last_reader_leaves_one_whole_file(path: Path) -> None:
    writer = Store.open(path)
    reader = Store.open(path, read_only=True)
    assert reader.runs() == []
    run = factories.run()
    writer.add_run(run)
    assert reader.runs() == [run]
    writer.close()
    reader.close()
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    with Store.open(copy, read_only=True) as store:
        assert store.runs() == [run]


def test_a_damaged_file_is_a_finding_or_a_clear_error(path: Path) -> None:
    run = factories.run()
    with Store.open(path) as store:
        store.add_run(run)
        store.add_results([factories.result(run.id, index=index) for index in range(200)])
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 4096] = os.urandom(4096)
    path.write_bytes(bytes(data))
    assert "damaged" in findings_or_error(path)
