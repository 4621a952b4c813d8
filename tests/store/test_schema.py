"""Migrations: the tables that they make are those of the models, and an upgrade never loses a row."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.errors import StoreError
from bench.records import Pass, RunState, Status
from bench.store import Store, schema, upgrade
from bench.store.models import Base
from tests import factories

NEWEST = schema.REVISIONS[-1]
LATER = '''
"""A column more, and a table rebuilt as SQLite needs it."""
import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{newest}"


def upgrade():
    rebuilt = "always" if op.get_bind().dialect.name == "sqlite" else "never"
    with op.batch_alter_table("run", recreate=rebuilt) as batch:
        batch.add_column(sa.Column("mood", sa.Text(), nullable=True))
    {then}
'''


def later_bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, then: str = "pass") -> None:
    """A bench with one more schema than today's."""
    scripts = tmp_path / "migrations"
    shutil.copytree(schema.MIGRATIONS, scripts)
    (scripts / "versions" / "9999_later.py").write_text(LATER.format(newest=NEWEST, then=then))
    monkeypatch.setattr(schema, "MIGRATIONS", scripts)
    monkeypatch.setattr(schema, "REVISIONS", (*schema.REVISIONS, "9999"))


def test_models_and_migrations_agree(store: Store) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with store.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_checks_of_models_and_migrations_agree(store: Store) -> None:
    from sqlalchemy import CheckConstraint, inspect

    with store.reading() as connection:
        for table in Base.metadata.sorted_tables:
            expected = {check.name for check in table.constraints if isinstance(check, CheckConstraint)}
            assert {check["name"] for check in inspect(connection).get_check_constraints(table.name)} == expected


def test_every_word_of_the_enumerations_can_be_stored(store: Store) -> None:
    """The CHECKs of the tables come from migrations, the words from the records: a new word needs a new migration."""
    for state in RunState:
        store.add_run(factories.run(state=state))
    run = factories.run()
    store.add_run(run)
    rows = [factories.result(run.id, index=number, status=status) for number, status in enumerate(Status)]
    rows += [factories.result(run.id, factories.case(pass_=pass_, seq_len=7)) for pass_ in Pass]
    assert store.add_results(rows) == len(rows)
    assert {row.id: (row.status, row.case.pass_) for row in store.results([run.id])} == {
        row.id: (row.status, row.case.pass_) for row in rows
    }


def test_the_list_of_schemas_is_that_of_the_files() -> None:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    scripts = ScriptDirectory.from_config(config)
    assert tuple(script.revision for script in reversed(list(scripts.walk_revisions()))) == schema.REVISIONS


def test_opening_a_database_does_not_import_alembic(tmp_path: Path) -> None:
    import subprocess
    import sys

    path = tmp_path / "bench.db"
    Store.open(path).close()
    code = "import sys; from bench.store import Store; Store.open(sys.argv[1]).close(); assert 'alembic' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


def test_an_older_schema_is_refused_until_it_is_upgraded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, url: str) -> None:
    run = factories.run()
    result = factories.result(run.id, status=Status.OOM)
    with Store.open(url) as store:
        store.add_run(run)
        store.add_result(result)
    later_bench(monkeypatch, tmp_path)
    for read_only in (True, False):
        with pytest.raises(StoreError, match=rf"older schema {NEWEST}; .*bench db upgrade"):
            Store.open(url, read_only=read_only)
    done = upgrade(url)
    assert (done.before, done.after) == (NEWEST, "9999")
    with Store.open(url) as store:
        assert store.results([run.id]) == [result]
        assert store.check() == []
    again = upgrade(url)
    assert (again.before, again.after, again.backup) == ("9999", "9999", None)
    if url.startswith("postgresql"):
        assert done.backup is None
        assert "pg_dump" in done.notices[0]
    else:
        assert done.backup is not None
        monkeypatch.undo()
        with Store.open(done.backup) as copy:
            assert copy.results([run.id]) == [result]


def test_an_upgrade_that_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, url: str) -> None:
    run = factories.run()
    with Store.open(url) as store:
        store.add_run(run)
    with monkeypatch.context() as patched:
        later_bench(patched, tmp_path, then="raise ZeroDivisionError")
        with pytest.raises(ZeroDivisionError):
            upgrade(url)
    with Store.open(url) as store:
        assert store.runs() == [run]
        assert store.check() == []


def test_an_upgrade_that_would_orphan_rows_changes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "bench.db"
    run = factories.run()
    with Store.open(path) as store:
        store.add_run(run)
        store.add_result(factories.result(run.id))
    with monkeypatch.context() as patched:
        later_bench(patched, tmp_path, then='op.execute("DELETE FROM run")')
        with pytest.raises(StoreError, match="would lose their parent"):
            upgrade(path)
    with Store.open(path) as store:
        assert len(store.results([run.id])) == 1


def test_a_missing_database_cannot_be_upgraded(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no database"):
        upgrade(tmp_path / "absent.db")


def test_a_database_knows_who_made_it(new_bare_url: Callable[[], str]) -> None:
    from sqlalchemy import text

    seen = set()
    for _ in range(2):
        with Store.open(new_bare_url()) as store, store.reading() as connection:
            facts = {row.key: row.value for row in connection.execute(text("SELECT key, value FROM meta"))}
        assert facts.keys() == {"database_id", "created_at", "created_by"}
        seen.add(facts["database_id"])
    assert len(seen) == 2
