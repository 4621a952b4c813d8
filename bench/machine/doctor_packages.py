"""What imports and what does not, what that leaves of the implementations, and what torch says of itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.catalogue import Catalogue, missing_requirements
from bench.declare import Implementation
from bench.machine.device import Device
from bench.machine.doctor_gpu import driver_facts, torch_against_driver
from bench.machine.environment import PACKAGES, installed_version
from bench.machine.findings import Finding, Severity, ok, problem, warn
from bench.machine.tried import LONGEST_WORDS, Import
from bench.records import INTERPRETER

LINK_S = 60.0

MODULES: Mapping[str, str] = {
    "flash-attn": "flash_attn",
    "flash-attn-3": "flash_attn_interface",
    "flash-attn-4": "flash_attn.cute",
    "liger-kernel": "liger_kernel",
    "transformer-engine": "transformer_engine",
    "nvidia-cudnn-frontend": "cudnn",
    "nvidia-cutlass-dsl": "cutlass",
    "quack-kernels": "quack",
}
"""Package to the module to import, where it is not the package's own name."""

NOT_IMPORTED = ("torch", "numpy", "pytorch-triton")
"""Looked at elsewhere, or holding no module of their own (and all nvidia-* but those above hold libraries)."""

USUAL_CUDA = Path("/usr/local/cuda")

INSTALL_COMPILER = "apt-get install g++, or name a C++ compiler in CXX"
INSTALL: Mapping[str, str] = {
    "ninja": "pip install ninja",
    "libaio with its headers": "apt-get install libaio-dev",
    "nvcc": "install the CUDA toolkit that torch was built for",
}
"""What to do for want of a tool that is no C++ compiler."""


def module_of(package: str) -> str:
    """The module that a package is imported by."""
    return MODULES.get(package, package.replace("-", "_"))


def packages_to_try(catalogue: Catalogue) -> list[tuple[str, str]]:
    """Installed packages of techniques, each with its module: those that implementations require, and those known to move numbers."""
    from packaging.requirements import Requirement

    required = [Requirement(text).name for found in _all(catalogue) for text in found.requires]
    names = dict.fromkeys([*required, *PACKAGES])
    return [
        (name, module_of(name))
        for name in names
        if name not in NOT_IMPORTED and (name in MODULES or not name.startswith("nvidia-")) and installed_version(name) is not None
    ]


def import_findings(tried: Sequence[Import]) -> Iterator[Finding]:
    """One line a package."""
    for entry in tried:
        if entry.words is None:
            yield ok("imports", f"{entry.package} {entry.version} imports in {entry.seconds:.1f} s, once torch has")
        else:
            advice = f"install a build of {entry.package} that fits this torch, or uninstall it; its rows will be `unavailable`"
            yield warn("imports", f"{entry.package} {entry.version} does not import: {entry.words}", advice)


def availability_findings(catalogue: Catalogue, tried: Sequence[Import], kind: str) -> Iterator[Finding]:
    """The implementations by the packages that they need. `kind` is the device's."""
    broken = {entry.package for entry in tried if entry.words is not None}
    groups: dict[tuple[str, ...], list[Implementation]] = {}
    for found in _all(catalogue):
        groups.setdefault(tuple(found.requires), []).append(found)
    for requires, members in sorted(groups.items()):
        names = ", ".join(f"{member.slot}.{member.name}" for member in members)
        missing = missing_requirements(members[0])
        title = ", ".join(requires) or "torch alone"
        if not missing and not any(_package(text) in broken for text in requires):
            yield ok("implementations", f"{title}: {names}")
        elif not missing:
            yield warn("implementations", f"{title} does not import: {names} will be `unavailable`", "see imports above")
        elif any(kind in member.devices for member in members):
            yield warn("implementations", f"{title}: {names} will be `unavailable`", "; ".join(missing))
        else:
            yield ok("implementations", f"{title}: not installed, and {names} would not run on {kind}")
    for fault in catalogue.problems:
        yield warn("implementations", str(fault), "repair it; a package can be uninstalled as well")


def operator_findings(catalogue: Catalogue, kind: str) -> Iterator[Finding]:
    """What compiles the operators that some implementations need; nothing where their package is not installed. `kind`: the device's."""
    users: dict[str, list[str]] = {}
    for found in _all(catalogue):
        if ("cpu" if kind == INTERPRETER else kind) in found.devices and not missing_requirements(found):
            for name in found.builds:
                users.setdefault(name, []).append(f"{found.slot}.{found.name}")
    if not users or installed_version("deepspeed") is None:
        return
    compiler = os.environ.get("CXX", "c++")
    tools = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    for name, needing in sorted(users.items()):
        absent = [tool for tool in (compiler, "ninja") if shutil.which(tool, path=tools) is None]
        if not absent and name == "async_io" and not _links_libaio(compiler):
            absent = ["libaio with its headers"]
        if name == "fused_adam" and not _has_nvcc():
            absent.append("nvcc")
        if absent:
            said = f"{name} cannot be compiled, for want of {' and '.join(absent)}: {', '.join(needing)} will be `unavailable`"
            advice = ", ".join(INSTALL.get(tool, INSTALL_COMPILER) for tool in absent)
            yield warn("operators", said, advice)
        else:
            yield ok("operators", f"{name} can be compiled, once on a machine: {', '.join(needing)}")


def _has_nvcc() -> bool:
    """Whether the CUDA compiler is where torch looks for it: in the folder that a variable names, in the path, in the usual place."""
    if named := os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH"):
        return (Path(named) / "bin" / "nvcc").is_file()
    return shutil.which("nvcc") is not None or (USUAL_CUDA / "bin" / "nvcc").is_file()


def _links_libaio(compiler: str) -> bool:
    """Whether a program with it compiles and links, as DeepSpeed asks."""
    program = "#include <libaio.h>\nint main() { return io_queue_init(0, nullptr); }\n"
    with tempfile.TemporaryDirectory() as folder:
        command = [compiler, "-x", "c++", "-", "-laio", "-o", str(Path(folder) / "program")]
        done = subprocess.run(command, input=program, capture_output=True, text=True, timeout=LINK_S, check=False)
    return done.returncode == 0


def _package(requirement: str) -> str:
    from packaging.requirements import Requirement

    return Requirement(requirement).name


def _all(catalogue: Catalogue) -> list[Implementation]:
    return [found for slot in catalogue.slots() for found in catalogue.implementations(slot).values()]


def torch_findings(facts: Mapping[str, Any] | str, device: Device | None) -> Iterator[Finding]:
    """torch, its CUDA against the driver's, its view of the GPU against NVML's, and the profiler that proofs and peaks need."""
    if isinstance(facts, str):
        yield problem("torch", f"torch cannot be used: {facts}", "install torch for this Python")
        return
    yield ok(
        "torch", f"torch {facts['torch']}, " + (f"built for CUDA {facts['cuda']}" if facts["cuda"] else "a build without CUDA")
    )
    gpu = device is not None and device.kind == "cuda"
    against = torch_against_driver(facts["cuda"], driver_facts())
    if against is not None:
        yield against if gpu else Finding(against.area, Severity.OK, against.what)
    if gpu and device is not None:
        yield _same_gpu(facts, device)
    for name, fault in facts["profiler"].items():
        if fault:
            advice = "rows will say `proof: unknown`" + ("" if name == "cuda" else " and have no peak memory")
            yield warn("torch", f"the profiler does not work on {name}: {fault[:LONGEST_WORDS]}", advice)
        elif name == "cpu" or gpu:
            yield ok("torch", f"the profiler works on {name}")
    if facts["triton"]:
        yield problem(
            "torch",
            f"Triton cannot launch a kernel: {facts['triton'][:LONGEST_WORDS]}",
            "timing on CUDA needs it: install triton and gcc",
        )
    elif gpu and facts["available"]:
        yield ok("torch", "Triton compiles and launches a kernel")


def _same_gpu(facts: Mapping[str, Any], device: Device) -> Finding:
    if not facts["available"] or device.index >= len(facts["devices"]):
        why = f": {facts['why']}" if facts["why"] else ""
        advice = "install a torch that is built for this driver's CUDA, or say --device cpu"
        return problem("torch", f"NVML sees {device.name}, and torch does not{why}", advice)
    seen = facts["devices"][device.index]
    if device.mig is None and seen["uuid"] and device.uuid and seen["uuid"] not in device.uuid:
        advice = "name the GPU by its UUID in CUDA_VISIBLE_DEVICES and say --device cuda:0"
        return problem("torch", f"torch's cuda:{device.index} is another GPU ({seen['uuid']}) than NVML's ({device.uuid})", advice)
    return ok("torch", f"torch sees {seen['name']} as cuda:{device.index}, the same GPU as NVML")
