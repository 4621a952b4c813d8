"""The two sets of facts of a result's environment: `hard`, which forbid a comparison, and `soft`, which put a banner over it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from bench.machine.device import Device, find_device
from bench.machine.nvml import ask, open_nvml, text, visible_gpus
from bench.machine.secrets import looks_secret, scrub
from bench.records import Environment, Scalar

PACKAGES = (
    "accelerate",
    "apex",
    "bitsandbytes",
    "deepspeed",
    "flash-attn",
    "flash-attn-3",
    "flash-attn-4",
    "liger-kernel",
    "nvidia-cublas",
    "nvidia-cublas-cu12",
    "nvidia-cudnn-cu12",
    "nvidia-cudnn-cu13",
    "nvidia-cudnn-frontend",
    "nvidia-cutlass-dsl",
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
    "numpy",
    "peft",
    "pytorch-triton",
    "quack-kernels",
    "torch",
    "torchao",
    "transformer-engine",
    "transformers",
    "triton",
    "xformers",
)
"""Distributions whose version can move a number."""

_PREFIXES = (
    "CUBLAS_",
    "CUDA_",
    "CUDNN_",
    "DS_",
    "FLASH_ATTENTION_",
    "GLIBC_TUNABLES",
    "GOMP_",
    "KMP_",
    "LIGER_",
    "MALLOC_",
    "MKL_",
    "NCCL_",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_",
    "ONEDNN_",
    "PYTORCH_",
    "TORCH_",
    "TORCHINDUCTOR_",
    "TORCHDYNAMO_",
    "TRITON_",
)
_NAMES = frozenset({"LD_PRELOAD", "DNNL_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY", "TRANSFORMERS_ATTN_IMPLEMENTATION", "PYTHONMALLOC"})

_LEFT_OUT = frozenset(
    {
        # The worker sets these itself, whatever the shell says.
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OMP_WAIT_POLICY",
        "TORCHINDUCTOR_COMPILE_THREADS",
        "PYTORCH_NVML_BASED_CUDA_CHECK",
        # Folders that are fresh for each case, or only say where files lie.
        "TORCHINDUCTOR_CACHE_DIR",
        "TRITON_CACHE_DIR",
        "FLASH_ATTENTION_CUTE_DSL_CACHE_DIR",
        "FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED",
        "TRITON_HOME",
        "TORCH_HOME",
        "TORCH_EXTENSIONS_DIR",
        "CUDA_HOME",
        "CUDA_PATH",
        "CUDA_CACHE_PATH",
        # Which of several equal GPUs: a condition (the UUID), not an environment.
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
    }
)

_PATH = re.compile(r"(?<![\w.])(?:~|\.{1,2})?(?:/[^\s:,;/=]+)+/?")


def short_paths(value: str) -> str:
    """`value` with each path cut to its last component: where a library lies says who somebody is, not how fast it runs."""
    return _PATH.sub(lambda match: match.group(0).rstrip("/").rsplit("/", 1)[-1], value)


def relevant_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """The allow-listed environment variables, scrubbed and with short paths."""
    return {
        name: short_paths(scrub(value, variables=variables))
        for name, value in sorted(variables.items())
        if name.startswith(_PREFIXES) or name in _NAMES
        if name not in _LEFT_OUT and not looks_secret(name)
    }


@cache
def installed_version(name: str) -> str | None:
    """The version of an installed distribution, from its metadata alone; None where it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def package_facts(names: Iterable[str], *, under_test: Sequence[str] = ()) -> dict[str, str]:
    """`package:<name>` to version for what is installed; what is under test belongs to the revision and is left out."""
    tested = {_normal(name) for name in under_test}
    found = ((name, installed_version(name)) for name in names if _normal(name) not in tested)
    return {f"package:{name}": version for name, version in found if version is not None}


def _tells_version(fact: str, under_test: Sequence[str]) -> bool:
    """Whether a fact that the worker found is the version of something under test (`torch`, `torch_git`, `torch_version`)."""
    tested = {_normal(name) for name in under_test}
    return _normal(fact).removesuffix("-git").removesuffix("-version").removeprefix("package:") in tested


def _setting(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _cpu_settings() -> dict[str, Scalar]:
    settings = {
        "cpu_governor": _setting("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "cpu_no_turbo": _setting("/sys/devices/system/cpu/intel_pstate/no_turbo"),
        "cpu_boost": _setting("/sys/devices/system/cpu/cpufreq/boost"),
        "cpu_smt": _setting("/sys/devices/system/cpu/smt/control"),
        "transparent_hugepages": _setting("/sys/kernel/mm/transparent_hugepage/enabled"),
    }
    return {name: value for name, value in settings.items() if value is not None}


def _gpu_settings(device: Device) -> dict[str, Scalar]:
    pynvml = open_nvml()
    handle = visible_gpus()[device.index]
    limit_mw = ask(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    cuda = ask(pynvml.nvmlSystemGetCudaDriverVersion_v2)
    capability = ask(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
    persistence = ask(pynvml.nvmlDeviceGetPersistenceMode, handle)
    ecc = ask(pynvml.nvmlDeviceGetEccMode, handle)
    facts: dict[str, Scalar] = {
        "driver": text(ask(pynvml.nvmlSystemGetDriverVersion)),
        "driver_cuda": f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
        "compute_capability": f"{capability[0]}.{capability[1]}" if capability else None,
        "power_limit_w": limit_mw / 1000 if limit_mw is not None else None,
        "persistence_mode": bool(persistence) if persistence is not None else None,
        "ecc": bool(ecc[0]) if ecc else None,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _hard(device: Device, threads: int, world_size: int) -> dict[str, Scalar]:
    if device.kind != "cuda":
        hard: dict[str, Scalar] = {"device": device.kind, "cpu_model": device.name, "threads": threads}
        # One rank is the rule; saying so would split every old series when the first suite with ranks appears.
        return {**hard, "count": world_size} if world_size > 1 else hard
    gib = 2**30
    return {
        "device": "cuda",
        "gpu_model": device.name,
        # In whole GiB: what the driver keeps for itself differs by some MiB from release to release.
        "memory_bytes": round(device.memory_bytes / gib) * gib,
        "form_factor": device.form_factor,
        "count": world_size,
        "mig": device.mig,
    }


def environment(
    device: Device,
    *,
    threads: int,
    runtime: Mapping[str, Scalar] | None = None,
    world_size: int = 1,
    under_test: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> Environment:
    """The environment of a trial.

    Args:
        threads: CPU threads that the worker may use.
        runtime: what only the worker could see; it joins `soft` and wins over what was read here.
        world_size: GPUs (or CPU ranks) that the trial used.
        under_test: packages that the suite tests: their versions are the revision, in no environment.
        variables: environment variables of the worker; those of this process by default.
    """
    libc, libc_version = platform.libc_ver()
    soft: dict[str, Scalar] = {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "libc": f"{libc} {libc_version}".strip() or None,
        "cpu_count": len(os.sched_getaffinity(0)),
        "host_memory_bytes": _whole_gib(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
        **_cpu_settings(),
        **package_facts(PACKAGES, under_test=under_test),
    }
    if device.kind == "cuda":
        soft |= {"cpu_model": find_device("cpu").name, "threads": threads, **_gpu_settings(device)}
    shown = relevant_variables(os.environ if variables is None else variables)
    soft |= {f"env:{name}": value for name, value in shown.items()}
    soft |= {name: value for name, value in (runtime or {}).items() if not _tells_version(name, under_test)}
    return Environment(hard=_hard(device, threads, world_size), soft={k: v for k, v in soft.items() if v is not None})


def _whole_gib(count: int) -> int:
    return round(count / 2**30) * 2**30
