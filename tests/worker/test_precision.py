"""How fp32 products are rounded, in processes of their own: the switches belong to the whole process."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from bench.errors import Unsupported
from bench.worker.precision import set_precision

LOOK = """
import json, os, sys, torch
from bench.worker.precision import set_precision
for asked in sys.argv[1:]:
    set_precision(asked, "cuda")
print(json.dumps([
    torch.backends.cuda.matmul.fp32_precision, torch.backends.cuda.matmul.allow_tf32, torch.get_float32_matmul_precision(),
    torch.backends.cudnn.conv.fp32_precision == "tf32", torch.backends.cudnn.rnn.fp32_precision == "tf32",
    torch.backends.cudnn.allow_tf32, os.environ.get("NVIDIA_TF32_OVERRIDE"),
]))
"""

OFF = ["ieee", False, "highest", False, False, False, None]
ON = ["tf32", True, "high", True, True, True, None]


@pytest.mark.parametrize("environment", [{}, {"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1", "NVIDIA_TF32_OVERRIDE": "1"}])
@pytest.mark.parametrize(("asked", "expected"), [(["fp32"], OFF), (["bf16"], OFF), (["tf32"], ON), (["tf32", "fp32"], OFF)])
def test_the_dtype_decides_alone_and_without_a_warning(
    asked: list[str], expected: list[object], environment: dict[str, str]
) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", LOOK, *asked],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == expected


@pytest.mark.parametrize("device", ["cpu", "cpu-interpreter"])
def test_a_cpu_has_no_tf32(device: str) -> None:
    with pytest.raises(Unsupported, match="tf32"):
        set_precision("tf32", device)
