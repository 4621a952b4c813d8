"""A cap on a GPU's memory: when it binds, which share torch is told, and what was built before. The allocator is a stand-in for torch's."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bench.declare import Unsupported
from bench.records import Protocol, Status
from bench.worker.device_cuda import CudaSide
from bench.worker.refusals import classify

TOTAL = 1000 * 2**20
MIB = 2**20


class Allocator:
    """Torch's rule: a new segment is refused that would exceed the share, and what is kept is handed out whatever the share is."""

    def __init__(self) -> None:
        self.held = self.kept = 0
        self.share: float | None = None

    def set_fraction(self, share: float, device: int) -> None:
        assert device == 1
        self.share = None if share == 1.0 else share

    def take(self, size: int) -> None:
        if self.held + size > self.kept:
            new = self.held + size - self.kept
            if self.kept + new > (TOTAL if self.share is None else int(self.share * TOTAL)):
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")
            self.kept += new
        self.held += size

    def give_back(self, size: int) -> None:
        self.held -= size

    def empty_cache(self) -> None:
        self.kept = self.held


@pytest.fixture
def allocator(monkeypatch: pytest.MonkeyPatch) -> Allocator:
    found = Allocator()
    # The share goes through torch's own Python, which looks at its type and size.
    monkeypatch.setattr(torch.cuda.memory, "_lazy_init", lambda: None)
    monkeypatch.setattr(torch._C, "_cuda_setMemoryFraction", found.set_fraction, raising=False)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: SimpleNamespace(total_memory=TOTAL))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda index: found.held)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda index: found.kept)
    monkeypatch.setattr(torch.cuda, "empty_cache", found.empty_cache)
    return found


def limited(limit_bytes: int | None) -> Any:
    return CudaSide(1, None, "bf16").limited_memory(Protocol(), limit_bytes)


def test_what_building_takes_meanwhile_is_given_back_and_calls_stay_below_the_cap(allocator: Allocator) -> None:
    with limited(240 * MIB) as bind:
        allocator.take(600 * MIB)
        allocator.give_back(500 * MIB)
        bind()
        assert allocator.kept == 100 * MIB
        allocator.take(140 * MIB)
        with pytest.raises(torch.OutOfMemoryError) as refused:
            allocator.take(MIB)
    assert classify(refused.value, refuses=(), building=True).status is Status.OOM
    assert allocator.share is None


def test_what_was_built_and_is_more_than_the_cap_is_out_of_memory_with_its_size(allocator: Allocator) -> None:
    with limited(240 * MIB) as bind:
        allocator.take(300 * MIB)
        with pytest.raises(torch.OutOfMemoryError, match="What was built holds 314,572,800 bytes in 314,572,800 ") as refused:
            bind()
        assert allocator.share is None
    assert classify(refused.value, refuses=(), building=True).status is Status.OOM


def failing() -> None:
    raise ValueError("mine")


def test_a_cap_is_lifted_whatever_the_subject_does(allocator: Allocator) -> None:
    shares = []
    with contextlib.suppress(ValueError), limited(240 * MIB) as bind:
        bind()
        shares.append(allocator.share)
        failing()
    assert (shares, allocator.share) == ([0.24], None)


def test_a_cap_above_what_the_device_has_is_refused_and_all_of_it_is_none(allocator: Allocator) -> None:
    with (
        pytest.raises(Unsupported, match=r"a memory_limit of 1,048,576,001 bytes .* cuda:1 has 1,048,576,000 bytes"),
        limited(TOTAL + 1),
    ):
        pass
    with limited(TOTAL) as bind:
        bind()
        allocator.take(TOTAL)
    with limited(None) as bind:
        bind()
        assert allocator.share is None
