"""What leaves the device still learns the same, by whichever optimizer, and what no library can move is refused in words.

On a CPU the host is the device: where bytes lie is not told apart, and prices are none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.workloads.sharded_steps import OFFLOADED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LEARN = [name for name in OFFLOADED if not name.startswith(("zero0 o", "zero2 p", "fsdp2 o", "none o"))]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> dict[str, Any]:
    """By case; DeepSpeed's own optimizer is compiled first where that is not done, without what a debugger needs: in half the time."""
    pytest.importorskip("deepspeed")
    folder, operators = tmp_path_factory.mktemp("offloaded"), pytestconfig.cache.mkdir("operators")
    compiler = operators / "c++"
    if not compiler.exists():
        compiler.write_text('#!/bin/sh\nexec c++ "$@" -g0\n')
        compiler.chmod(0o755)
    variables = {**os.environ, "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    variables |= {"CXX": str(compiler), "TORCH_EXTENSIONS_DIR": str(operators)}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.workloads.sharded_steps", "offloaded", str(folder)],
        capture_output=True, text=True, timeout=600, check=False, env=variables,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    read: dict[str, Any] = json.loads((folder / "0.json").read_text())
    return read


@pytest.mark.parametrize("name", LEARN)
def test_what_is_offloaded_learns_the_same(found: dict[str, Any], name: str) -> None:
    precision = OFFLOADED[name][0]
    assert "error" not in found[name], found[name]
    assert found[name]["losses"] == pytest.approx(found[f"alone {precision}"]["losses"], abs=1e-5 if precision == "fp32" else 2e-4)
    assert found[name]["unproved"] == {}


def test_what_no_library_moves_is_refused_in_words(found: dict[str, Any]) -> None:
    refused = {name: found[name]["error"] for name in OFFLOADED if name not in LEARN}
    assert all(error.startswith("Unsupported: ") for error in refused.values()), refused
    assert "zero1 to zero3 move states" in refused["zero0 optimizer_cpu adamw_foreach fp32"]


def test_the_settings_say_where_states_and_weights_went(found: dict[str, Any]) -> None:
    zero = json.loads(found["zero3 parameters_optimizer_cpu adamw_cpu_deepspeed fp32"]["facts"]["deepspeed_zero"])
    assert (zero["offload_optimizer"]["device"], zero["offload_param"]["device"]) == ("cpu", "cpu")
    assert zero["offload_optimizer"]["pin_memory"] is False  # there is nothing to copy to


def test_an_engine_that_is_let_go_of_leaves_no_bucket_in_the_peaks_of_another(found: dict[str, Any]) -> None:
    """The check of a small problem makes engines beside the one that is measured, and DeepSpeed's hooks keep all of an engine."""
    with_one, with_two, *afterwards = found["buckets left"]
    assert (with_two, afterwards) == (with_one + 1, [with_one, with_one])
