"""Answers what packages ask of CUDA while they are imported, so that asking does not initialise it.

At import many ask whether there is a GPU and which, to choose among their kernels: torch itself does where somebody wants to know
whether Triton works. The first question starts a thread of the driver or initialises CUDA, and after that the process must not be
forked. So a child asks, once, and while a package is imported its answers stand in for torch's. Everything else goes to torch as ever.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.cuda._utils import _get_device_index

from bench.processes import die_with_parent

READ_LIMIT_S = 15
"""After which the child is given up: with a branch's own limit it stays within the minute that the parent waits for a fork."""

Properties = Mapping[str, Any]
"""Of one GPU: what `torch.cuda.get_device_properties` tells of it, by name."""


def read_properties() -> Sequence[Properties]:
    """Those of all GPUs, read by a child of this process. Empty where it could not tell."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            die_with_parent()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(READ_LIMIT_S)
            with os.fdopen(writer, "wb") as answer:
                answer.write(
                    json.dumps([_plain(torch.cuda.get_device_properties(i)) for i in range(torch.cuda.device_count())]).encode()
                )
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answers:
        answer_read = answers.read()
    os.waitpid(pid, 0)
    properties: list[Properties] = json.loads(answer_read) if answer_read else []
    return properties


def _plain(properties: Any) -> dict[str, Any]:
    values = {name: getattr(properties, name) for name in dir(properties) if not name.startswith("_")}
    return {
        name: value if isinstance(value, (int, float, str)) else str(value) for name, value in values.items() if not callable(value)
    }


@contextmanager
def answered(properties: Sequence[Properties], index: int) -> Iterator[list[str]]:
    """Within the block torch tells of GPUs what `properties` say, how many there are included, and `index` is the current one.

    What is given is filled with the places outside torch, file and line, that had CUDA initialised all the same. Who keeps one of the
    functions that are replaced keeps one that asks torch itself once the block is left. Without properties nothing is answered.
    """
    told = [SimpleNamespace(**values) for values in properties]
    within, places = True, list[str]()
    real_initialise = torch.cuda._lazy_init

    def initialise() -> None:
        if not torch.cuda.is_initialized():
            places.append(_asker())
        real_initialise()

    def get_device_properties(device: Any = None) -> Any:
        return told[index if device is None else _get_device_index(device, optional=True)]

    answers: dict[str, Callable[..., Any]] = {
        # Torch would ask NVML, which leaves a thread of the driver behind: none of this process could be forked any more. The last of the
        # three is what the other two go by, and so answers for those who took them before.
        "is_available": lambda: True,
        "device_count": lambda: len(told),
        "_device_count_nvml": lambda: len(told),
        "current_device": lambda: index,
        "get_device_properties": get_device_properties,
    }
    real = {name: getattr(torch.cuda, name) for name in answers if hasattr(torch.cuda, name)} if told else {}

    def answering(name: str) -> Callable[..., Any]:
        return lambda *given, **named: (answers[name] if within else real[name])(*given, **named)

    for name in real:
        setattr(torch.cuda, name, answering(name))
    torch.cuda._lazy_init = initialise
    try:
        yield places
    finally:
        within = False
        torch.cuda._lazy_init = real_initialise
        for name, function in real.items():
            setattr(torch.cuda, name, function)
        interface = sys.modules.get("torch._dynamo.device_interface")
        getattr(interface, "caching_worker_device_properties", {}).pop("cuda", None)


def _asker() -> str:
    """The innermost place in this process's stack that is neither ours nor torch's nor the import system's."""
    ours = (str(Path(torch.__file__).parent), str(Path(__file__).parent), "<frozen")
    frames = [frame for frame in traceback.extract_stack() if not frame.filename.startswith(ours)]
    return f"{'/'.join(Path(frames[-1].filename).parts[-3:])}:{frames[-1].lineno}" if frames else "torch itself"
