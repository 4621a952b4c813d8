"""A subject that takes more threads than the suite gives it has no time, whether it says so to torch or not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bench.records import Protocol, Status
from bench.worker import trial
from bench.worker.refusals import DisagreesError
from bench.worker.threads import ProcessorTime, demand_threads
from tests.worker.trials import QUICK, answer, attention, plugin

RAISES = {
    "when_built": "    torch.set_num_threads(2)\n    return right",
    "when_called": "    def f(q, k, v):\n        torch.set_num_threads(2)\n        return right(q, k, v)\n    return f",
}


@pytest.mark.parametrize("name", RAISES)
@pytest.mark.parametrize("probe", [False, True])
def test_a_subject_that_raises_torchs_number_of_threads_is_incorrect(tmp_path: Path, name: str, probe: bool) -> None:
    path = plugin(tmp_path, name, RAISES[name])
    protocol = Protocol(probe=True) if probe else QUICK
    reply = answer(tmp_path, attention(name), plugins=(path,), protocol=protocol)
    assert (reply.status, reply.measurements) == (Status.INCORRECT, ())
    assert "it computed with 2 threads, the suite gives it 1" in str(reply.reason)


def _request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **changes: object) -> list[tuple[object, object]]:
    """What a good trial asks of its threads."""
    asked: list[tuple[object, object]] = []
    monkeypatch.setattr(trial, "demand_threads", lambda request, spent=None: asked.append((request, spent)))
    assert answer(tmp_path, attention("eager", **changes)).status is Status.OK
    return asked


def test_more_busy_processors_than_threads_are_threads_that_torch_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((request, spent),) = _request(tmp_path, monkeypatch)
    assert isinstance(spent, ProcessorTime)
    assert spent.busy_s > 0
    demand_threads(request, spent)  # type: ignore[arg-type]
    with pytest.raises(DisagreesError, match=r"kept 1\.9 processors busy .* the suite gives it 1"):
        demand_threads(request, ProcessorTime(1.9, 1.0))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("busy_s", "wall_s", "exceeds"), [(0.012, 0.004, False), (0.16, 0.1, True), (1.2, 1.0, False), (1.3, 1.0, True)]
)
def test_ticks_that_are_charged_late_are_no_threads(busy_s: float, wall_s: float, exceeds: bool) -> None:
    assert ProcessorTime(busy_s, wall_s).exceeds(1) is exceeds


def test_what_a_busy_machine_takes_away_and_a_gpus_host_say_nothing_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    ((request, _),) = _request(tmp_path, monkeypatch)
    demand_threads(request, ProcessorTime(0.3, 1.0))  # type: ignore[arg-type]
    beside_a_gpu = dataclasses.replace(request, case=attention("eager", device="cuda"))  # type: ignore[type-var]
    torch.set_num_threads(2)
    demand_threads(beside_a_gpu, ProcessorTime(1.9, 1.0))  # type: ignore[arg-type]
