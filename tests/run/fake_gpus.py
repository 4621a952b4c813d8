"""Pretends that this host has GPUs, which all compute on its CPU: whatever else a run on several GPUs does is real.

`python -m tests.run.fake_gpus run …` is `bench run …` on such a host, and `… part …` is what it starts for each GPU.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import asdict

import bench.machine
from bench.errors import DeviceError
from bench.machine import nvml
from bench.machine.device import Device

COUNT_VARIABLE = "BENCH_TEST_GPUS"
_real_find_device = bench.machine.find_device


class FakeGpu(Device):
    """The CPU under the name of a GPU."""

    @property
    def lock_name(self) -> str:
        return f"gpu-{self.uuid}"

    @property
    def torch_name(self) -> str:
        return f"cuda:{self.index}"


def find_device(choice: str = "auto") -> Device:
    asked = re.fullmatch(r"cuda(?::(\d+))?", choice)
    if asked is None:
        return _real_find_device(choice)
    index, count = int(asked[1] or 0), int(os.environ.get(COUNT_VARIABLE, "2"))
    if index >= count:
        raise DeviceError(f"{choice} was asked for; visible GPUs: cuda:0 to cuda:{count - 1}")
    host = asdict(_real_find_device("cpu"))
    return FakeGpu(**{**host, "index": index, "uuid": f"GPU-{index}", "name": f"Pretended GPU {index}"})


def main(arguments: list[str]) -> int:
    # Before the modules that take their names from there.
    bench.machine.find_device = find_device
    nvml.visible_gpus = lambda variables=None: list(range(int(os.environ.get(COUNT_VARIABLE, "2"))))
    if arguments[0] == "part":
        from bench.run import part

        return part.main(arguments[1:])
    from bench.cli import main as cli
    from bench.run import gpus

    gpus.PART = ("-m", "tests.run.fake_gpus", "part")
    return cli(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
