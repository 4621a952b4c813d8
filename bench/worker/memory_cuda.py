"""Peak memory on CUDA, from the caching allocator's own counters, in a pass of its own.

Before the pass garbage is collected and the cache emptied, so that nothing of earlier phases is reused. Everything is net of what was
resident then: inputs, parameters, and for a backward alone the graph that its forward left.

    peak_bytes            allocated: what tensors hold, rounded up by the allocator (512 bytes, 2 MiB blocks for large ones)
    peak_total_bytes      the same with all that was resident, which for a training step is much of the answer
    peak_requested_bytes  what was asked for, before rounding
    peak_reserved_bytes   what the allocator took from the driver; the card must have this much
    device_used_bytes     growth of the driver's own count; sees libraries that bypass the allocator (workspaces, NCCL). It is the
                          device's, and so falls where another process gives memory back meanwhile: then it is not told
"""

from __future__ import annotations

import gc

import torch

from bench.metrics import METRICS
from bench.records import Json, Measurement, Pass
from bench.worker.step import Step

NOTE = "torch's caching allocator; device_used_bytes shows what others took"


def peak_bytes(step: Step) -> tuple[tuple[Measurement, ...], dict[str, Json]]:
    """One call of the pass; returns its measurements, the phase (`forward` or `backward`) in which the peak lay, and why a count is absent
    (`device_used_not_told`)."""
    step.prepare()
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()
    free_before, _ = torch.cuda.mem_get_info()
    phase = str(step.pass_)
    if step.pass_ is Pass.FORWARD_BACKWARD:
        outputs = step.bound.forward(step.inputs)
        torch.cuda.synchronize()
        forward_peak = torch.cuda.memory_stats()["allocated_bytes.all.peak"]
        step.backward(outputs, step.cotangents)
        torch.cuda.synchronize()
        after = torch.cuda.memory_stats()
        phase = "backward" if after["allocated_bytes.all.peak"] > forward_peak else "forward"
    else:
        outputs = step()
        torch.cuda.synchronize()
        after = torch.cuda.memory_stats()
    free_after, _ = torch.cuda.mem_get_info()
    del outputs

    def net(counter: str) -> float:
        return float(after[f"{counter}.all.peak"] - before[f"{counter}.all.current"])

    values = {
        "peak_total_bytes": float(after["allocated_bytes.all.peak"]),
        "peak_bytes": net("allocated_bytes"),
        "peak_requested_bytes": net("requested_bytes"),
        "peak_reserved_bytes": net("reserved_bytes"),
        "allocator_retries": float(after["num_alloc_retries"] - before["num_alloc_retries"]),
    }
    findings: dict[str, Json] = {"peak_phase": phase}
    if free_after > free_before:
        fell = f"the device's used memory fell by {free_after - free_before} bytes"
        findings["device_used_not_told"] = f"{fell} in this pass, so another process gave some back"
    else:
        values["device_used_bytes"] = float(free_before - free_after)
    measurements = tuple(
        Measurement(name, METRICS[name].unit, (value,), note=NOTE if name == "peak_bytes" else None)
        for name, value in values.items()
    )
    return measurements, findings
