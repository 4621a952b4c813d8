"""A value that does not read: what commands say of it, and the way out that they name."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from bench.store import Store
from tests import factories
from tests.cli.conftest import Bench


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "bench.db"
    with Store.open(path) as store:
        for name, day in (("first", 2), ("second", 3)):
            run = factories.run(id=f"run-{name}", label=name, started_at=f"2026-01-0{day}T03:04:00+00:00")
            store.add_run(run)
            store.add_results([factories.result(run.id, index=n, id=f"result-{name}-{n}") for n in range(3)])
    return path


def harm(path: Path, statement: str) -> None:
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.executescript(f"PRAGMA foreign_keys=OFF; PRAGMA ignore_check_constraints=ON; {statement};")
    connection.close()


@pytest.mark.parametrize(
    ("statement", "commands"),
    [
        (
            "UPDATE result SET conditions = '{\"gpu_uuid\": broken' WHERE id = 'result-second-1'",
            [
                ["show", "latest"],
                ["report", "latest", "-o", "page.html"],
                ["show", "result-second-1"],
                ["compare", "first", "second"],
            ],
        ),
        (
            "UPDATE measurement SET median = 'abc' WHERE result_id = 'result-second-1' AND metric = 'peak_bytes'",
            [["show", "latest"], ["compare", "first", "second"], ["db", "export"]],
        ),
    ],
    ids=["conditions", "median"],
)
def test_the_row_and_the_way_out_are_named_and_the_way_out_works(
    bench: Bench, database: Path, monkeypatch: pytest.MonkeyPatch, statement: str, commands: list[list[str]]
) -> None:
    monkeypatch.chdir(database.parent)
    harm(database, statement)
    for command in commands:
        said = bench(*command, "--db", database)
        assert said.code == 2, (command, said)
        assert "result result-second-1 does not read: " in said.err, said.err
        assert "bug" not in said.err
    checked = bench("db", "check", "--db", database)
    assert (checked.code, checked.out.count("does not read")) == (2, 1)

    way_out = ["db", "exclude", "result-second-1", "--reason", "does not read"]
    assert " ".join(way_out[:3]) in bench("show", "latest", "--db", database).err
    assert bench(*way_out, "--db", database).out == "1 row is excluded now: does not read\n"
    assert "that reason stays: does not read" in bench(*way_out, "--db", database).out
    for command in commands:
        said = bench(*command, "--db", database)
        if command == ["show", "result-second-1"]:
            assert (said.code, "all but this row, which is excluded" in said.err) == (2, True)
        else:
            assert said.code in (0, 3), (command, said)
            assert ("left out: result result-second-1" in said.err) is (command[0] != "compare")
    bench("db", "export", "-o", "all.jsonl", "--db", database)
    told = bench("db", "import", "all.jsonl", "--db", "new.db")
    assert "2 runs and 5 results are new, 0" in told.out
    assert bench("db", "check", "--db", "new.db").out == "new.db is sound: 2 runs with 5 results\n"


def test_a_run_that_does_not_read_is_named_and_the_others_are_exported(bench: Bench, database: Path) -> None:
    harm(database, "UPDATE run SET state = 'sleeping' WHERE id = 'run-second'")
    said = bench("show", "--db", database)
    assert said.code == 2
    assert "run run-second does not read: run.state is 'sleeping', no RunState" in said.err
    assert "bench db export RUN -o FILE" in said.err
    assert bench("db", "export", "run-first", "--db", database).code == 0
    checked = bench("db", "check", "--db", database)
    assert (checked.code, checked.out) == (2, "run run-second does not read: run.state is 'sleeping', no RunState\n")


def test_an_import_says_how_many_rows_are_not_ok(bench: Bench, tmp_path: Path) -> None:
    from tests.store.test_importers import liger_file, liger_line

    file = liger_file(tmp_path / "all.csv", liger_line(metric_unit="parsec"), liger_line(metric_unit="parsec", x_value=128))
    said = bench("db", "import", file, "--db", tmp_path / "bench.db")
    assert "1 run and 2 results are new (2 of them not ok), 0 and 0 were there" in said.out
