"""Compiles an operator of DeepSpeed, once on a machine: `python -m bench.worker.build cpu cpu_adam`.

Outside trials, since it takes from half a minute to several. A compilation that was killed leaves a file `lock` behind, for which every
later one waits without a word and without an end; once nobody is at work in the operator's folder it is removed.

Exit status: 0 it is there; 3 it cannot be had here, and the last line of output says what to install.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
import traceback
from pathlib import Path

from bench.workloads.offloading._operators import extension_folder, tools_in_reach

ABSENT = 3
LOOK_TWICE_S = 2.0
"""Between two looks for somebody at work, who may be between two of his processes."""

BUILDERS = {"cpu_adam": "CPUAdamBuilder", "async_io": "AsyncIOBuilder", "fused_adam": "FusedAdamBuilder"}
"""Name of the operator to DeepSpeed's class that builds it."""


def at_work(folder: Path) -> bool:
    """Whether a process has the folder, or one in it, as its current one, as compilers have."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                place = (entry / "cwd").resolve()
            except OSError:
                continue  # gone, or somebody else's
            if place == folder or folder in place.parents:
                return True
    return False


def remove_stale_lock(folder: Path, *, pause_s: float = LOOK_TWICE_S) -> bool:
    """Whether there was one, and it is gone."""
    lock = folder / "lock"
    for _ in range(2):
        if not lock.exists() or at_work(folder.resolve()):
            return False
        time.sleep(pause_s)
    lock.unlink(missing_ok=True)
    return True


def pass_lock(folder: Path, *, pause_s: float = LOOK_TWICE_S) -> bool:
    """Waits for whoever is at work in the folder, and removes the lock that he leaves if he dies at it. Whether one was removed.

    Loading would wait for the lock alone. How long is up to the run, which ends this process after a time.
    """
    removed = False
    while (folder / "lock").exists():
        if remove_stale_lock(folder, pause_s=pause_s):
            removed = True
        else:
            time.sleep(pause_s)
    return removed


def missing_tools(name: str) -> str | None:
    """What must be installed before this operator can be compiled, in words."""
    compiler = os.environ.get("CXX", "c++")
    if shutil.which(compiler) is None:
        return f"no C++ compiler ({compiler}): install one, such as apt-get install g++, or name it in CXX"
    if shutil.which("ninja") is None:
        return "no ninja: pip install ninja"
    if name == "fused_adam":
        from torch.utils.cpp_extension import CUDA_HOME

        if CUDA_HOME is None:
            return "no CUDA compiler (nvcc): install the CUDA toolkit that torch was built for, or name its folder in CUDA_HOME"
    return None


def build(device: str, name: str) -> str | None:
    """Compiles it. What keeps it from being compiled, in words; None where it is there."""
    tools_in_reach()
    os.environ["DS_ACCELERATOR"] = device
    if (missing := missing_tools(name)) is not None:
        return missing
    try:
        from deepspeed.accelerator import get_accelerator
    except ImportError as error:
        return f"DeepSpeed cannot be imported: {error}"
    folders = [extension_folder(part) for part in (name, *(("pin_memory",) if name == "async_io" else ()))]
    for folder in folders:
        if pass_lock(folder):
            print(f"removed the lock of a compilation that died: {folder / 'lock'}", flush=True)
    builder = get_accelerator().create_op_builder(BUILDERS[name])
    if builder is None or not builder.is_compatible():
        needed = "libaio with its headers: apt-get install libaio-dev" if name == "async_io" else "what the lines above say"
        return f"DeepSpeed says that {name} cannot be compiled here; it needs {needed}"
    try:
        builder.load(verbose=True)
    except Exception as error:  # noqa: BLE001 - compilers fail in every way; the whole of it is in the log
        traceback.print_exc()
        return f"{name} does not compile: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return None


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[1] not in BUILDERS:
        print(f"usage: python -m bench.worker.build cpu|cuda {'|'.join(BUILDERS)}")
        return 2
    trouble = build(*arguments)
    if trouble is None:
        return 0
    print(trouble, flush=True)
    return ABSENT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
