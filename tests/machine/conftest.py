"""GPUs are the one thing that tests of this room fake: a module in place of pynvml."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

from bench.machine.nvml import open_nvml
from tests.machine.fake_nvml import Gpu, make


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Call it with the GPUs that this machine shall have."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def install(*found: Gpu, init_error: int | None = None) -> None:
        monkeypatch.setitem(sys.modules, "pynvml", make(list(found), init_error=init_error))
        open_nvml.cache_clear()

    open_nvml.cache_clear()
    yield install
    open_nvml.cache_clear()
