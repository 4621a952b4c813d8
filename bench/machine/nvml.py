"""The one door to NVML: opening it, finding the GPUs that CUDA would see, and asking without failing on what a GPU cannot tell."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any


class NvmlAbsent(Exception):
    """There is no NVIDIA driver here, or no GPU behind it."""


class NvmlBroken(Exception):
    """A driver is there but NVML cannot use it; the text is NVML's own."""


@cache
def open_nvml() -> Any:
    """The initialised `pynvml` module, open for the life of the process. Raises NvmlAbsent or NvmlBroken."""
    try:
        import pynvml
    except ImportError as error:
        raise NvmlAbsent(f"the package nvidia-ml-py is not installed ({error})") from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        absent = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
        if getattr(error, "value", None) in absent:
            raise NvmlAbsent(str(error)) from error
        raise NvmlBroken(str(error)) from error
    return pynvml


def ask(call: Callable[..., Any], *args: Any) -> Any | None:
    """What `call` answers, or None where this GPU or driver does not tell."""
    pynvml = open_nvml()
    try:
        return call(*args)
    except pynvml.NVMLError:
        return None


def text(value: str | bytes | None) -> str | None:
    """NVML's strings are bytes in old bindings."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _expanded(pynvml: Any, handle: Any) -> list[Any]:
    """The GPU itself, or its MIG instances where MIG is on."""
    mode = ask(pynvml.nvmlDeviceGetMigMode, handle)
    if not mode or mode[0] != 1:
        return [handle]
    count = ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0
    instances = (ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index) for index in range(count))
    return [instance for instance in instances if instance is not None]


def visible_gpus() -> list[Any]:
    """Handles in the order of torch's `cuda:0`, `cuda:1` ..., CUDA_VISIBLE_DEVICES applied. Raises NvmlAbsent or NvmlBroken.

    CUDA's own rules hold: entries are indices or beginnings of UUIDs, and the first one that names nothing ends the list. NVML's
    order is by PCI address, which is CUDA's where all GPUs are alike.
    """
    pynvml = open_nvml()
    try:
        whole = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError as error:
        raise NvmlBroken(str(error)) from error
    handles = [instance for handle in whole for instance in _expanded(pynvml, handle)]
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return handles
    visible = []
    for entry in (part.strip() for part in chosen.split(",")):
        if entry.isdigit():
            match = [handles[int(entry)]] if int(entry) < len(handles) else []
        else:
            candidates = [*handles, *whole]
            match = [h for h in candidates if entry and (text(ask(pynvml.nvmlDeviceGetUUID, h)) or "").startswith(entry)][:1]
        if not match:
            break
        visible.extend(match)
    return visible
