"""The published equal runs of an H200, judged again from their rows: no alarm, and the power that the page beside them states."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.cli import main
from bench.judge.calibration import between
from bench.judge.evidence import Evidence, load_evidence
from bench.judge.resampled import NightlyCalibration, nightly
from bench.store import Store

PUBLISHED = Path(__file__).parent.parent.parent / "results" / "published" / "nvidia-h200"


@pytest.fixture(scope="module")
def equal_runs(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Evidence]:
    path = tmp_path_factory.mktemp("aa") / "aa.db"
    assert main(["db", "import", str(PUBLISHED / "aa.jsonl.xz"), "--db", str(path)]) == 0
    with Store.open(path, create=False, read_only=True) as store:
        return [load_evidence(store, [run]) for run in sorted(store.runs(), key=lambda run: run.started_at)]


def test_two_hundred_series_measured_twice_give_no_alarm(equal_runs: Sequence[Evidence]) -> None:
    found = between(equal_runs)
    assert found.rows + found.other_rows == 208
    assert (found.alarms, found.other_alarms) == (0, 0)


def test_nights_drawn_from_forty_processes_of_twenty_series_keep_what_is_promised(equal_runs: Sequence[Evidence]) -> None:
    drawn = nightly(equal_runs, nights=20_000, seed=1)
    assert (drawn.series, drawn.processes, drawn.nights) == (20, 40, 20_000)
    assert drawn.alarms_at_most <= 1.0
    assert _confirmed(drawn, 1.05) >= 0.95
    assert _confirmed(drawn, 1.03) >= 0.80
    told = (PUBLISHED / "false_alarms.md").read_text()
    assert f"{drawn.suspects} were suspect and {drawn.alarms} were called better or worse" in told
    assert f"+3 %: {_confirmed(drawn, 1.03):.1%}" in told


def _confirmed(drawn: NightlyCalibration, factor: float) -> float:
    (power,) = [power for power in drawn.power if power.factor == factor]
    return power.found / power.of
