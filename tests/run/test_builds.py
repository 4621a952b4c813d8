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
from bench.worker.build import headers_of_wheels, libraries_of, missing_tools, pass_lock, remove_stale_lock, what_failed
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


@pytest.mark.parametrize("toolkit", [None, "a runtime alone"])
def test_a_missing_cuda_compiler_is_told_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolkit: str | None
) -> None:
    """A toolkit's folder may hold libraries and no compiler, as images for running alone have it."""
    monkeypatch.setattr("torch.utils.cpp_extension.CUDA_HOME", toolkit and str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda tool: f"/usr/bin/{tool}")
    said = missing_tools("fused_adam") or ""
    assert said.startswith("no CUDA compiler (nvcc)")
    assert (str(tmp_path) in said) == (toolkit is not None)
    assert "install the CUDA toolkit that torch was built for, or name its folder in CUDA_HOME" in said
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvcc").touch()
    assert (missing_tools("fused_adam") is None) == (toolkit is not None)


def test_of_a_failed_compilation_the_line_that_says_what_is_wrong_is_told() -> None:
    output = [
        "Error building extension 'fused_adam': [1/3] nvcc -Wno-error -c multi_tensor_adam.cu -o multi_tensor_adam.cuda.o",
        "FAILED: [code=1] multi_tensor_adam.cuda.o",
        "nvcc -Wno-error -c multi_tensor_adam.cu -o multi_tensor_adam.cuda.o",
        "ATen/cuda/CUDAContextLight.h:10:10: fatal error: cusparse.h: No such file or directory",
        "   10 | #include <cusparse.h>",
        "ninja: build stopped: subcommand failed.",
    ]
    assert what_failed(RuntimeError("\n".join(output))) == output[3]
    for line in ("/bin/sh: 1: /usr/local/cuda/bin/nvcc: not found", "/usr/bin/ld: cannot find -lcudart"):
        assert what_failed(RuntimeError("\n".join([*output[:3], line]))) == line
    assert what_failed(RuntimeError("no module of this name")) == "RuntimeError: no module of this name"
    assert what_failed(RuntimeError("")) == "RuntimeError: "


def test_headers_of_cuda_libraries_are_those_of_the_wheels_that_torch_requires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From CUDA 13 on all share a folder, which is named after it; before that each library has its own."""
    for name in ("cu13", "cublas", "cusparse"):
        (tmp_path / "nvidia" / name / "include").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)
    assert headers_of_wheels("13.0") == [str(tmp_path / "nvidia" / "cu13" / "include")]
    assert headers_of_wheels("12.8") == [str(tmp_path / "nvidia" / name / "include") for name in ("cublas", "cusparse")]
    assert headers_of_wheels(None) == []


def test_libraries_are_those_of_the_toolkit_behind_a_wrapper(tmp_path: Path) -> None:
    wrapper = tmp_path / "nvcc"
    wrapper.write_text(
        "#!/bin/sh\n"
        """echo '#$ LIBRARIES=  "-L/opt/cuda/bin/../lib/stubs" "-L/opt/cuda/bin/../lib"' >&2\n"""
        "exit 1\n"
    )
    wrapper.chmod(0o755)
    assert libraries_of(wrapper) == ["/opt/cuda/lib"]
    assert libraries_of(None) == []


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
