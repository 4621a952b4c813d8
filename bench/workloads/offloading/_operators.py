"""DeepSpeed's compiled operators: whether one is there. They are compiled before the first trial that needs them, and never in one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench.declare import Unavailable


def extension_folder(name: str) -> Path:
    """Where torch keeps a compiled extension of this name."""
    from torch.utils.cpp_extension import _get_build_directory

    return Path(_get_build_directory(name, False))


def is_built(name: str) -> bool:
    """Whether it is compiled, and nobody is at it."""
    folder = extension_folder(name)
    return (folder / f"{name}.so").is_file() and not (folder / "lock").exists()


def tools_in_reach() -> None:
    """Puts what is installed beside this Python, such as ninja, into the search path."""
    tools = str(Path(sys.executable).parent)
    if tools not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join((tools, os.environ.get("PATH", os.defpath)))


def require_built(name: str) -> None:
    """Raises Unavailable where it is not compiled: loading it would compile it within the trial, or wait for ever for who died at it."""
    tools_in_reach()  # loading asks for ninja all the same
    if not is_built(name):
        raise Unavailable(
            f"DeepSpeed's operator {name} is not compiled in {extension_folder(name)}; "
            f"compile it: python -m bench.worker.build cpu {name} (cuda instead of cpu on a GPU)"
        )
