"""Memory on CUDA from the driver's and the allocator's counts, here told by a stand-in for the device."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from bench.records import Pass
from bench.worker import memory_cuda
from bench.worker.step import Step

COUNTERS = ("allocated_bytes", "requested_bytes", "reserved_bytes")


class _Step:
    """A forward pass that computes nothing."""

    pass_ = Pass.FORWARD
    bound = SimpleNamespace()

    def prepare(self) -> None:
        """Nothing is used up."""

    def __call__(self) -> None:
        """Nothing is computed."""


@pytest.mark.parametrize(("free_after", "told"), [(600, 400.0), (1000, 0.0), (5000, None)])
def test_a_device_whose_used_memory_fell_meanwhile_tells_no_growth_and_why(
    monkeypatch: pytest.MonkeyPatch, free_after: int, told: float | None
) -> None:
    free = iter([1000, free_after])
    stats = {f"{name}.all.{what}": 0 for name in COUNTERS for what in ("peak", "current")} | {"num_alloc_retries": 0}
    for name in ("synchronize", "empty_cache", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda: stats)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (next(free), 9000))
    measured, findings = memory_cuda.peak_bytes(cast(Step, cast(Any, _Step())))
    values = {one.metric: one.samples[0] for one in measured}
    assert values.get("device_used_bytes") == told
    assert ("4000 bytes" in str(findings.get("device_used_not_told"))) is (told is None)
    assert {"peak_bytes", "peak_reserved_bytes", "allocator_retries"} <= values.keys()
