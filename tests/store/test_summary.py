"""The short form of published results."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from bench.records import Status
from bench.store import summary_rows, write_summary
from tests import factories


def test_a_row_holds_medians_over_trials() -> None:
    results = [factories.result(index=index, time_s=time_s) for index, time_s in enumerate((3.0, 1.0, 2.0))]
    (row,) = summary_rows(results)
    assert row["case"] == {**results[0].case.point_data(), "subject": {"attention": "eager"}}
    assert (row["status"], row["trials"], row["world_size"], row["statuses"]) == ("ok", 3, 1, {"ok": 3})
    assert row["medians"] == {"time_s": 2.0 * 1.01, "peak_bytes": 2**20}
    assert row["command"] == results[0].command
    assert "reason" not in row


def test_a_trial_that_failed_shows_in_the_status_and_the_rest_keeps_its_time() -> None:
    results = [factories.result(time_s=1.0), factories.result(index=1, status=Status.TIMEOUT)]
    (row,) = summary_rows(results)
    assert (row["status"], row["statuses"], row["reason"]) == ("timeout", {"ok": 1, "timeout": 1}, "because it is timeout")
    assert row["medians"]["time_s"] == 1.01


def test_a_case_with_wrong_numbers_has_no_time() -> None:
    (row,) = summary_rows([factories.result(), factories.result(index=1, status=Status.INCORRECT)])
    assert (row["status"], row["medians"]) == ("incorrect", {})


def test_excluded_results_do_not_count_and_cases_stay_apart(tmp_path: Path) -> None:
    results = [
        factories.result(of=factories.case("eager")),
        factories.result(of=factories.case("flash"), status=Status.UNAVAILABLE),
        factories.result(of=factories.case("eager"), index=1, excluded_reason="too warm"),
    ]
    write_summary(tmp_path / "new" / "attention.summary.json.gz", results)
    rows = json.loads(gzip.decompress((tmp_path / "new" / "attention.summary.json.gz").read_bytes()))
    assert rows == summary_rows(results)
    assert [(row["case"]["subject"]["attention"], row["status"], row["trials"]) for row in rows] == [
        ("eager", "ok", 1),
        ("flash", "unavailable", 1),
    ]
