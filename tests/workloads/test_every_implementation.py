"""One test for all of the catalogue: on a CPU each implementation measures, or says why not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.catalogue import load_catalogue, missing_requirements
from bench.records import Case, Pass, Status
from tests.factories import case as any_case
from tests.worker.trials import answer, attention, rms_norm


def tiny(workload: str, **params: int) -> Callable[[str], Case]:
    """How to make a case of a workload that has one slot, by the name of the implementation."""
    return lambda name: dataclasses.replace(any_case(name, params=params), workload=workload, subject={workload: name})


CASES: dict[str, Callable[[str], Case]] = {
    "attention": attention,
    "rms_norm": rms_norm,
    "matmul": tiny("matmul", m=24, n=40, k=16),
    "copy": tiny("copy", elements=1000),
}
"""How to make a tiny case of a workload."""

SLOW_TO_COMPILE = {"flex"}

CANNOT = {("flex", Pass.FORWARD_BACKWARD): "FlexAttention does not support backward on CPU"}
"""What the libraries themselves refuse on a CPU."""


def every() -> list[object]:
    catalogue = load_catalogue()
    return [
        pytest.param(workload, name, id=f"{workload}-{name}", marks=[pytest.mark.slow] if name in SLOW_TO_COMPILE else [])
        for workload in catalogue.workloads
        for name in catalogue.implementations(workload)
    ]


def test_every_workload_has_a_tiny_case_here() -> None:
    assert set(load_catalogue().workloads) == set(CASES), "say above how to make a tiny case of it"


@pytest.mark.parametrize("pass_", [Pass.FORWARD, Pass.FORWARD_BACKWARD])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize(("workload", "name"), every())
def test_it_measures_or_says_why_not(tmp_path: Path, workload: str, name: str, dtype: str, pass_: Pass) -> None:
    case: Case = dataclasses.replace(CASES[workload](name), dtype=dtype, pass_=pass_)
    impl = load_catalogue().implementation(workload, name)
    reply = answer(tmp_path, case)
    if refusal := impl.declared_refusal(case):
        assert (reply.status, reply.reason) == (Status.UNSUPPORTED, refusal)
    elif missing := missing_requirements(impl):
        assert reply.status is Status.UNAVAILABLE
        assert missing[0] in str(reply.reason)
    elif (name, pass_) in CANNOT:
        assert reply.status is Status.UNSUPPORTED, reply.traceback
        assert str(reply.reason).startswith(CANNOT[name, pass_])
    else:
        assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"
        assert reply.proof is not None
        assert reply.proof.verdict == "proved"
        assert all(check.passed for check in reply.checks)


def test_all_eight_attention_kernels_and_both_norms_are_there() -> None:
    catalogue = load_catalogue()
    expected = {"eager", "sdpa_math", "sdpa_efficient", "sdpa_flash", "sdpa_cudnn", "flash_attn2", "flash_attn4", "flex"}
    assert expected <= set(catalogue.implementations("attention"))
    assert {"eager", "torch_native"} <= set(catalogue.implementations("rms_norm"))
    assert all(catalogue.implementation("attention", name).description for name in expected)


@pytest.mark.parametrize("name", ["eager", "sdpa_math"])
def test_dropout_is_checked_where_it_is_supported(tmp_path: Path, name: str) -> None:
    reply = answer(tmp_path, attention(name, params={"dropout": 0.25}, pass_=Pass.FORWARD_BACKWARD))
    assert reply.status is Status.OK, reply.reason
    assert {"dropout_rate", "dropout_scale", "dropout_redrawn", "dropout_grad_v"} <= {check.tensor for check in reply.checks}


def test_dropout_is_refused_in_the_librarys_words_where_it_is_not(tmp_path: Path) -> None:
    reply = answer(tmp_path, attention("sdpa_flash", params={"dropout": 0.25}))
    assert reply.status is Status.UNSUPPORTED
    assert "No available kernel" in str(reply.reason)
    assert "do not support non-zero dropout" in str(reply.reason)
    reply = answer(tmp_path, attention("flex", params={"dropout": 0.25}))
    assert (reply.status, reply.reason) == (Status.UNSUPPORTED, "FlexAttention has no dropout")
