"""Temporary folders: a living owner's stays, a dead one's is swept, and what was kept for a person is nobody's to sweep."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.run.folders import OWNER, FolderError, RunFolder, sweep

_DIE = "import os, sys\nfrom bench.run.folders import RunFolder\nprint(RunFolder(sys.argv[1]).path, flush=True)\nos._exit(1)\n"


def left_behind(kind: str = "") -> Path:
    done = subprocess.run([sys.executable, "-c", _DIE, kind], capture_output=True, text=True, check=False)
    path = Path(done.stdout.strip())
    assert path.is_dir()
    return path


def test_what_a_dead_process_left_is_swept_when_the_next_run_starts() -> None:
    one, two = left_behind(), left_behind("doctor-")
    assert two.is_dir()
    assert not one.exists(), "swept by the second"
    mine = RunFolder()
    assert not two.exists()
    assert (mine.path / OWNER).exists()
    mine.remove()
    assert not mine.path.exists()


def test_the_folder_of_a_living_process_stays(own_temporary_folder: Path) -> None:
    mine = RunFolder()
    code = f"from pathlib import Path; from bench.run.folders import sweep; print(len(sweep(Path({str(own_temporary_folder)!r}))))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "0\n"
    assert mine.path.is_dir()
    mine.remove()


def test_what_was_kept_and_what_others_put_there_is_not_swept(own_temporary_folder: Path) -> None:
    mine = RunFolder()
    mine.keep()
    (own_temporary_folder / "stepbench-notes").mkdir()
    (own_temporary_folder / "stepbench-file").write_text("x")
    assert sweep(own_temporary_folder) == []
    assert len(list(own_temporary_folder.iterdir())) == 3


@pytest.mark.parametrize("name", ["TMPDIR", "TEMP", "TMP"])
def test_a_folder_that_was_asked_for_and_cannot_be_used_is_not_passed_over_in_silence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.delenv("TMPDIR")
    monkeypatch.setenv(name, str(tmp_path / "gone"))
    with pytest.raises(FolderError, match=rf"{name} says .*gone, which cannot be used"):
        RunFolder()


def test_a_temporary_folder_that_is_none_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(FolderError, match=r"gone.* cannot be used.*TMPDIR"):
        RunFolder()
