"""States on disk have a folder of their engine, and what dead ones left goes first. Operators are never compiled in a trial."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.declare import Unavailable
from bench.workloads.offloading._files import StatesFolder
from bench.workloads.offloading._operators import is_built, require_built


def test_a_folder_of_states_goes_when_its_owner_has_died_and_stays_while_he_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a lock and not by a process number: the owner here keeps its number, and what it held is let go of by its end alone."""
    monkeypatch.setenv("BENCH_OFFLOAD_DIR", str(tmp_path))
    code = (
        "import time; from bench.workloads.offloading._files import StatesFolder as S; print(S().path, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        theirs = Path(owner.stdout.readline().strip())
        assert theirs.parent == tmp_path
        (theirs / "states").write_bytes(b"x")
        StatesFolder().remove()
        assert theirs.exists()
        owner.kill()
    nobodys = tmp_path / "stepbench-states-kept"
    nobodys.mkdir()  # without a lock file: being made, or kept by somebody
    own = StatesFolder()
    assert not theirs.exists()
    assert nobodys.exists()
    (own.path / "deeper").mkdir()
    (own.path / "deeper" / "states").write_bytes(b"abc")
    assert own.stored_bytes() == 3
    other = StatesFolder()  # of a second engine in this process
    assert other.path != own.path
    assert own.path.exists()
    for folder in (own, other):
        folder.remove()
    assert [path.name for path in tmp_path.iterdir()] == ["stepbench-states-kept"]


def test_a_place_that_takes_no_folder_makes_states_on_disk_unavailable_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("BENCH_OFFLOAD_DIR", str(tmp_path / "file"))
    with pytest.raises(Unavailable, match="takes no folder for states: File exists; set BENCH_OFFLOAD_DIR to a folder on a disk"):
        StatesFolder()


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
