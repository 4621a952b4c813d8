"""What a worker remembers of a case, what it asks of a trial, and whom it lets stand in the way."""

from __future__ import annotations

import getpass
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.errors import HarnessError
from bench.machine import find_device
from bench.machine.nvml import open_nvml
from bench.records import Protocol, Reply, Status, Trial, canonical_json, dump
from bench.run.builds import Builds
from bench.run.classify import classify
from bench.run.folders import FolderError
from bench.run.forkserver import Ended
from bench.run.limits import invalid
from bench.run.ranks import Answer
from bench.run.supervisor import End, Outcome
from bench.run.worker import Measured, Worker, _for_each_rank
from tests.factories import case, measurement
from tests.machine.fake_nvml import Gpu, make
from tests.run.conftest import USUAL_TEMPORARY_FOLDER
from tests.run.laboratory import QUICK, Laboratory


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    return Worker(tmp_path, find_device("cpu"), threads=1, plugins=(), stop=lambda: False, notice=lambda _text: None)


TRIAL = Trial(case(), index=0, block=0, position=0)
GOOD = Reply(Status.OK, measurements=(measurement("compile_cold_s", (2.0,)), measurement()))


def asked(worker: Worker, trial: Trial = TRIAL) -> tuple[bool, bool]:
    """(cold, verify) of the request that the next trial would get."""
    request = json.loads((worker._prepare(trial, Protocol(), 1) / "request.json").read_text())
    return request["cold_caches"], request["verify"]


def test_a_case_counts_as_compiled_and_verified_once_its_row_is_kept(worker: Worker) -> None:
    assert asked(worker) == (True, True)
    assert asked(worker) == (True, True), "the trial before was thrown away, with its checks and its compile time"
    worker.keep(TRIAL, GOOD)
    assert asked(worker) == (False, False)
    assert asked(worker, Trial(case("other"), index=0, block=0, position=0)) == (True, True)


def test_a_row_without_a_cold_compile_time_or_with_another_status_leaves_it_to_the_next_trial(worker: Worker) -> None:
    hot = invalid(Measured(Answer(GOOD, None, ()), None, {}, "", 1.0), "clocks were held back")
    worker.keep(TRIAL, hot.answer.reply)
    assert asked(worker) == (True, True)
    worker.keep(TRIAL, Reply(Status.OOM, "too large"))
    assert asked(worker) == (True, True)
    worker.keep(TRIAL, Reply(Status.OK, measurements=(measurement(),)))
    assert asked(worker) == (True, False)


def test_a_cold_trial_finds_empty_caches_of_its_own_and_a_warm_one_those_of_its_case(worker: Worker) -> None:
    variables = worker.variables(TRIAL)
    other = worker.variables(Trial(case("other"), index=0, block=0, position=0))
    names = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUTE_DSL_CACHE_DIR", "FLASH_ATTENTION_CUTE_DSL_CACHE_DIR")
    assert all(variables[name] != other[name] for name in names)
    for shared in ("BENCH_CLOCK_CACHE_DIR", "BENCH_CURVES_DIR"):
        assert variables[shared] == other[shared]
    kernel = Path(variables["TRITON_CACHE_DIR"]) / "kernel"
    kernel.parent.mkdir(parents=True)
    kernel.write_text("compiled by a trial that was thrown away")
    asked(worker)
    assert not kernel.exists()
    kernel.parent.mkdir(parents=True)
    kernel.write_text("compiled by the first trial")
    worker.keep(TRIAL, GOOD)
    asked(worker)
    assert kernel.exists()
    worker.leave([TRIAL.case])
    assert not kernel.exists()


def test_the_folder_of_a_trial_that_was_thrown_away_is_removed(worker: Worker, tmp_path: Path) -> None:
    for _ in range(3):
        asked(worker)
    assert [path.name for path in tmp_path.glob("trial-*")] == ["trial-000003"]


def test_ranks_share_the_memory_of_their_trial() -> None:
    assert _for_each_rank(Protocol(host_memory_limit_bytes=900), 1).host_memory_limit_bytes == 900
    assert _for_each_rank(Protocol(host_memory_limit_bytes=900), 3).host_memory_limit_bytes == 300
    assert _for_each_rank(Protocol(), 1).host_memory_limit_bytes is None
    two, four = (_for_each_rank(Protocol(), count).host_memory_limit_bytes for count in (2, 4))
    assert two is not None
    assert four is not None
    assert 1.5 < two / four < 2.5


UNBUILT = """
from bench.declare import implementation

@implementation(workload="attention", devices=["cpu"], dtypes=["fp32"], builds=["an_operator"])
def unbuilt(spec):
    raise RuntimeError("never comes to this")
"""


def test_the_row_of_the_trial_before_waits_for_no_compiler_and_for_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them may take minutes, in which a power cut would cost a row that was measured."""
    order: list[str] = []

    def noted(what: str, answer: object = None) -> Callable[..., Any]:
        return lambda *_arguments, **_named: order.append(what) or answer

    def of(subject: str, device: str = "cpu") -> list[str]:
        order.clear()
        trial = Trial(case(subject, device=device), index=0, block=0, position=0)
        assert worker.measure(trial, Protocol(), 1, noted("the row")) is None
        return order

    (tmp_path / "unbuilt.py").write_text(UNBUILT)
    plugins = (str(tmp_path / "unbuilt.py"),)
    worker = Worker(tmp_path, find_device("cpu"), threads=1, plugins=plugins, stop=lambda: False, notice=lambda _text: None)
    monkeypatch.setattr(Builds, "_build", noted("a compiler"))
    monkeypatch.setattr("bench.run.worker.watch", noted("a fork", Outcome(End.INTERRUPT, Ended(-15), 0.0, 1.0)))
    server = SimpleNamespace(close=noted("a server's end"))
    monkeypatch.setattr(Worker, "_started", noted("a server", server))
    assert of("eager") == ["the row", "a server", "a fork"]
    assert of("eager") == ["a fork"], "a trial that is forked at once keeps no row waiting"
    assert of("unbuilt") == ["the row", "a compiler", "a fork"]
    assert of("unbuilt") == ["a fork"]
    assert of("eager", "cpu-interpreter") == ["the row", "a server's end", "a server", "a fork"]


def test_in_a_container_a_context_that_a_package_makes_at_its_import_is_no_strangers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVML's pids are the host's there: only who computed before the trial was forked is surely another."""
    for module in ("bench.run.worker", "bench.machine.conditions", "bench.machine.gpu_readings"):
        monkeypatch.setattr(f"{module}.host_pids", lambda: False)
    gpu = Gpu("GPU-a", processes=[999_999_998])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", make([gpu]))
    monkeypatch.setattr(Worker, "start", lambda *_: object())

    def watch(_server: object, directory: Path, *, once_begun: Callable[[], None], **_named: object) -> Outcome:
        gpu.processes.append(999_999_999)
        once_begun()
        (directory / "phases.jsonl").write_text('{"phase": "handover", "t": 0.0}\n')
        (directory / "reply.json").write_text(canonical_json(dump(Reply(Status.OK))))
        return Outcome(End.BY_ITSELF, Ended(0), 0.0, 1.0)

    monkeypatch.setattr("bench.run.worker.watch", watch)
    open_nvml.cache_clear()
    try:
        worker = Worker(tmp_path, find_device("cuda"), threads=1, plugins=(), stop=lambda: False, notice=lambda _text: None)
        measured = worker.measure(TRIAL, Protocol(), 1)
    finally:
        open_nvml.cache_clear()
    assert measured is not None
    assert measured.conditions["compute_processes_most"] == 2
    assert measured.conditions["other_compute_processes"] == ["unknown"]


def test_a_folder_that_takes_no_more_is_an_error_that_names_it(worker: Worker, tmp_path: Path) -> None:
    (tmp_path / "trial-000001").write_text("in the way")
    with pytest.raises(FolderError, match=rf"{tmp_path} takes no more.*TMPDIR"):
        asked(worker)


def test_our_own_failure_that_could_not_even_be_written_names_the_folder(tmp_path: Path) -> None:
    """A full disk is no bug of ours: there is something that a person can do."""
    trial = tmp_path / "trial"
    trial.mkdir()
    outcome = Outcome(End.BY_ITSELF, Ended(70), 0.0, 1.0)
    for world_size in (1, 2):
        with pytest.raises(FolderError, match=rf"{tmp_path} may be full.*could not even say why"):
            classify(outcome, trial, world_size=world_size, timeout_s=9.0)
    (trial / "harness_error").write_text("")
    with pytest.raises(FolderError, match=rf"{tmp_path} may be full.*could not even say why"):
        classify(outcome, trial, world_size=1, timeout_s=9.0)


def test_our_own_failure_for_want_of_room_names_the_folder_and_any_other_is_ours(tmp_path: Path) -> None:
    outcome = Outcome(End.BY_ITSELF, Ended(70), 0.0, 1.0)
    traced = "Traceback (most recent call last):\n  File ...\n"
    for last in ("OSError: [Errno 28] No space left on device", "OSError: [Errno 122] Disk quota exceeded: '/tmp/x'"):
        (tmp_path / "harness_error").write_text(f"{traced}{last}\n")
        with pytest.raises(FolderError, match=r"may be full: \[Errno \d+\].*TMPDIR"):
            classify(outcome, tmp_path, world_size=1, timeout_s=9.0)
    (tmp_path / "harness_error").write_text(f"{traced}OSError: [Errno 28] No space\nValueError: another\n")
    with pytest.raises(HarnessError, match="our own code failed"):
        classify(outcome, tmp_path, world_size=1, timeout_s=9.0)


@pytest.mark.usefixtures("shared_server")
def test_a_full_temporary_folder_stops_the_run_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    laboratory = Laboratory(tmp_path, ["eager", "sdpa_math"])
    prepare = Worker._prepare
    calls: list[int] = []

    def full(self: Worker, *arguments: object) -> Path:
        calls.append(1)
        if len(calls) == 2:
            raise self._no_room(OSError(28, "No space left on device"))
        return prepare(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Worker, "_prepare", full)
    with pytest.raises(FolderError, match=r"No space left[\s\S]*1 of 2 rows are stored. Then: bench run --resume"):
        laboratory.run()
    assert list(Path(tempfile.gettempdir()).glob("stepbench-*")) == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor on a CPU needs g++")
@pytest.mark.usefixtures("shared_server")
def test_each_case_compiles_into_empty_caches_first_and_finds_them_filled_later(tmp_path: Path, own_temporary_folder: Path) -> None:
    # Not in the caches of a case: what all kernels include is compiled, for ten seconds, once for a temporary folder.
    included = f"torchinductor_{getpass.getuser()}"
    (USUAL_TEMPORARY_FOLDER / included).mkdir(exist_ok=True)
    (own_temporary_folder / included).symlink_to(USUAL_TEMPORARY_FOLDER / included)
    laboratory = Laboratory(
        tmp_path, ["compiles"], plugins=["compiles"], sweep="seq_len: [16, 32]", protocol=QUICK.replace("trials: 1", "trials: 2")
    )
    rows = laboratory.run().results
    assert {row.status for row in rows} == {Status.OK}, [row.reason for row in rows]
    found = {(row.trial.block, row.trial.index): dict(line.split() for line in row.log.splitlines()[:2]) for row in rows}
    for block in (0, 1):
        assert found[block, 0]["before"] == "0"
        assert int(found[block, 0]["after"]) > 0
        assert int(found[block, 1]["before"]) > 0
    for row in rows:
        assert (row.measurement("compile_cold_s") is not None) is (row.trial.index == 0)


def test_files_of_the_folder_that_somebody_stands_in_take_no_packages_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bench", "torch", "json", "psutil"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong one')\n")
    laboratory = Laboratory(tmp_path, ["eager"], sweep="seq_len: [16], world_size: [1, 2]", protocol=QUICK)
    monkeypatch.chdir(tmp_path)
    summary = laboratory.run()
    assert summary.counts == {Status.OK: 2}, [row.reason for row in summary.results]
