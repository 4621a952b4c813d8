"""Launches a compiled kernel of our own through the CUDA driver, past Triton.

Why: before its first kernel Triton sets up its own driver module, which costs each fresh process more than a tenth of a second, for
two kernels that never change. So Triton compiles them once a run, the binaries lie in the run's folder, and every later trial loads
them in a millisecond.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

THREADS = 32
"""One warp: a kernel of `num_warps=1`."""

_PARAMETER = re.compile(r"\.param\s+\.(?P<type>[usbf]\d+)\b")
_ENTRY = re.compile(r"\.entry\s+\w+\s*\((?P<parameters>[^)]*)\)")
_C_TYPES: dict[str, type[ctypes.c_uint64] | type[ctypes.c_int32]] = {
    "u64": ctypes.c_uint64,
    "b64": ctypes.c_uint64,
    "s64": ctypes.c_uint64,
    "u32": ctypes.c_int32,
    "b32": ctypes.c_int32,
    "s32": ctypes.c_int32,
}


@dataclass(frozen=True, slots=True)
class Binary:
    """A compiled kernel: the driver's name of it, its code, and the types of its parameters, such as `u64`."""

    name: str
    code: bytes
    parameters: tuple[str, ...]

    def save(self, folder: Path, stem: str) -> None:
        """Whole or not at all, so that a trial that is killed meanwhile leaves nothing half."""
        folder.mkdir(parents=True, exist_ok=True)
        about = json.dumps({"name": self.name, "parameters": self.parameters}).encode()
        for suffix, content in ((".cubin", self.code), (".json", about)):
            partial = folder / f"{stem}{suffix}.{os.getpid()}"
            partial.write_bytes(content)
            partial.replace(folder / f"{stem}{suffix}")

    @staticmethod
    def saved(folder: Path, stem: str) -> Binary | None:
        """What `save` left there, or None."""
        about, code = folder / f"{stem}.json", folder / f"{stem}.cubin"
        if not about.exists() or not code.exists():
            return None
        told = json.loads(about.read_text())
        return Binary(told["name"], code.read_bytes(), tuple(told["parameters"]))


def parameter_types(ptx: str) -> tuple[str, ...]:
    """The types of the parameters of the one kernel in `ptx`. Triton adds some of its own behind those that the source names."""
    entry = _ENTRY.search(ptx)
    if entry is None:
        raise ValueError("there is no kernel in this PTX")
    return tuple(match["type"] for match in _PARAMETER.finditer(entry["parameters"]))


class Kernel:
    """A binary loaded into the current context; a call enqueues one block of one warp on a stream."""

    def __init__(self, binary: Binary) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")
        module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        self._demand("cuModuleLoadData", self._driver.cuModuleLoadData(ctypes.byref(module), binary.code))
        found = self._driver.cuModuleGetFunction(ctypes.byref(self._function), module, binary.name.encode())
        self._demand("cuModuleGetFunction", found)
        self._values = [_C_TYPES[kind](0) for kind in binary.parameters]
        pointers = [ctypes.cast(ctypes.byref(value), ctypes.c_void_p) for value in self._values]
        self._pointers = (ctypes.c_void_p * len(pointers))(*pointers)

    def __call__(self, stream: int, *arguments: int) -> None:
        """Enqueues it with these first arguments (addresses and numbers); those that Triton added are 0."""
        for value, argument in zip(self._values, arguments, strict=False):
            value.value = argument
        launched = self._driver.cuLaunchKernel(
            self._function, 1, 1, 1, THREADS, 1, 1, 0, ctypes.c_void_p(stream), self._pointers, None
        )
        self._demand("cuLaunchKernel", launched)

    def _demand(self, call: str, code: int) -> None:
        if code:
            name = ctypes.c_char_p()
            self._driver.cuGetErrorName(code, ctypes.byref(name))
            raise RuntimeError(f"{call}: {(name.value or b'').decode() or f'CUDA error {code}'}")


def kernels(folder: Path | None, stems: Sequence[str], compile_all: Callable[[], list[Binary]]) -> list[Kernel]:
    """Loads the binaries `stems` of `folder`; `compile_all()` makes them, in that order, where they are not there yet."""
    binaries = [Binary.saved(folder, stem) if folder else None for stem in stems]
    if None in binaries:
        made = compile_all()
        binaries = [*made]
        if folder:
            for stem, binary in zip(stems, made, strict=True):
                binary.save(folder, stem)
    return [Kernel(binary) for binary in binaries if binary is not None]
