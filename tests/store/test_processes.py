"""Several processes on one database, and processes that die while they write."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.records import RunState
from bench.store import Store
from tests import factories

WRITER = """
import sys
from bench.store import Store, new_id
from tests import factories
import dataclasses

url, run_id, first, count, stride = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
with Store.open(url) as store:
    print("ready", flush=True)
    for index in range(first, first + count * stride, stride):
        store.add_result(dataclasses.replace(factories.result(run_id, index=index), id=new_id()))
        print(index, flush=True)
"""

ROOT = Path(__file__).parents[2]


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True, cwd=ROOT)


def test_two_writers_lose_nothing(url: str) -> None:
    run = factories.run()
    with Store.open(url) as store:
        store.add_run(run)
    # Both also try each other's last trials, as two resumes of one run would.
    writers = [start(WRITER, url, run.id, 0, 60, 1), start(WRITER, url, run.id, 40, 60, 1)]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.close()
    with Store.open(url) as store:
        assert sorted(result.trial.index for result in store.results([run.id])) == list(range(100))
        assert store.check() == []


CROWD_WRITER = """
import dataclasses, sys
from bench.store import Store, new_id
from tests import factories

url, shared_id, number, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with Store.open(url) as store:
    own = factories.run(id=new_id(), label=f"writer {number}")
    store.add_run(own)
    for index in range(count):
        # Cases and environments that others insert at the same moment, and some that nobody else has.
        case = factories.case(f"subject-{index % 3}", seq_len=index if index % 5 == 0 else 128)
        for run_id, place in ((own.id, index), (shared_id, number * count + index)):
            result = factories.result(run_id, case, index=place, environment=factories.environment(turn=index % 4))
            assert store.add_result(dataclasses.replace(result, id=new_id()))
"""


@pytest.mark.slow
def test_a_crowd_of_writers_loses_nothing(url: str) -> None:
    writers, each = (12, 15) if url.startswith("postgresql") else (8, 15)
    shared = factories.run()
    with Store.open(url) as store:
        store.add_run(shared)
    crowd = [start(CROWD_WRITER, url, shared.id, number, each) for number in range(writers)]
    assert [writer.wait(timeout=240) for writer in crowd] == [0] * writers
    for writer in crowd:
        assert writer.stdout is not None
        writer.stdout.close()
    with Store.open(url) as store:
        assert len(store.runs()) == writers + 1
        for run in store.runs():
            rows = store.results([run.id])
            assert sorted(row.trial.index for row in rows) == list(range(writers * each if run.id == shared.id else each))
        assert store.check() == []


def test_many_processes_may_make_the_database_at_once(new_bare_url: Callable[[], str]) -> None:
    url = new_bare_url()
    opener = "import sys; from bench.store import Store; print(Store.open(sys.argv[1]).check())"
    openers = [start(opener, url) for _ in range(4)]
    outputs = [process.communicate(timeout=120)[0] for process in openers]
    assert [process.returncode for process in openers] == [0] * 4
    assert outputs == ["[]\n"] * 4


@pytest.mark.slow
def test_a_writer_killed_at_any_moment_leaves_a_sound_database_with_all_that_it_reported(tmp_path: Path) -> None:
    url = str(tmp_path / "bench.db")
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    moments = random.Random(seed)
    run = factories.run(state=RunState.RUNNING, finished_at=None)
    with Store.open(url) as store:
        store.add_run(run)
    reported: set[int] = set()
    for kill in range(20):
        writer = start(WRITER, url, run.id, kill * 1000, 1000, 1)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(moments.uniform(0.0, 0.15))
        writer.send_signal(signal.SIGKILL)
        reported |= {int(line) for line in writer.stdout.read().split("\n") if line.strip()}
        writer.wait()
        writer.stdout.close()
        with Store.open(url) as store:
            findings = store.check()
            assert [finding for finding in findings if "marked running" not in finding] == []
            assert len(findings) == 1
            stored = {result.trial.index for result in store.results([run.id])}
        # At most the row in flight may be there without having been reported.
        assert reported <= stored
        assert len(stored - reported) <= kill + 1
    assert reported


def test_a_process_killed_while_it_makes_the_database_leaves_a_fresh_one(tmp_path: Path) -> None:
    code = """
import os, signal, sys
from bench.store import Store, schema
migrate = schema._migrate
def dying(connection):
    migrate(connection)
    os.kill(os.getpid(), signal.SIGKILL)
schema._migrate = dying
Store.open(sys.argv[1])
"""
    path = tmp_path / "bench.db"
    process = start(code, path)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    with Store.open(path) as store:
        assert store.check() == []
