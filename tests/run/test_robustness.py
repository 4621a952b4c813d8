"""Subjects that misbehave: each is a row with the right status and reason, and none leaves a process or harms the next trial."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest

from bench.records import Result, Status
from bench.run import RunSummary
from bench.store import Store
from tests.run.laboratory import QUICK, Laboratory, marked

BAD = [
    "wrong", "raises", "hungry", "segfaults", "exits", "exits_badly", "leaves_by_exception", "floods", "hangs", "leaves_a_child",
    "lies", "needy", "whispers",
]  # fmt: skip
TOKEN = "very-secret-0123456789"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("robust")


@pytest.fixture(scope="module")
def summary(folder: Path) -> RunSummary:
    protocol = QUICK.replace("timeout_s: 60", "timeout_s: 8").replace("}", ", host_memory_limit: 1GiB}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_TEST_TOKEN", TOKEN)
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", None)
        laboratory = Laboratory(folder, ["right", *BAD], plugins=["right", *BAD], protocol=protocol)
        return laboratory.run()


@pytest.fixture(scope="module")
def rows(summary: RunSummary) -> dict[str, Result]:
    return {row.case.subject_label: row for row in summary.results}


def test_every_planned_trial_has_a_row_and_the_run_exits_with_0(summary: RunSummary, rows: dict[str, Result]) -> None:
    assert len(rows) == summary.planned == len(BAD) + 1
    assert summary.exit_code == 0


def test_a_right_plugin_is_ok_and_carries_time_memory_and_what_the_harness_cost(rows: dict[str, Result]) -> None:
    row = rows["right"]
    assert row.status is Status.OK, row.reason
    for metric in ("time_s", "peak_bytes", "fork_s", "overhead_s", "sampling_s", "check_s"):
        assert row.measurement(metric) is not None, metric


def test_a_wrong_plugin_is_incorrect_and_shows_no_time(rows: dict[str, Result]) -> None:
    assert rows["wrong"].status is Status.INCORRECT
    assert rows["wrong"].measurement("time_s") is None
    assert any(not check.passed for check in rows["wrong"].checks)


def test_a_plugin_that_raises_is_failed_with_its_words_and_its_traceback_in_the_log(rows: dict[str, Result]) -> None:
    row = rows["raises"]
    assert row.status is Status.FAILED
    assert "seven is not enough" in (row.reason or "")
    assert "ArithmeticError" in (row.error_type or "")
    assert "raises.py" in row.log


def test_a_plugin_that_allocates_without_end_is_oom(rows: dict[str, Result]) -> None:
    assert rows["hungry"].status is Status.OOM, rows["hungry"].reason


def test_a_segmentation_fault_is_crashed_with_its_signal_and_phase_and_the_stack_in_the_log(rows: dict[str, Result]) -> None:
    row = rows["segfaults"]
    assert row.status is Status.CRASHED
    assert row.reason == "killed by SIGSEGV in phase first_call"
    assert row.phase == "first_call"
    assert "Segmentation fault" in row.log


@pytest.mark.parametrize(("name", "code"), [("exits", 0), ("exits_badly", 7)])
def test_a_plugin_that_ends_the_process_is_crashed_whatever_status_it_gives(rows: dict[str, Result], name: str, code: int) -> None:
    assert rows[name].status is Status.CRASHED
    assert rows[name].reason == f"ended with status {code} in phase first_call without a reply"


def test_a_plugin_that_raises_system_exit_is_failed(rows: dict[str, Result]) -> None:
    assert rows["leaves_by_exception"].status is Status.FAILED


def test_a_megabyte_of_output_is_ok_and_its_log_is_stored_short_with_head_and_tail(rows: dict[str, Result]) -> None:
    row = rows["floods"]
    assert row.status is Status.OK, row.reason
    assert len(row.log) < 70_000
    assert re.search(r"\[\.\.\. \d+ bytes left out \.\.\.\]", row.log)


def test_a_hang_is_a_timeout_and_its_grandchild_in_another_session_that_ignores_term_is_gone(rows: dict[str, Result]) -> None:
    row = rows["hangs"]
    assert row.status is Status.TIMEOUT
    assert "in phase first_call" in (row.reason or "")
    grandchild = re.search(r"grandchild (\d+)", row.log)
    assert grandchild is not None
    assert not Path(f"/proc/{grandchild[1]}").exists()


def test_a_child_that_a_good_trial_leaves_behind_is_gone(rows: dict[str, Result]) -> None:
    row = rows["leaves_a_child"]
    assert row.status is Status.OK, row.reason
    grandchild = re.search(r"grandchild (\d+)", row.log)
    assert grandchild is not None
    assert not Path(f"/proc/{grandchild[1]}").exists()


def test_a_plugin_that_lies_about_its_kernel_is_incorrect_and_shows_no_time(rows: dict[str, Result]) -> None:
    row = rows["lies"]
    assert row.status is Status.INCORRECT
    assert row.proof is not None
    assert row.proof.verdict == "disproved"
    assert row.measurement("time_s") is None


def test_a_plugin_whose_package_is_absent_is_unavailable_and_says_what_to_install(rows: dict[str, Result]) -> None:
    assert rows["needy"].status is Status.UNAVAILABLE
    assert "no-such-package" in (rows["needy"].reason or "")


def test_a_secret_of_the_environment_is_in_no_row_and_not_in_the_database(rows: dict[str, Result]) -> None:
    row = rows["whispers"]
    assert row.status is Status.FAILED
    assert "[secret]" in (row.reason or "")
    assert "the word is" in row.log
    for result in rows.values():
        assert TOKEN not in repr(result)


def test_nothing_is_left_running_and_no_trial_directory_stays(folder: Path, summary: RunSummary) -> None:
    assert marked(str(folder)) == []
    assert list(folder.glob("stepbench-*/trial-*")) == []


def test_rows_of_misbehaving_subjects_come_back_from_the_database_as_they_were(folder: Path, summary: RunSummary) -> None:
    with Store.open(folder / "bench.db") as store:
        assert {row.id: row for row in store.results([summary.run_id])} == {row.id: row for row in summary.results}
        assert store.check() == []


@pytest.mark.usefixtures("shared_server")
def test_a_log_that_grows_without_end_is_failed(tmp_path: Path) -> None:
    (row,) = Laboratory(tmp_path, ["drowns"], plugins=["drowns"]).run().results
    assert row.status is Status.FAILED
    assert row.reason is not None
    assert row.reason.startswith("wrote more than 32 MiB to its log")
    assert len(row.log) < 70_000
