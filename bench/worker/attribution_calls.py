"""Puts calls of Python functions into the profiler's tree as marks, so that an allocation is told with the function that made it.

The profiler can note calls itself (`with_stack`), but then notes all, of C functions and within torch too: four fifths of a training
step's tree, which takes many times longer to build and to read than the step takes to run. Here only functions outside torch are marked.
They are called what the profiler calls them: file, from the folder of modules on, line at which the call stood, name.
"""

from __future__ import annotations

import sys
import threading
from contextlib import AbstractContextManager
from functools import lru_cache
from types import FrameType
from typing import Any

import torch
from torch._C._dynamo.eval_frame import set_eval_frame
from torch._C._profiler import _RecordFunctionFast
from torch.profiler.python_tracer import _prefix_regex

CALL = "bench: in "
"""What the mark of a call begins with."""


class MarkedCalls(AbstractContextManager[None]):
    """Within the block each call of a function outside torch is a mark that begins with `CALL`; so is the call that the block lies in.

    On CUDA a backward runs in a thread of autograd's. From Python 3.12 on that is heard as well; before, the backward runs in this thread.
    """

    def __init__(self) -> None:
        self._prefixes = _prefix_regex()
        self._names: dict[tuple[str, int, str], str] = {}
        """Of marks, by file, line and function; empty where there is to be none."""
        self._open: dict[FrameType, Any] = {}
        self._before: Any = None
        self._in_one_thread: Any = None
        if (compiler := sys.modules.get("torch._dynamo.eval_frame")) is not None:  # not imported: it compiles nothing
            compiler.skip_code(MarkedCalls._hear.__code__)

    def __enter__(self) -> None:
        self._before = sys.getprofile()
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not self._open:
            self._hear(frame, "call", None)
            frame = frame.f_back
        if sys.version_info >= (3, 12):
            threading.setprofile_all_threads(self._hear)
        else:
            self._in_one_thread = torch.autograd.set_multithreading_enabled(False)
            sys.setprofile(self._hear)

    def __exit__(self, *_: object) -> None:
        if sys.version_info >= (3, 12):
            threading.setprofile_all_threads(None)
        else:
            self._in_one_thread.__exit__(None, None, None)
        sys.setprofile(self._before)
        for mark in reversed(self._open.values()):
            mark.__exit__(None, None, None)
        self._open.clear()

    def _hear(self, frame: FrameType, event: str, _: object) -> None:
        """Begins and ends marks. torch.compile looks at whatever is called beside its graphs: it must find no other function of ours."""
        if event == "call":
            code = frame.f_code
            place = code.co_filename, frame.f_lineno, code.co_name
            if place not in self._names:
                compiling = set_eval_frame(None)
                try:
                    self._names[place] = self._name(*place)
                finally:
                    set_eval_frame(compiling)
            if name := self._names[place]:
                mark = self._open[frame] = _RecordFunctionFast(name)
                mark.__enter__()
        elif event == "return" and frame in self._open:
            self._open.pop(frame).__exit__(None, None, None)

    def _name(self, file: str, line: int, function: str) -> str:
        within = next((prefix for prefix in self._prefixes if file.startswith(prefix)), "")
        known = f"{file.removeprefix(within)}({line}): {function}"
        return "" if of_torch(known) else CALL + short(known)


@lru_cache(maxsize=65536)
def of_torch(name: str) -> bool:
    """Whether a function is torch's, or one of ours that watch."""
    ours = "worker/attribution_" in name or "worker/audit/" in name
    return ours or "/torch/" in name or name.startswith(("torch/", "<built-in", "nn.Module:"))


def short(name: str) -> str:
    """`…/models/llama/modeling_llama.py(95): forward` with the last folders of its path."""
    return "/".join(name.rsplit("/", 3)[-3:])
