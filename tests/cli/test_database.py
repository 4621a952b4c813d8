"""`bench db …` and the commands that read, on SQLite and on PostgreSQL alike; and a password that must come through nowhere."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from bench.records import Result, Run, RunState, Status
from bench.store import Store, new_id
from tests import factories
from tests.cli.conftest import Bench
from tests.store.conftest import databases, new_url, postgresql, url  # noqa: F401 - fixtures
from tests.store.test_importers import liger_file, liger_line

ROOT = Path(__file__).parent.parent.parent
OLD = "2020-01-02T03:04:00+00:00"


def fill(store: Store, trials: int = 2, **changes: object) -> tuple[Run, list[Result]]:
    run = factories.run(id=new_id(), planned_trials=trials, **changes)
    store.add_run(run)
    rows = [dataclasses.replace(factories.result(run.id, index=n), id=new_id()) for n in range(trials)]
    store.add_results(rows)
    return run, rows


@pytest.fixture
def filled_url(url: str) -> tuple[str, Run, list[Result]]:  # noqa: F811
    with Store.open(url) as store:
        run, rows = fill(store, label="nightly", started_at=OLD)
        failed = dataclasses.replace(factories.result(run.id, factories.case("sdpa_flash"), status=Status.OOM), id=new_id())
        store.add_result(failed)
    return url, run, [*rows, failed]


def test_reading_commands_say_the_same_on_every_kind_of_database(
    bench: Bench, filled_url: tuple[str, Run, list[Result]], tmp_path: Path
) -> None:
    database, run, rows = filled_url
    listed = bench("show", "--db", database)
    assert (listed.code, listed.err) == (0, "")
    assert run.id in listed.out
    shown = bench("show", "nightly", "--db", database)
    assert "eager" in shown.out
    assert "2 ok, 1 oom" in shown.out
    assert rows[0].id in bench("show", rows[0].id[:30], "--db", database).out
    assert bench("db", "check", "--db", database).out.endswith("is sound: 1 run with 3 results\n")
    assert bench("report", "latest", "--db", database, "-o", tmp_path / "report.html").code == 0
    assert rows[2].reason in (tmp_path / "report.html").read_text()
    data = json.loads(bench("report", "nightly", "--format", "json", "-o", "-", "--db", database).out)
    assert json.dumps(data).count(run.id) >= 1
    frame = __import__("bench.api", fromlist=["results"]).results(database, suite="attention")
    assert sorted(frame["status"]) == ["ok", "ok", "oom"]


def test_judging_commands_say_the_same_on_every_kind_of_database(bench: Bench, url: str, tmp_path: Path) -> None:  # noqa: F811
    started = [f"2026-01-0{day}T00:00:00+00:00" for day in (1, 2)]
    ids = [new_id(), new_id()]
    made = [
        (
            factories.run(id=ids[day], started_at=started[day]),
            [factories.result(ids[day], index=n, time_s=1e-3 * (1 + day)) for n in range(3)],
        )
        for day in (0, 1)
    ]
    said: list[list[str]] = []
    for database in (url, str(tmp_path / "other.db")):
        with Store.open(database) as store:
            for run, rows in made:
                store.add_run(run)
                store.add_results(rows)
        assert bench("baseline", "set", "good", ids[0], "--reason", "first", "--db", database).code == 0
        compared = bench("compare", "good", ids[1], "--format", "json", "--db", database)
        assert (compared.code, "worse" in compared.out) == (1, True)
        listed = bench("history", "--json", "--db", database)
        series = json.loads(listed.out)[0]["series"]
        commands = (["history", series], ["regress"], ["plan", "--validate"], ["baseline", "list", "--json"])
        told = [bench(*command, "--db", database).out for command in commands]
        said.append([compared.out, listed.out, *(text.replace(database, "DB") for text in told[:-1])])
        assert ids[0] in told[-1]
    assert said[0] == said[1]


def test_what_is_exported_from_one_kind_is_imported_into_the_other(
    bench: Bench, filled_url: tuple[str, Run, list[Result]], tmp_path: Path
) -> None:
    database, run, rows = filled_url
    assert bench("db", "export", "-o", tmp_path / "out.jsonl.gz", "--db", database).code == 0
    said = bench("db", "import", tmp_path / "out.jsonl.gz", "--db", tmp_path / "other.db")
    assert (said.code, "1 run and 3 results are new (1 of them not ok)" in said.out) == (0, True)
    with Store.open(tmp_path / "other.db") as store:
        assert {row.id for row in store.results([run.id])} == {row.id for row in rows}
    assert json.loads(bench("db", "import", tmp_path / "out.jsonl.gz", "--db", database, "--json").out)[0]["results_same"] == 3


def test_databases_are_merged_and_conflicts_exit_with_2(
    bench: Bench,
    filled_url: tuple[str, Run, list[Result]],
    new_url: Callable[[], str],  # noqa: F811
) -> None:
    database, run, rows = filled_url
    other = new_url()
    with Store.open(other) as store:
        fill(store)
    said = bench("db", "merge", database, other, "--db", (target := new_url()))
    assert said.code == 0, said.err
    assert said.out.count("1 run and") == 2
    with Store.open(other) as store:
        store.add_run(run)
        store.add_result(dataclasses.replace(rows[0], duration_s=99.0))
    said = bench("db", "merge", other, "--db", target)
    assert said.code == 2
    assert f"result {rows[0].id} is stored with other content" in said.err
    data = json.loads(bench("db", "merge", other, "--db", target, "--json").out)
    assert (data[0]["results_same"], len(data[0]["conflicts"])) == (2, 1)
    assert "name another one" in bench("db", "merge", target, "--db", target).err


def test_a_database_that_is_not_there_is_not_merged(bench: Bench, tmp_path: Path) -> None:
    said = bench("db", "merge", tmp_path / "absent.db", "--db", tmp_path / "bench.db")
    assert (said.code, "no database at" in said.err, "Traceback" in said.err) == (2, True, False)


def test_rows_and_runs_are_excluded_and_the_first_reason_stays(bench: Bench, filled_url: tuple[str, Run, list[Result]]) -> None:
    database, _, rows = filled_url
    assert "1 row is excluded now: too warm" in bench("db", "exclude", rows[0].id, "--reason", "too warm", "--db", database).out
    said = bench("db", "exclude", "nightly", "--reason", "the fan was blocked", "--db", database)
    assert "2 rows are excluded now: the fan was blocked\n1 was excluded before, and that reason stays: too warm" in said.out
    data = json.loads(bench("db", "exclude", rows[0].id, "--reason", "again", "--db", database, "--json").out)
    assert data == {"excluded": 0, "already": {rows[0].id: "too warm"}}
    assert "3 set aside" in bench("show", "nightly", "--db", database).out
    assert bench("db", "exclude", "nobody", "--reason", "x", "--db", database).code == 2
    assert "needs a reason" in bench("db", "exclude", "nightly", "--reason", " ", "--db", database).err


def test_old_samples_go_but_not_those_of_pinned_runs(bench: Bench, filled_url: tuple[str, Run, list[Result]]) -> None:
    database, run, rows = filled_url
    assert bench("db", "pin", "--db", database).out == "no run is pinned\n"
    assert bench("db", "pin", "nightly", "--reason", "baseline of March", "--db", database).code == 0
    assert "1 old run is pinned and stays whole" in bench("db", "gc", "--db", database).out
    assert f"{run.id}  " in bench("db", "pin", "--db", database).out
    assert bench("db", "pin", "nightly", "--remove", "--db", database).out == "no run is pinned\n"
    dry = bench("db", "gc", "--dry-run", "--db", database)
    assert dry.out.startswith("would drop the samples of 2 measurements (0.0 MiB) and 3 logs (0.0 MiB) of 3 results")
    with Store.open(database) as store:
        assert len(store.find_result(rows[0].id).measurements[0].samples) == 3
    done = json.loads(bench("db", "gc", "--db", database, "--json").out)
    assert (done["dry_run"], done["samples"], done["logs"]) == (False, 2, 3)
    assert "the median of 3, mean" in bench("show", rows[0].id, "--db", database).out
    assert bench("db", "check", "--db", database).code == 0
    assert bench("report", "nightly", "--format", "markdown", "-o", "-", "--db", database).code == 0


def test_a_pin_needs_a_reason_or_an_end(bench: Bench, filled_url: tuple[str, Run, list[Result]]) -> None:
    for words in ([], ["--reason", "x", "--remove"]):
        assert "either --reason TEXT or --remove" in bench("db", "pin", "nightly", *words, "--db", filled_url[0]).err


def test_what_is_published_is_pinned(bench: Bench, tmp_path: Path) -> None:
    with Store.open(tmp_path / "bench.db") as store:
        run, _ = fill(store)
    assert bench("db", "publish", run.id, "-o", tmp_path / "published", "--db", tmp_path / "bench.db").code == 0
    with Store.open(tmp_path / "bench.db") as store:
        assert [pin.reason for pin in store.pins()] == [f"published in {tmp_path / 'published'}"]


def test_rows_of_other_tools_are_shown_and_reported_as_theirs(bench: Bench, url: str, tmp_path: Path) -> None:  # noqa: F811
    memory = liger_line(metric_name="memory", metric_unit="MB")
    path = liger_file(tmp_path / "all.csv", liger_line(), memory, liger_line(kernel_provider="torch", y_value_50="nan"))
    said = bench("db", "import", path, "--db", url)
    assert (said.code, "1 run and 2 results are new" in said.out) == (0, True)
    listed = bench("show", "--db", url).out
    assert "imported:liger" in listed
    run = json.loads(bench("show", "--json", "--db", url).out)[0]["id"]
    assert f"bench show {run} --db" in said.out, "one that tells no start stands last among many"
    shown = bench("show", run, "--db", url).out
    assert "liger:swish" in shown
    assert "1 ok, 1 invalid" in shown
    row = json.loads(bench("show", run, "--json", "--db", url).out)["results"][0]["id"]
    one = bench("show", row, "--db", url).out
    for words in ("measured_by = liger", "not_told = ", "one number, the median of calls", "# the source does not tell how"):
        assert words in one
    assert bench("report", run, "--db", url, "-o", tmp_path / "report.html").code == 0
    page = (tmp_path / "report.html").read_text()
    assert "liger:swish" in page
    assert "measured_by" in page
    assert "--format" in bench("db", "import", ROOT / "README.md", "--db", url).err


def test_a_database_of_a_newer_bench_is_refused_by_every_command(bench: Bench, filled_url: tuple[str, Run, list[Result]]) -> None:
    from sqlalchemy import text

    database = filled_url[0]
    with Store.open(database) as store, store.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for command in (["show"], ["report"], ["db", "check"], ["db", "gc"], ["db", "export"], ["db", "upgrade"]):
        said = bench(*command, "--db", database)
        assert said.code == 2, command
        assert "schema 9999, which is newer than this bench" in said.err
        assert "Traceback" not in said.err


# --- the password ----------------------------------------------------------------------------------------------------------------

TINY = """
schema: 1
name: tiny
question: Which norm is faster?
workload: rms_norm
subjects: {rms_norm: [eager]}
sweep: {model: [tiny], seq_len: [64], batch: [1], dtype: [fp32], pass: [forward]}
protocol: {trials: 1, max_sampling_s: 0.1}
"""
PASSWORD = "s3s@me/open:8d1f%"


@pytest.mark.slow
@pytest.mark.usefixtures("shared_server")
def test_the_password_of_the_url_is_in_no_output_no_report_and_no_table(
    postgresql: str,  # noqa: F811
    bench: Bench,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server trusts anybody, so any password will do: what counts is where it turns up."""
    import psycopg

    with psycopg.connect(f"{postgresql}/postgres", autocommit=True) as connection:
        connection.execute("CREATE DATABASE secretive")
    server = postgresql.replace("postgresql://", "").replace("bench@", f"bench:{quote(PASSWORD, safe='')}@")
    database = f"postgresql+psycopg://{server}/secretive"
    (tmp_path / "tiny.yaml").write_text(TINY)
    told: dict[str, str] = {}

    monkeypatch.chdir(tmp_path)

    def typed(*arguments: str, code: int = 0) -> None:
        """As a process of its own: what libraries write themselves counts too."""
        done = subprocess.run(
            [sys.executable, "-m", "bench", *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        told[" ".join(arguments)] = done.stdout + done.stderr
        assert done.returncode == code, done.stdout + done.stderr

    def called(*arguments: str, code: int = 0) -> str:
        said = bench(*arguments)
        told[" ".join(arguments)] = said.out + said.err
        assert said.code == code, said.out + said.err
        return said.out

    measure = ["run", "tiny.yaml", "--device", "cpu"]
    typed(*measure, "--db", database, "--report", "run.html")
    row = json.loads(called("show", "latest", "--json", "--db", database))["results"][0]["id"]
    called("rerun", row, "--db", database)
    for command in (
        ["show"],
        ["show", "latest"],
        ["show", row],
        ["db", "check"],
        ["db", "export", "-o", "out.jsonl"],
        ["db", "gc"],
        ["db", "upgrade"],
    ):
        called(*command, "--db", database)
    for kind in ("html", "markdown", "json", "csv"):
        called("report", "latest", "--format", kind, "-o", f"report.{kind}", "--db", database)
    called("db", "pin", "latest", "--reason", f"as in {database}", "--db", database)
    called("db", "exclude", row, "--reason", f"see {database}", "--db", database)
    called("db", "merge", database, "--db", "merged.db")
    # Mistakes.
    called("show", "nobody", "--db", database, code=2)
    called("show", "--db", database.replace("/secretive", "/absent"), code=2)
    called("show", "--db", database.replace("secretive", "secretive?password=" + quote(PASSWORD, safe="")), code=0)
    typed("show", "--db", database.replace("@127.0.0.1:", "@127.0.0.1:1"), code=2)
    called("show", "--db", database.replace("postgresql+psycopg", "oracle"), code=2)
    called("db", "merge", database.replace("/secretive", "/absent"), "--db", "merged.db", code=2)
    monkeypatch.setenv("BENCH_DB", database)
    called("show", "latest")
    called(*measure, "--dry-run")

    files = {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with psycopg.connect(f"{postgresql}/secretive") as connection:
        names = [name for (name,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
        assert "result" in names
        tables = {name: str(connection.execute(f'SELECT * FROM "{name}"').fetchall()) for name in names}  # type: ignore[call-overload]
    for spelled in (PASSWORD, quote(PASSWORD, safe=""), quote(PASSWORD), json.dumps(PASSWORD)[1:-1]):
        assert [where for where, text in {**told, **tables}.items() if spelled in text] == []
        assert [where for where, content in files.items() if spelled.encode() in content] == []


def test_runs_in_progress_are_told_by_the_check(bench: Bench, url: str) -> None:  # noqa: F811
    with Store.open(url) as store:
        fill(store, state=RunState.RUNNING, finished_at=None)
    said = bench("db", "check", "--db", url)
    assert said.code == 2
    assert "is marked running, and no process of this host works on it" in said.out


def test_a_run_is_exported_for_pytest_benchmark(bench: Bench, filled_url: tuple[str, Run, list[Result]], tmp_path: Path) -> None:
    database = filled_url[0]
    out = tmp_path / "out.json"
    said = bench("db", "export", "nightly", "--format", "pytest-benchmark", "-o", out, "--db", database)
    assert said.code == 0
    assert "1 cases have no time and are left out" in said.err
    assert json.loads(out.read_text())["benchmarks"][0]["stats"]["rounds"] == 2
    assert "holds one run: name one" in bench("db", "export", "--format", "pytest-benchmark", "--db", database).err
