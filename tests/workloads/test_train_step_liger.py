"""Liger's kernels in the slots of a training step, on a CPU under Triton's interpreter: a process of its own, which must begin so."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

PARTS = ("rms_norm", "rope", "swiglu", "linear_cross_entropy")

SCRIPT = """
import json
import sys

import torch
import triton

from bench.worker import triton_interpreter

triton_interpreter.complete()

from tests.workloads.training import losses, step_of, training


def curve(fills, **shape):
    return losses(step_of(training(fills=fills, seq_len=8, **shape)), 2)


parts = dict.fromkeys(sys.argv[1:], "liger")
print(json.dumps({
    "plain": curve({}),
    **{name: curve({name: "liger"}) for name in parts},
    "all": curve(parts),
    "all, checkpointed": curve({**parts, "checkpointing": "full"}),
    "qwen3": curve({}, architecture="qwen3"),
    "all in qwen3": curve(parts, architecture="qwen3"),
}))
"""


@pytest.mark.slow
def test_every_part_of_liger_learns_as_the_eager_one_does() -> None:
    pytest.importorskip("liger_kernel")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, *PARTS]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    assert ended.returncode == 0, ended.stderr[-3000:]
    curves = json.loads(ended.stdout.splitlines()[-1])
    for name, found in curves.items():
        expected = curves["qwen3" if "qwen3" in name else "plain"]
        assert found == pytest.approx(expected, abs=3e-6), name
    assert curves["qwen3"] != curves["plain"]
