"""A confusion matrix: what each attention kernel shows under the profiler proves it, and proves no other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bench.catalogue import load_catalogue
from bench.worker.proof import judge

SEEN: dict[str, list[dict[str, Any]]] = json.loads((Path(__file__).parent / "kernels_seen.json").read_text())["seen"]
CALLS = [pytest.param(name, call, id=f"{name}: {call['of']}") for name, calls in SEEN.items() for call in calls]

PLAIN = ("eager", "eager_16bit", "sdpa_math")
"""Made of the same plain kernels; their operators tell them apart."""


def test_every_implementation_that_runs_on_cuda_has_calls_to_be_told_by() -> None:
    on_cuda = {name for name, impl in load_catalogue().implementations("attention").items() if "cuda" in impl.devices}
    assert set(SEEN) == on_cuda
    assert all(calls and all(call["kernels"] for call in calls) for calls in SEEN.values())


@pytest.mark.parametrize(("ran", "call"), CALLS)
def test_a_call_proves_the_implementation_that_ran_and_no_other(ran: str, call: dict[str, Any]) -> None:
    proofs = {
        name: judge(impl.proof["cuda"], call["ops"], call["kernels"])
        for name, impl in load_catalogue().implementations("attention").items()
    }
    assert proofs[ran].verdict == "proved", proofs[ran].detail
    wrong = {name: proof.verdict for name, proof in proofs.items() if name != ran and proof.verdict != "disproved"}
    assert wrong == {}


@pytest.mark.parametrize(("ran", "call"), CALLS)
def test_a_fused_kernel_is_known_by_its_device_kernels_alone(ran: str, call: dict[str, Any]) -> None:
    """A lone-file plug-in may hide its operators, but not its kernels: those of one library must never meet another's pattern."""
    implementations = load_catalogue().implementations("attention")
    fused = {name: impl.proof["cuda"].kernels for name, impl in implementations.items() if name not in PLAIN}
    met = {
        name
        for name, expressions in fused.items()
        if all(any(re.search(expression, kernel) for kernel in call["kernels"]) for expression in expressions)
    }
    assert met == ({ran} & set(fused))
