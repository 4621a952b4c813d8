"""Rows whose GPU others computed on, as commands tell them: not judged, not drawn, and said."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bench.cli.bisect import _conclude
from bench.cli.rerun import _medians
from bench.judge.bisect import Bisection
from bench.judge.compare import compare
from bench.judge.evidence import load_evidence
from bench.judge.shared_gpu import beside_of
from bench.store import Store
from tests import factories
from tests.cli.conftest import Bench
from tests.judge.test_shared_gpu import ALONE, BUSY, CASE, measured


def test_a_comparison_and_its_page_say_why_no_time_is_judged(bench: Bench, tmp_path: Path) -> None:
    database = tmp_path / "bench.db"
    with Store.open(database) as store:
        first, second = measured(store, 1e-2, [ALONE] * 3), measured(store, 5e-3, [BUSY] * 3)
    said = bench("compare", first.id, second.id, "--db", database)
    assert said.code == 3
    assert "the second side: other processes computed on its GPU in 3 of 3 trials" in " ".join(said.out.split())
    page = tmp_path / "page.html"
    bench("compare", first.id, second.id, "--format", "html", "--output", page, "--db", database)
    assert "computed on its GPU in 3 of 3 trials" in page.read_text()
    assert bench("verify", page).code == 0


def test_a_history_says_how_many_runs_gave_no_point(bench: Bench, tmp_path: Path) -> None:
    database = tmp_path / "bench.db"
    with Store.open(database) as store:
        runs = [measured(store, 1e-2, [ALONE] * 3, night=1), measured(store, 9e-2, [BUSY] * 3, night=2)]
    listed = bench("history", "--metric", "time_s", "--db", database)
    assert "1 of these series lack points" in listed.out
    key = re.search(r"\b[0-9a-f]{12}\b", listed.out)[0]  # type: ignore[index]
    shown = bench("history", key, "--metric", "time_s", "--db", database)
    assert "1 run gave no point, since other processes were on its GPU" in shown.out
    (told,) = json.loads(bench("history", key, "--metric", "time_s", "--json", "--db", database).out)
    assert told["runs_beside_others"] == [runs[1].id]


def test_a_series_with_no_number_that_counts_is_refused_with_the_reason(bench: Bench, tmp_path: Path) -> None:
    database = tmp_path / "bench.db"
    with Store.open(database) as store:
        measured(store, 1e-2, [BUSY] * 3)
    said = bench("history", "--metric", "time_s", "--db", database)
    assert (said.code, "other processes were on its GPU" in said.err) == (2, True)


def test_old_and_new_of_a_row_measured_again_are_told_without_what_others_disturbed() -> None:
    rows = [factories.result("run", CASE, index=index, conditions=BUSY) for index in range(3)]
    assert set(_medians(rows, beside_of(rows))) == {"peak_bytes"}
    assert set(_medians(rows, beside_of(()))) == {"peak_bytes", "time_s"}


def test_a_bisection_beside_others_does_not_say_that_nothing_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store.open(tmp_path / "bench.db") as store:
        sides = [load_evidence(store, [measured(store, 1e-2, [BUSY] * 3)]) for _ in range(2)]
    (difference,) = [one for one in compare(*sides).verdicts if one.series.metric == "time_s"]
    _conclude(Bisection(None, "run-1", difference, None))  # type: ignore[arg-type]
    said = capsys.readouterr().out
    assert "could not be told: the first side: other processes computed" in said
    assert "do not differ" not in said
