"""What verdicts and histories call their rows: apart from each other, and not by what all of them share; at any width of a terminal."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench.cli import compare, history
from bench.cli.fitting import widest_line
from bench.cli.verdicts import row_namer
from bench.store import Store
from tests import factories
from tests.cli.conftest import Bench
from tests.report.step_sample import ARMS, step_case, step_run

STEPS = [step_case(arm, 1024) for arm in ARMS]


def test_steps_of_many_slots_are_named_by_those_that_differ() -> None:
    name = row_namer(STEPS[:3])
    assert [name(case) for case in STEPS[:3]] == [
        "attention=eager layers=eager", "attention=sdpa_flash layers=eager", "attention=sdpa_flash layers=liger"
    ]  # fmt: skip
    every = row_namer(STEPS)
    assert len({every(case) for case in STEPS}) == len(STEPS)


def test_slots_are_told_apart_within_their_own_workload_only() -> None:
    canary = dataclasses.replace(factories.case("torch_copy"), workload="copy", subject={"copy": "torch_copy"})
    alone = STEPS[0]
    name = row_namer([alone, canary])
    assert name(alone).startswith(f"{alone.subject_label} ")
    assert name(canary).startswith("torch_copy ")


@pytest.fixture
def steps(tmp_path: Path) -> str:
    """Two runs of training steps."""
    with Store.open(tmp_path / "steps.db") as store:
        for name, day in (("before", "01"), ("after", "02")):
            run, rows = step_run(sizes=(1024,))
            store.add_run(dataclasses.replace(run, id=name, label=name, started_at=f"2026-02-{day}T03:00:00+00:00"))
            store.add_results(dataclasses.replace(row, id=f"{name}-{row.id}", run_id=name) for row in rows)
    return str(tmp_path / "steps.db")


@pytest.mark.parametrize("room", [60, 80, 120])
def test_series_and_rows_of_a_comparison_fit_the_terminal_whole(
    bench: Bench, steps: str, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = row_namer(STEPS)
    for command, module in ((("history", "--metric", "time_s"), history), (("compare", "before", "after", "--all"), compare)):
        whole = bench(*command, "--db", steps).out
        monkeypatch.setattr(module, "terminal_columns", lambda: room)
        said = bench(*command, "--db", steps).out
        monkeypatch.undo()
        (start,) = [place for place, line in enumerate(said.splitlines()) if line.startswith(("series ", "verdict"))]
        table = "\n".join(said.splitlines()[start:]).split("\n\n")[0]
        assert widest_line(table) <= room
        for case in STEPS:
            assert names(case) in whole
            assert all(word in table for word in names(case).split())
