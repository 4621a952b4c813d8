from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.records import Case, Pass, Request
from bench.worker import diagnose
from tests.worker.trials import QUICK


def request_of(subject: str = "torch_matmul") -> Request:
    params = {"m": 16, "n": 16, "k": 16}
    case = Case("matmul", 1, {"matmul": subject}, Pass.FORWARD, "fp32", "cpu", "warm", "wall", params)
    return Request(case, QUICK, seed=3, threads=1)


@pytest.mark.parametrize(
    ("intervals", "length"),
    [
        ([], 0),
        ([(0, 10), (20, 25)], 15),
        ([(0, 10), (5, 15)], 15),
        ([(0, 100), (10, 20), (30, 40)], 100),
        ([(20, 30), (0, 20)], 30),
    ],
)
def test_what_runs_at_the_same_time_counts_once(intervals: list[tuple[int, int]], length: int) -> None:
    assert diagnose.union_ns(intervals) == length


def test_a_cpu_is_timed_by_us_and_by_torch_in_every_round() -> None:
    found = diagnose.compare(request_of(), rounds=3)
    assert {name: len(values) for name, values in found["seconds"].items()} == {"wall": 3, "torch_timer": 3}
    assert all(value > 0 for values in found["seconds"].values() for value in values)
    assert found["clocks_hz"] == {"wall": [None] * 3, "torch_timer": [None] * 3}
    assert (found["failed"], found["fault"]) == ({}, None)


def test_a_timer_that_fails_is_named_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def breaks() -> diagnose.Reading:
        calls.append("broken")
        raise RuntimeError("no kernels")

    def makers(*_: Any) -> dict[str, diagnose.Maker]:
        return {"good": lambda: lambda: diagnose.Reading(1.0, 2e9), "absent": lambda: 1 / 0, "broken": lambda: breaks}  # type: ignore[dict-item,return-value]

    monkeypatch.setattr(diagnose, "makers", makers)
    found = diagnose.compare(request_of(), rounds=4)
    assert found["seconds"] == {"good": [1.0] * 4}
    assert found["clocks_hz"] == {"good": [2e9] * 4}
    assert found["failed"]["broken"] == "RuntimeError: no kernels"
    assert "ZeroDivisionError" in found["failed"]["absent"]
    assert calls == ["broken"]


def test_a_request_that_cannot_be_built_is_answered_with_its_fault(tmp_path: Path) -> None:
    diagnose.answer(tmp_path, "wrong", request_of("no_such_way"), rounds=1)
    found = json.loads((tmp_path / "wrong.json").read_text())
    assert "no_such_way" in found["fault"]
    assert [path.name for path in tmp_path.iterdir()] == ["wrong.json"]
