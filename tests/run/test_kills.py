"""SIGKILL to the trial, to the fork server and to the parent at random moments: the database stays whole, and resume completes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from bench.processes import descendants
from bench.records import RunState, Status
from bench.store import Store
from tests.run.laboratory import QUICK, command_line, marked

_SHORT = QUICK.replace("max_sampling_s: 0.2", "max_sampling_s: 0.02").replace("max_warmup_s: 0.1", "max_warmup_s: 0.02")


def _start(folder: Path, trials: int, run_ids: list[str]) -> subprocess.Popen[bytes]:
    protocol = _SHORT.replace("trials: 1", f"trials: {trials}")
    arguments = [str(folder), "eager sdpa_flash", "", protocol, *run_ids]
    log = (folder / "parent.log").open("ab")
    with log:
        return subprocess.Popen([sys.executable, "-m", "tests.run.laboratory", *arguments], stdout=log, stderr=log)


def _target(parent: subprocess.Popen[bytes], role: str) -> int | None:
    if role == "parent":
        return parent.pid
    below = [process for process in descendants(parent.pid) if not process.zombie]
    servers = [process.pid for process in below if process.parent == parent.pid and b"bench.worker.server" in command_line(process)]
    wanted = servers if role == "server" else [process.pid for process in below if process.parent in servers]
    return wanted[0] if wanted else None


def _roles(kills: int, chance: random.Random) -> list[str]:
    """Whom to kill, in an order of chance. A trial costs a fork, a server or a parent seconds until torch is imported again."""
    rarer = max(1, kills // 10)
    roles = ["server", "parent"] * rarer + ["trial"] * (kills - 2 * rarer)
    chance.shuffle(roles)
    return roles


def _torment(folder: Path, kills: int, trials: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Kills at random until `kills` have hit, starting the parent again by resuming; then lets the last run finish."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    roles = _roles(kills, chance)
    hits: Counter[str] = Counter()
    run_ids: list[str] = []
    parent: subprocess.Popen[bytes] | None = None
    trial_seen = False
    while True:
        if parent is None or parent.poll() is not None:
            if hits.total() >= kills and parent is not None and parent.returncode == 0:
                return hits, run_ids
            assert parent is None or parent.returncode in (0, -signal.SIGKILL), (folder / "parent.log").read_text()[-4000:]
            run_ids = _unfinished(folder)
            parent = _start(folder, trials, run_ids)
        if hits.total() >= kills:
            parent.wait(240)
            continue
        # A server takes seconds to start and milliseconds to fork: three of four kills wait until a trial runs, or most would hit imports.
        if not trial_seen and _target(parent, "trial") is None:
            time.sleep(0.1)
            continue
        trial_seen = True
        time.sleep(chance.uniform(0.0, chance.choice([0.02, 0.2, 0.6])))
        target = _target(parent, roles[-1])
        if target is None or parent.poll() is not None:
            trial_seen = chance.random() < 0.25
            continue
        try:
            os.kill(target, signal.SIGKILL)
        except ProcessLookupError:
            continue
        role = roles.pop()
        hits[role] += 1
        if role == "parent":
            parent.wait(60)
        trial_seen = chance.random() < 0.25


def _unfinished(folder: Path) -> list[str]:
    if not (folder / "bench.db").exists():
        return []
    with Store.open(folder / "bench.db") as store:
        return [run.id for run in store.runs() if run.state is not RunState.FINISHED][:1]


def _examine(folder: Path) -> Counter[Status]:
    """Every run is finished, every planned trial has one row, and nothing lives any more."""
    statuses: Counter[Status] = Counter()
    with Store.open(folder / "bench.db") as store:
        assert store.check() == []
        for run in store.runs():
            assert run.state is RunState.FINISHED
            rows = store.results([run.id], include_excluded=True)
            assert len(rows) == run.planned_trials
            assert len({(row.case.key, row.trial.index) for row in rows}) == run.planned_trials
            statuses.update(row.status for row in rows)
    deadline = time.monotonic() + 20
    while (alive := marked(str(folder))) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert alive == []
    return statuses


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_after_50_kills_at_random_moments_the_database_is_whole_and_resume_completes_with_no_row_twice(
    own_temporary_folder: Path,
) -> None:
    hits, _ = _torment(own_temporary_folder, kills=50, trials=60, seed=random.randrange(10**6))
    statuses = _examine(own_temporary_folder)
    print(hits, statuses)
    assert min(hits[role] for role in ("trial", "server", "parent")) > 0
    assert set(statuses) <= {Status.OK, Status.CRASHED}
    assert statuses[Status.OK] > statuses[Status.CRASHED]


@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
def test_after_1000_kills_at_random_moments_the_database_is_whole(own_temporary_folder: Path) -> None:
    _torment(own_temporary_folder, kills=1000, trials=500, seed=random.randrange(10**6))
    _examine(own_temporary_folder)
