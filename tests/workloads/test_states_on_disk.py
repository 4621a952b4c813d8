"""States on disk have a folder of their process, and what dead ones left goes first. Operators are never compiled in a trial."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.declare import Unavailable
from bench.workloads.offloading._files import remove, states_folder, stored_on_disk
from bench.workloads.offloading._operators import is_built, require_built


def test_each_process_has_a_folder_and_sweeps_those_of_the_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_OFFLOAD_DIR", str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    dead, alive = tmp_path / f"stepbench-states-{ended.pid}", tmp_path / f"stepbench-states-{os.getppid()}"
    for folder in (dead, alive):
        folder.mkdir()
        (folder / "left").write_bytes(b"x")
    own = states_folder()
    assert own == tmp_path / f"stepbench-states-{os.getpid()}"
    assert not dead.exists()
    assert alive.exists()
    (own / "deeper").mkdir()
    (own / "deeper" / "states").write_bytes(b"abc")
    assert stored_on_disk(own) == 3
    remove(own)
    assert not own.exists()


def test_an_operator_that_is_not_compiled_is_unavailable_with_the_command_that_compiles_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", os.environ["PATH"])
    with pytest.raises(Unavailable, match=r"python -m bench\.worker\.build cpu cpu_adam"):
        require_built("cpu_adam")
    (tmp_path / "cpu_adam").mkdir(exist_ok=True)
    (tmp_path / "cpu_adam" / "cpu_adam.so").touch()
    assert is_built("cpu_adam")
    (tmp_path / "cpu_adam" / "lock").touch()
    assert not is_built("cpu_adam")  # somebody is at it, or died at it: loading would wait without an end
