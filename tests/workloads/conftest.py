"""Trials whose Triton interprets its kernels on the CPU, for all tests of workloads from one server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from bench.machine import find_device
from bench.records import Case, Reply, Trial
from bench.run.worker import Worker
from tests.lending import Lender
from tests.worker.trials import QUICK


@pytest.fixture(scope="session")
def interpreted(tmp_path_factory: pytest.TempPathFactory, lender: Lender) -> Iterator[Callable[..., list[Reply]]]:
    """The replies of trials of cases on `cpu-interpreter`: importing torch, Triton and Liger anew costs more than any of them."""
    device, folder = find_device("cpu-interpreter"), tmp_path_factory.mktemp("interpreted")
    worker = Worker(folder, device, threads=1, plugins=(), stop=lambda: False, notice=lambda _text: None)

    def measure(*cases: Case) -> list[Reply]:
        replies = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("bench.run.worker.ForkServer", lender.borrow)
            for case in cases:
                measured = worker.measure(Trial(case, index=0, block=0, position=0), QUICK, seed=11)
                assert measured is not None
                replies.append(measured.answer.reply)
        return replies

    yield measure
    worker.close()
