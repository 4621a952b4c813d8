"""A plug-in that imports torch at its top is used, and its author told what that costs; what it prints is in no JSON of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.suite.conftest import PLAIN

ROOT = Path(__file__).parents[2]
PLUGIN = """
import torch
from bench.declare import implementation

@implementation(workload="attention")
def heavy(spec): ...
"""


@pytest.mark.parametrize("words", [("list", "implementations", "--json"), ("run", "suite.yaml", "--device", "cpu", "--dry-run")])
def test_a_heavy_plugin_is_told_on_stderr_once(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "torch.py").write_text("print('a banner')\n")
    (tmp_path / "heavy.py").write_text(PLUGIN)
    subjects = {"attention": ["eager", "heavy"]}
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump({**PLAIN, "subjects": subjects}, sort_keys=False))
    done = subprocess.run(
        [sys.executable, "-m", "bench", *words, "--plugin", "heavy.py"],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path / 'site'}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    banner, notice = (line for line in done.stderr.splitlines() if "banner" in line or "heavy.py" in line)
    assert banner == "a banner"
    assert notice.startswith(
        f"bench: {tmp_path / 'heavy.py'}: importing it imports torch too, so every command that reads it takes "
    )
    assert "banner" not in done.stdout
    if "--json" in words:
        assert "heavy" in {row["name"] for row in json.loads(done.stdout)}
