"""Databases of every schema that was ever released: refused with advice, copied, upgraded, and not a row is lost.

`released/NUMBER.db.gz` was made by the bench of its day and is never made anew; `released/NUMBER.jsonl` is its own export of the same rows.
"""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bench.errors import StoreError
from bench.store import Store, schema, upgrade

FOLDER = Path(__file__).with_name("released")


def exported(store: Store, path: Path) -> list[str]:
    store.export_jsonl(path)
    return path.read_text(encoding="utf-8").splitlines()[1:]


def test_every_schema_but_the_newest_has_a_stored_database() -> None:
    stored = {path.name.removesuffix(".db.gz") for path in FOLDER.glob("*.db.gz")}
    assert set(schema.REVISIONS[:-1]) <= stored <= set(schema.REVISIONS)


@pytest.mark.parametrize("revision", schema.REVISIONS[:-1])
def test_a_database_of_an_older_release_is_refused_copied_and_upgraded_without_loss(revision: str, tmp_path: Path) -> None:
    path = tmp_path / "bench.db"
    path.write_bytes(gzip.decompress((FOLDER / f"{revision}.db.gz").read_bytes()))
    with pytest.raises(StoreError, match=rf"older schema {revision}; .*bench db upgrade"):
        Store.open(path)

    done = upgrade(path)

    assert (done.before, done.after) == (revision, schema.REVISIONS[-1])
    expected = (FOLDER / f"{revision}.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    with Store.open(path) as store:
        assert [finding for finding in store.check() if "marked running" not in finding] == []
        assert exported(store, tmp_path / "after.jsonl") == expected
    assert done.backup is not None
    with closing(sqlite3.connect(done.backup)) as copy:
        assert copy.execute("SELECT version_num FROM alembic_version").fetchall() == [(revision,)]


@pytest.mark.parametrize("revision", schema.REVISIONS[:-1])
def test_an_older_database_on_a_server_is_upgraded_without_loss(
    revision: str, databases: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlalchemy import MetaData, create_engine, insert, select

    url = databases.take().replace("postgresql:", "postgresql+psycopg:")
    with monkeypatch.context() as then:
        then.setattr(schema, "REVISIONS", schema.REVISIONS[: schema.REVISIONS.index(revision) + 1])
        Store.open(url).close()
    path = tmp_path / "bench.db"
    path.write_bytes(gzip.decompress((FOLDER / f"{revision}.db.gz").read_bytes()))
    stored, server, tables = create_engine(f"sqlite:///{path}"), create_engine(url), MetaData()
    with stored.connect() as source, server.begin() as target:
        tables.reflect(target)
        for table in tables.sorted_tables:
            rows = [dict(row._mapping) for row in source.execute(select(table))]
            if rows and table.name not in ("alembic_version", "meta"):
                target.execute(insert(table), rows)
    stored.dispose()
    server.dispose()
    with pytest.raises(StoreError, match=rf"older schema {revision}; .*bench db upgrade"):
        Store.open(url)

    done = upgrade(url)

    assert (done.before, done.after, done.backup) == (revision, schema.REVISIONS[-1], None)
    assert "pg_dump" in done.notices[0]
    with Store.open(url) as store:
        assert (
            exported(store, tmp_path / "after.jsonl") == (FOLDER / f"{revision}.jsonl").read_text(encoding="utf-8").splitlines()[1:]
        )
    databases.empty()


@pytest.mark.parametrize("revision", schema.REVISIONS[:-1])
def test_an_upgraded_database_has_the_tables_of_a_fresh_one(revision: str, tmp_path: Path) -> None:
    upgraded, fresh = tmp_path / "upgraded.db", tmp_path / "fresh.db"
    upgraded.write_bytes(gzip.decompress((FOLDER / f"{revision}.db.gz").read_bytes()))
    upgrade(upgraded)
    Store.open(fresh).close()

    def tables(path: Path) -> set[tuple[str, str, tuple[str, ...]]]:
        with closing(sqlite3.connect(path)) as database:
            found = database.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_master").fetchall()
        # A rebuilt table may name its columns and constraints, a line each, in another order.
        lines = {name: sorted(line.strip(" \t,") for line in sql.replace('"', "").splitlines()) for _, name, sql in found}
        return {(kind, name, tuple(lines[name])) for kind, name, _ in found}

    assert tables(upgraded) == tables(fresh)


@pytest.mark.parametrize("revision", schema.REVISIONS[:-1])
def test_an_export_of_an_older_release_is_read_into_every_kind_of_database(revision: str, url: str, tmp_path: Path) -> None:
    source = FOLDER / f"{revision}.jsonl"
    with Store.open(url) as store:
        assert store.import_file(source).conflicts == ()
        assert exported(store, tmp_path / "after.jsonl") == source.read_text(encoding="utf-8").splitlines()[1:]
