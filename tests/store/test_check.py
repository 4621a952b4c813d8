"""Every kind of damage that `check` promises to find."""

from __future__ import annotations

import pytest

from bench.records import RunState
from bench.store import Store
from tests import factories


@pytest.mark.parametrize(
    ("harm", "finding"),
    [
        ("UPDATE sample SET data = X'00FF'", "samples do not decode"),
        ("UPDATE sample SET encoding = 'float64-zlib', data = X'00FF'", "samples do not decode"),
        ("UPDATE sample SET encoding = 'morse'", "unknown encoding 'morse'"),
        ("DELETE FROM sample", "the 3 samples of time_s are missing"),
        ("UPDATE measurement SET n = 7 WHERE n > 1", "3 samples where n is 7"),
        ("UPDATE measurement SET median = 5 WHERE n > 1", "median of the samples is not the one stored"),
        ("UPDATE measurement SET median = NULL WHERE n = 1", "the only sample of peak_bytes is missing"),
        ("UPDATE log SET data = X'00'", "log does not decompress"),
        ("DELETE FROM measurement", "is ok but has no time_s"),
        ("DELETE FROM measurement", "rows of sample belong to no measurement"),
        ("UPDATE case_ SET dtype = 'fp8'", "has another content than its key says"),
        ("UPDATE case_param SET value = '9' WHERE name = 'batch'", "has another content than its key says"),
        ("UPDATE environment_item SET value = '\"99\"' WHERE name = 'python'", "has another content than its key says"),
        ("DELETE FROM run", "rows of result point to a run that is not there"),
        ("UPDATE alembic_version SET version_num = '0000'", "the schema is 0000"),
    ],
)
def test_damage_is_found(tmp_path, harm: str, finding: str) -> None:
    run = factories.run()
    with Store.open(tmp_path / "bench.db") as store:
        store.add_run(run)
        store.add_result(factories.result(run.id))
        assert store.check() == []
        with store._engines.writer.connect() as connection:
            connection.connection.driver_connection.executescript(f"PRAGMA foreign_keys=OFF; {harm};")
        assert any(finding in line for line in store.check()), store.check()


def test_a_row_of_the_interpreter_has_no_time_and_is_sound(store: Store) -> None:
    run = factories.run()
    store.add_run(run)
    peak = (factories.measurement("peak_bytes", (1024.0,)),)
    for device in ("cpu-interpreter", "cpu"):
        store.add_result(factories.result(run.id, factories.case(device=device), measurements=peak))
    assert len(store.check()) == 1, "the one on the CPU itself should have a time"


def test_a_run_that_nobody_finished_is_a_finding(store: Store) -> None:
    run = factories.run(state=RunState.RUNNING, finished_at=None)
    store.add_run(run)
    assert len(store.check()) == 1
    assert f"bench run --resume {run.id}" in store.check()[0]
