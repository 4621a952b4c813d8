"""Calls the command line in this process, and a database with a run in it that nobody had to measure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.cli import main
from bench.records import Result, Run, Status
from bench.store import Store
from tests import factories


@dataclass(frozen=True)
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str


Bench = Callable[..., Said]


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str]) -> Bench:
    """`bench("show", "latest")` as typed."""

    def call(*arguments: str | Path) -> Said:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Said(code, captured.out, captured.err)

    return call


@dataclass(frozen=True)
class Filled:
    """A database with one run: two sizes, one subject that ran and one that ran out of memory."""

    path: Path
    run: Run
    results: tuple[Result, ...]


@pytest.fixture
def filled(tmp_path: Path) -> Filled:
    path = tmp_path / "results.db"
    run = factories.run(label="nightly", planned_trials=4)
    results = tuple(
        factories.result(run.id, factories.case(subject, seq_len=size), time_s=size * 1e-5, **changes)
        for size in (128, 256)
        for subject, changes in (("eager", {}), ("sdpa_flash", {"status": Status.OOM}))
    )
    with Store.open(path) as store:
        store.add_run(run)
        for result in results:
            store.add_result(result)
    return Filled(path, run, results)
