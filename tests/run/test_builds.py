"""Operators are compiled outside of trials: what cannot be is a row that says why, and a dead compilation holds nobody up."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bench.machine.interpreter import python, python_environment
from bench.processes import descendants
from bench.records import Status
from bench.run.builds import Builds
from bench.worker.build import pass_lock, remove_stale_lock
from tests.factories import case
from tests.run.laboratory import Laboratory

PLUGIN = """
from bench.declare import implementation

@implementation(workload="attention", devices=["cpu"], dtypes=["fp32"], builds=["no_such_operator"])
def unbuilt(spec):
    raise RuntimeError("never comes to this")
"""


@pytest.mark.usefixtures("shared_server")
def test_a_case_whose_operator_cannot_be_compiled_is_unavailable_and_the_others_are_measured(tmp_path: Path) -> None:
    (tmp_path / "unbuilt.py").write_text(PLUGIN)
    laboratory = Laboratory(tmp_path, ["eager", "unbuilt"])
    options = dataclasses.replace(laboratory.options, plugins=(str(tmp_path / "unbuilt.py"),))
    told: list[str] = []
    rows = {
        row.case.subject_label: row for row in laboratory.run(options, progress=lambda progress: told.append(progress.text)).results
    }
    assert rows["eager"].status is Status.OK
    assert rows["unbuilt"].status is Status.UNAVAILABLE
    assert (rows["unbuilt"].reason or "").startswith("compiling no_such_operator ended with 2: usage:")
    assert any("compiling no_such_operator for cpu" in text for text in told)


def test_an_operator_is_tried_once_a_run(tmp_path: Path) -> None:
    (tmp_path / "unbuilt.py").write_text(PLUGIN)
    told: list[str] = []
    builds = Builds(tmp_path, (str(tmp_path / "unbuilt.py"),), stop=lambda: False, notice=told.append)
    wanted = case("unbuilt")
    assert builds.may_take_long(wanted)
    first = builds.trouble(wanted, python_environment())
    assert first is not None
    assert builds.trouble(wanted, python_environment()) == first
    assert len(told) == 1
    assert not builds.may_take_long(wanted)
    assert not builds.may_take_long(case("eager"))
    assert builds.trouble(case("eager"), python_environment()) is None


def test_a_missing_compiler_is_told_with_what_to_install() -> None:
    environment = {**python_environment(), "CXX": "/no/such/compiler"}
    ended = subprocess.run(
        python("-m", "bench.worker.build", "cpu", "cpu_adam"),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 3
    assert ended.stdout.splitlines()[-1].startswith("no C++ compiler (/no/such/compiler): install one, such as apt-get install g++")


def test_the_lock_of_a_compilation_that_died_is_removed_and_that_of_a_living_one_stays(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    assert not remove_stale_lock(tmp_path, pause_s=0.0)
    lock.touch()
    code = "import time; print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        assert not remove_stale_lock(tmp_path, pause_s=0.0)
        assert lock.exists()
        worker.kill()
    assert remove_stale_lock(tmp_path, pause_s=0.0)
    assert not lock.exists()


def test_who_dies_at_his_compilation_while_another_waits_for_it_holds_him_up_no_longer(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    code = "import time; print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        killed: list[bool] = []

        def kill() -> None:
            killed.append(True)
            worker.kill()

        threading.Timer(0.5, kill).start()
        assert pass_lock(tmp_path, pause_s=0.05)
        assert killed
    assert not lock.exists()
    assert not pass_lock(tmp_path)


def test_a_compilation_goes_with_a_run_that_is_quit_at_once(tmp_path: Path) -> None:
    (tmp_path / "unbuilt.py").write_text(PLUGIN)

    def quit_at_once() -> bool:
        raise KeyboardInterrupt

    before = {process.pid for process in descendants(os.getpid())}
    builds = Builds(tmp_path, (str(tmp_path / "unbuilt.py"),), stop=quit_at_once, notice=lambda text: None)
    with pytest.raises(KeyboardInterrupt):
        builds.trouble(case("unbuilt"), dict(os.environ))
    assert {process.pid for process in descendants(os.getpid())} <= before


def test_a_compilation_ends_when_the_run_is_asked_to_stop(tmp_path: Path) -> None:
    (tmp_path / "unbuilt.py").write_text(PLUGIN)
    builds = Builds(tmp_path, (str(tmp_path / "unbuilt.py"),), stop=lambda: True, notice=lambda text: None)
    assert builds.trouble(case("unbuilt"), dict(os.environ)) is None
