"""`bench.results`: the documented columns, from any database, without a price for who does not ask."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import bench
from bench import api
from bench.errors import SelectionError
from bench.records import FIXED_AXES
from bench.store import Store
from tests import factories
from tests.store.conftest import databases, new_url, postgresql, url  # noqa: F401 - fixtures


def test_the_package_offers_results_without_importing_what_they_need() -> None:
    heavy = ("pandas", "numpy", "sqlalchemy", "pydantic", "bench.api", "bench.store", "bench.run")
    code = f"import sys, bench; assert not [m for m in {heavy!r} if m in sys.modules]; print(bench.results.__module__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "bench.api"
    assert bench.results is api.results
    with pytest.raises(AttributeError, match="no attribute 'result'"):
        _ = bench.result  # type: ignore[attr-defined]


def test_every_column_is_documented_and_every_documented_column_is_there(url: str) -> None:  # noqa: F811
    with Store.open(url) as store:
        run = factories.run()
        store.add_run(run)
        case = factories.case(params={"seq_len": 128, "status": "a parameter of this name", "subject": 1})
        store.add_result(factories.result(run.id, case))
    frame = bench.results(url, metric=None)
    ours = set(frame.columns) - {"attention", "seq_len", "param_status", "param_subject"}
    documented = {word for word in (api.frame.__doc__ or "").split("`")[1::2] if word.isidentifier()}
    assert ours <= documented
    assert {*api._FIRST, *FIXED_AXES, *api._LAST} == ours
    assert list(frame["param_status"].unique()) == ["a parameter of this name"]


def test_one_sample_has_no_percentiles(url: str) -> None:  # noqa: F811
    with Store.open(url) as store:
        run = factories.run()
        store.add_run(run)
        store.add_result(factories.result(run.id))
    frame = bench.results(url, suite="attention", metric=["time_s", "peak_bytes"]).set_index("metric")
    assert frame.loc["time_s", "p05"] < frame.loc["time_s", "median"] < frame.loc["time_s", "p95"]
    assert frame.loc["peak_bytes", "n_samples"] == 1
    assert frame.loc["peak_bytes", ["p05", "p95"]].isna().all()


def test_a_run_without_rows_is_a_frame_with_columns_and_no_lines(tmp_path: Path) -> None:
    with Store.open(tmp_path / "bench.db") as store:
        store.add_run(factories.run())
    frame = bench.results(tmp_path / "bench.db", suite="attention")
    assert frame.empty
    assert {"median", "status", "metric"} <= set(frame.columns)


def test_a_name_that_nothing_answers_to_is_an_error_with_the_nearest_one(tmp_path: Path) -> None:
    path = tmp_path / "bench.db"
    with Store.open(path) as store:
        run = factories.run()
        store.add_run(run)
        store.add_result(factories.result(run.id))
    with pytest.raises(
        SelectionError, match=r"bench.db: unknown suite 'atention' \(did you mean 'attention'\?\); known: attention"
    ):
        bench.results(path, suite="atention")
    with pytest.raises(SelectionError, match="run latest is of suite attention, not rope"):
        bench.results(path, run="latest", suite="rope")
    with pytest.raises(SelectionError, match=r"unknown metric 'times_s' \(did you mean 'time_s'\?\)"):
        bench.results(path, metric=["time_s", "times_s"])
    assert bench.results(path, metric="energy_j")["n_samples"].sum() == 0
