"""Chooses the device to measure on and says which one exactly that is."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.errors import DeviceError
from bench.machine.nvml import NvmlAbsent, NvmlBroken, ask, open_nvml, text, visible_gpus
from bench.records import INTERPRETER


@dataclass(frozen=True, slots=True)
class Device:
    """One CPU or one GPU. `index` is torch's (after CUDA_VISIBLE_DEVICES)."""

    kind: str
    """One of `DEVICES`."""
    index: int
    uuid: str | None
    """Of the GPU or MIG instance; None for a CPU."""
    name: str
    """The model, as the vendor writes it."""
    memory_bytes: int
    """What the device has in all: the GPU's own memory, or the host's."""
    form_factor: str | None = None
    """`SXM`, `PCIe`, `NVL` ...; None for a CPU and where the name does not tell."""
    mig: str | None = None
    """The MIG profile, such as `1g.10gb`; None for a whole GPU."""

    @property
    def lock_name(self) -> str:
        """Two runs on devices of the same lock name must not measure at the same time."""
        return f"gpu-{self.uuid}" if self.kind == "cuda" else "cpu"

    @property
    def torch_name(self) -> str:
        """As torch writes it."""
        return f"cuda:{self.index}" if self.kind == "cuda" else "cpu"


_FORM_FACTOR = re.compile(r"\b(SXM|PCIe|NVL|MXM)\d*\b", re.IGNORECASE)
_SPELLED = {"sxm": "SXM", "pcie": "PCIe", "nvl": "NVL", "mxm": "MXM"}
# NVIDIA writes the form factor of these only where it is not SXM.
_SXM_UNLESS_SAID = re.compile(r"\b(H100 80GB HBM3|H100 64GB HBM2|H200|B200|B300|GB200|GB300|GH200)\b")
_MIG_PROFILE = re.compile(r"\bMIG\s+(\S+)$")


def form_factor(name: str) -> str | None:
    """From the product name: H100 SXM, PCIe and NVL are three different cards and must never share a series."""
    said = _FORM_FACTOR.search(name.replace("-", " "))
    if said:
        return _SPELLED[said.group(1).lower()]
    return "SXM" if _SXM_UNLESS_SAID.search(name) else None


def cpu_model(cpuinfo: str) -> str:
    """Name, family, model and stepping from /proc/cpuinfo: under a hypervisor the name alone is often just a brand."""
    fields: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
        elif fields:
            break
    if "model name" in fields:
        numbers = [f"{key} {fields[key]}" for key in ("cpu family", "model", "stepping") if key in fields]
        return f"{' '.join(fields['model name'].split())} ({', '.join(numbers)})" if numbers else fields["model name"]
    parts = [f"{key.removeprefix('CPU ')} {fields[key]}" for key in ("CPU implementer", "CPU part", "CPU variant") if key in fields]
    return f"{os.uname().machine} ({', '.join(parts)})" if parts else os.uname().machine


def _host(kind: str = "cpu") -> Device:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cpuinfo = Path("/proc/cpuinfo")
    model = cpu_model(cpuinfo.read_text(errors="replace") if cpuinfo.exists() else "")
    return Device(kind=kind, index=0, uuid=None, name=model, memory_bytes=memory)


def _gpu(handle: Any, index: int) -> Device:
    pynvml = open_nvml()
    uuid = text(ask(pynvml.nvmlDeviceGetUUID, handle))
    name = text(ask(pynvml.nvmlDeviceGetName, handle))
    memory = ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    if uuid is None or name is None or memory is None:
        raise DeviceError(f"NVML does not tell the name, memory and UUID of cuda:{index}; is the driver sound? try nvidia-smi")
    mig = _MIG_PROFILE.search(name)
    return Device(
        kind="cuda",
        index=index,
        uuid=uuid,
        name=name,
        memory_bytes=int(memory.total),
        form_factor=form_factor(name),
        mig=mig.group(1) if mig else None,
    )


def find_device(choice: str = "auto") -> Device:
    """The device for `auto`, `cuda`, `cuda:N`, `cpu` or `cpu-interpreter`.

    `auto` is the first GPU that NVML sees, and the CPU only where there is none: a driver that is there and does not answer is an
    error, never a silent fall-back. Raises DeviceError.
    """
    if choice in ("cpu", INTERPRETER):
        return _host(choice)
    asked = re.fullmatch(r"cuda(?::(\d+))?", choice)
    if choice != "auto" and not asked:
        raise DeviceError(
            f"there is no device {choice!r}; say auto, cuda, cuda:N or cpu ({INTERPRETER}: Triton's kernels without a GPU)"
        )
    try:
        handles = visible_gpus()
    except NvmlAbsent as error:
        if choice == "auto":
            return _host()
        raise DeviceError(f"{choice} was asked for, but there is no NVIDIA GPU here: {error}") from error
    except NvmlBroken as error:
        raise DeviceError(
            f"an NVIDIA driver is installed, but NVML cannot use it: {error}; repair it, or say --device cpu to measure the CPU"
        ) from error
    index = int(asked.group(1) or 0) if asked else 0
    if not handles and choice == "auto":
        return _host()
    if index >= len(handles):
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        why = f" (CUDA_VISIBLE_DEVICES={hidden!r})" if hidden is not None else ""
        have = f"cuda:0 to cuda:{len(handles) - 1}" if handles else "none"
        raise DeviceError(f"{choice} was asked for; visible GPUs: {have}{why}")
    return _gpu(handles[index], index)
