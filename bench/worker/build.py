"""Compiles an operator of DeepSpeed, once on a machine: `python -m bench.worker.build cpu cpu_adam`.

Outside trials, since it takes from half a minute to several. A compilation that was killed leaves a file `lock` behind, for which every
later one waits without a word and without an end; once nobody is at work in the operator's folder it is removed.

Exit status: 0 it is there; 3 it cannot be had here, and the last line of output says what to install.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
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

NEEDING_NVCC = ("fused_adam",)
_TELLING = re.compile(r"\b(error|fatal)\b|not found|cannot find|no such file", re.IGNORECASE)
_OF_A_COMMAND = " -o "


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
    if name in NEEDING_NVCC:
        nvcc = nvcc_of_torch()
        if nvcc is None or not nvcc.is_file():
            where = "" if nvcc is None else f" in {nvcc.parent}"
            return f"no CUDA compiler (nvcc){where}: install the CUDA toolkit that torch was built for, or name its folder in CUDA_HOME"
    return None


def nvcc_of_torch() -> Path | None:
    """Where torch expects the CUDA compiler; None where it knows of no toolkit."""
    from torch.utils.cpp_extension import CUDA_HOME

    return None if CUDA_HOME is None else Path(CUDA_HOME) / "bin" / "nvcc"


def headers_of_wheels(cuda: str | None) -> list[str]:
    """Folders of the headers of CUDA's libraries that torch's own requirements brought; `cuda`: the version that torch was built with.

    Torch's headers want those of cuBLAS, cuSPARSE and cuSOLVER, which a toolkit of compiler and runtime alone does not have.
    """
    if cuda is None or (found := importlib.util.find_spec("nvidia")) is None:
        return []
    folders = [folder for root in found.submodule_search_locations or () for folder in sorted(Path(root).glob("*/include"))]
    own = [folder for folder in folders if folder.parent.name == f"cu{cuda.partition('.')[0]}"]
    older = [folder for folder in folders if not re.fullmatch(r"cu\d+", folder.parent.name)]  # one folder a library
    return [str(folder) for folder in own or older]


def libraries_of(nvcc: Path | None) -> list[str]:
    """Folders in which a CUDA compiler looks for libraries. Torch looks beside the file that is called, which may be a wrapper."""
    if nvcc is None:
        return []
    told = subprocess.run([nvcc, "--dryrun", "-c", "nothing.cu"], capture_output=True, text=True, check=False).stderr
    line = next((line for line in told.splitlines() if line.startswith("#$ LIBRARIES=")), "")
    return [os.path.realpath(folder) for folder in re.findall(r'"-L([^"]+)"', line) if not folder.endswith("stubs")]


def what_failed(error: Exception) -> str:
    """Of a compiler's whole output the line that says what is wrong; else the type and first line of the error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for line in lines[1:]:
        if _TELLING.search(line) and _OF_A_COMMAND not in line:
            return line
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


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
    if name in NEEDING_NVCC:
        import torch

        _look_last("CPLUS_INCLUDE_PATH", headers_of_wheels(torch.version.cuda))
        _look_last("LIBRARY_PATH", libraries_of(nvcc_of_torch()))
    try:
        builder.load(verbose=False)  # what compilers print is then in the error
    except Exception as error:  # noqa: BLE001 - compilers fail in every way; the whole of it is in the log
        traceback.print_exc()
        return f"{name} does not compile: {what_failed(error)}"
    return None


def _look_last(variable: str, folders: list[str]) -> None:
    """Folders for compilers and linkers to look into after all others."""
    known = os.environ.get(variable, "").split(os.pathsep)
    os.environ[variable] = os.pathsep.join(filter(None, (*known, *folders)))


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
