"""What torch is and sees here, ready for JSON; whatever fails is in it.

{"torch": VERSION, "cuda": VERSION or null, "available": BOOL, "devices": [{"name", "uuid"}], "why": TEXT or null,
 "profiler": {"cpu": REASON or null, "cuda": REASON or null}, "triton": REASON or null}       null: it works, or there is none
"""

from __future__ import annotations

import warnings
from typing import Any

import torch


def profiler_fault(device: str) -> str | None:
    """Why the profiler sees nothing of a small product on `device`; None where it does."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    try:
        x = torch.ones(64, 64, device=device)
        with torch.profiler.profile(activities=activities, acc_events=True) as profile:
            y = x @ x
            float(y.sum())
        kinds = {event.device_type().name for event in profile.profiler.kineto_results.events()}
    except Exception as error:  # noqa: BLE001 - whatever the profiler or the driver says is the finding
        return f"{type(error).__name__}: {error}"
    wanted = "CUDA" if device == "cuda" else "CPU"
    return None if wanted in kinds else "it reports no kernels (the driver may restrict counters to administrators)"


def triton_fault() -> str | None:
    """Why Triton cannot launch a kernel; None where it can."""
    try:
        from bench.worker.empty_kernel import empty

        empty[(1,)](torch.zeros(1, device="cuda"), num_warps=1)
        torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001 - whatever Triton or its compilers say is the finding
        return f"{type(error).__name__}: {error}"
    return None


def facts() -> dict[str, Any]:
    """All of it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
    why = "; ".join(str(warning.message) for warning in caught) or None
    found: dict[str, Any] = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "available": available,
        "devices": [],
        "why": None if available else why,
        "profiler": {"cpu": profiler_fault("cpu"), "cuda": None},
        "triton": None,
    }
    if available:
        properties = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
        found["devices"] = [{"name": p.name, "uuid": str(getattr(p, "uuid", "")) or None} for p in properties]
        found["profiler"]["cuda"] = profiler_fault("cuda")
        found["triton"] = triton_fault()
    return found
