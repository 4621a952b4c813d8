"""A temporary folder of each test's own, so that locks and leftovers of one test are no other test's business."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

USUAL_TEMPORARY_FOLDER = Path(tempfile.gettempdir())


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder
