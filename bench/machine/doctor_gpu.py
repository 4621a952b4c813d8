"""Is the GPU fit to measure: what NVML says of its driver, clocks, power, health and neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench.errors import DeviceError
from bench.machine.device import Device, find_device
from bench.machine.findings import Finding, ok, problem, warn
from bench.machine.nvml import NvmlAbsent, NvmlBroken, ask, open_nvml, text, visible_gpus
from bench.machine.throttling import CAPS, CHOSEN

HOT_C = 83
FOREIGN_BYTES = 2**30
_VOLATILE, _UNCORRECTED = 0, 1


def device_finding(choice: str) -> tuple[Device | None, Finding]:
    """The device that `choice` means, and whether it is there."""
    try:
        device = find_device(choice)
    except DeviceError as error:
        return None, problem("device", str(error), "repair the driver, or choose with --device")
    if device.kind == "cuda":
        return device, ok("device", f"{device.name} ({device.torch_name}, {device.memory_bytes / 2**30:.0f} GiB, {device.uuid})")
    why = "" if choice == "cpu" else "; NVML sees no GPU"
    return device, ok("device", f"the CPU is measured: {device.name}{why}")


def _asked(name: str, *arguments: Any) -> Any | None:
    """What NVML answers; None where this GPU, driver or binding does not tell."""
    call = getattr(open_nvml(), name, None)
    return None if call is None else ask(call, *arguments)


def driver_facts() -> dict[str, Any]:
    """The driver's version and the newest CUDA that it runs, as (major, minor); empty without a driver."""
    try:
        open_nvml()
    except (NvmlAbsent, NvmlBroken):
        return {}
    number = _asked("nvmlSystemGetCudaDriverVersion_v2")
    version = text(_asked("nvmlSystemGetDriverVersion"))
    return {"driver": version, "cuda": (number // 1000, number % 1000 // 10) if number else None}


def gpu_findings(device: Device, conditions: Mapping[str, Any]) -> Iterator[Finding]:
    """All that NVML can say of one GPU. `conditions` are those of a second without work of ours."""
    handle = visible_gpus()[device.index]
    facts = driver_facts()
    cuda = ".".join(map(str, facts["cuda"])) if facts.get("cuda") else "unknown"
    yield ok("gpu", f"driver {facts.get('driver')}, for CUDA up to {cuda}")
    yield from _clocks(handle, conditions)
    yield from _power(handle)
    yield from _health(handle, conditions)
    yield from _neighbours(conditions)


def _clocks(handle: Any, conditions: Mapping[str, Any]) -> Iterator[Finding]:
    nvml = open_nvml()
    now, most = (
        _asked("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM),
        _asked("nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_SM),
    )
    if now is None or most is None:
        yield ok("gpu", "clocks are not told")
    else:
        yield ok("gpu", f"SM clock {now} MHz now, {most} MHz at most (it rises with work)")
    shares = conditions.get("throttle_share") or {}
    bad = [reason for reason in shares if reason not in CHOSEN | CAPS]
    if bad:
        yield warn(
            "gpu", f"clocks are held back: {', '.join(bad)}", "let it cool, or look at its power supply; such trials are discarded"
        )
    elif shares:
        yield ok("gpu", f"clocks are held back by nothing but {', '.join(shares)}")
    elif "throttle_share" in conditions:
        yield ok("gpu", "nothing holds the clocks back")


def _power(handle: Any) -> Iterator[Finding]:
    limit = _asked("nvmlDeviceGetEnforcedPowerLimit", handle)
    default = _asked("nvmlDeviceGetPowerManagementDefaultLimit", handle)
    if limit is None:
        yield ok("gpu", "the power limit is not told")
    elif default is not None and limit < default:
        advice = f"sudo nvidia-smi -pl {default / 1e3:.0f} restores it; else compare only with runs under the same limit"
        yield warn("gpu", f"power limit {limit / 1e3:.0f} W, below the default of {default / 1e3:.0f} W", advice)
    else:
        yield ok("gpu", f"power limit {limit / 1e3:.0f} W" + (" (the default)" if limit == default else ""))
    persistence = _asked("nvmlDeviceGetPersistenceMode", handle)
    if persistence == 0:
        yield warn("gpu", "persistence mode is off: the driver starts anew with each run", "sudo nvidia-smi -pm 1")
    elif persistence is not None:
        yield ok("gpu", "persistence mode is on")


def _health(handle: Any, conditions: Mapping[str, Any]) -> Iterator[Finding]:
    if _asked("nvmlDeviceGetComputeMode", handle) == 2:
        yield problem("gpu", "its compute mode is PROHIBITED", "sudo nvidia-smi -c DEFAULT")
    ecc = _asked("nvmlDeviceGetEccMode", handle)
    errors = _asked("nvmlDeviceGetTotalEccErrors", handle, _UNCORRECTED, _VOLATILE)
    if errors:
        yield problem("gpu", f"{errors} uncorrected memory errors since the driver was loaded", "reset or replace the GPU")
    elif ecc is not None:
        yield ok("gpu", f"ECC is {'on' if ecc[0] else 'off'}" + ("" if errors is None else ", no uncorrected errors"))
    remapped = _asked("nvmlDeviceGetRemappedRows", handle)
    if remapped is not None and remapped[2]:
        yield problem("gpu", "memory rows wait to be remapped", "reset the GPU")
    temperature = (conditions.get("temperature_c") or {}).get("max")
    if temperature is not None and temperature >= HOT_C:
        yield warn("gpu", f"{temperature:.0f} °C without work of ours", "look at its cooling")
    elif temperature is not None:
        yield ok("gpu", f"{temperature:.0f} °C")


def _neighbours(conditions: Mapping[str, Any]) -> Iterator[Finding]:
    others = conditions.get("other_compute_processes") or []
    if others:
        yield warn("gpu", f"others compute on it: {', '.join(others)}", "end them, or choose another GPU with --device cuda:N")
    else:
        yield ok("gpu", "no other process computes on it")
    used = (conditions.get("gpu_memory_used_bytes") or {}).get("median")
    if used is not None and used > FOREIGN_BYTES and not others:
        yield warn("gpu", f"{used / 2**30:.1f} GiB of its memory are in use by nobody that we see", "another container may use it")


def torch_against_driver(torch_cuda: str | None, driver: Mapping[str, Any]) -> Finding | None:
    """torch's CUDA against the driver's; None where there is no driver to speak of."""
    if not driver.get("cuda"):
        return None
    major, minor = driver["cuda"]
    if torch_cuda is None:
        advice = "install a build with CUDA, or say --device cpu"
        return problem("torch", f"torch is a build without CUDA, and the driver runs CUDA {major}.{minor}", advice)
    built = tuple(int(part) for part in torch_cuda.split(".")[:2])
    said = f"torch is built for CUDA {torch_cuda}; the driver runs up to {major}.{minor}"
    if built[0] > major:
        return problem("torch", said, "install a newer driver, or a torch for an older CUDA")
    if built > (major, minor):
        return warn(
            "torch", said, "minor versions are compatible, but kernels that are compiled at run time may fail: update the driver"
        )
    return ok("torch", said)
