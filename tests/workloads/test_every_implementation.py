"""One test for all of the catalogue: on a CPU each implementation measures, or says why not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.catalogue import load_catalogue, missing_requirements
from bench.records import Case, Pass, Scalar, Status
from tests.factories import case as any_case
from tests.worker.trials import answer, attention, rms_norm
from tests.workloads.linear_cases import linear, small_enough
from tests.workloads.test_offload import offload
from tests.workloads.test_optimizer import optimizer


def tiny(workload: str, **params: Scalar) -> Callable[[str], Case]:
    """How to make a case of a workload that has one slot, by the name of the implementation."""
    return lambda name: dataclasses.replace(any_case(name, params=params), workload=workload, subject={workload: name})


CASES: dict[str, Callable[[str], Case]] = {
    "attention": attention,
    "rms_norm": rms_norm,
    "matmul": tiny("matmul", m=24, n=40, k=16),
    "copy": tiny("copy", elements=1000),
    "linear": lambda name: linear(name, params=small_enough(name)),
    "optimizer": optimizer,
    "offload": lambda name: offload(name, params={"bytes": 4096}),
    "cross_entropy": tiny("cross_entropy", tokens=24, vocab_size=200, ignored=0.2),
    "linear_cross_entropy": tiny("linear_cross_entropy", tokens=160, hidden_size=64, vocab_size=200, ignored=0.2),
    "preference_loss": lambda name: tiny(
        "preference_loss",
        loss="grpo" if name == "liger_chunked_eager" else "dpo",
        batch=4,
        seq_len=12,
        hidden_size=16,
        vocab_size=200,
        prompt=0.2,
    )(name),
    "distillation_loss": tiny("distillation_loss", tokens=24, hidden_size=64, vocab_size=200, ignored=0.2, divergence="jsd"),
    "divergence_loss": tiny("divergence_loss", tokens=24, vocab_size=200, between="jsd"),
    "embedding": tiny("embedding", tokens=24, hidden_size=16, vocab_size=40),
    "layer_norm": tiny("layer_norm", hidden_size=64, seq_len=10, batch=2, eps=1e-5),
    "fused_add_rms_norm": tiny("fused_add_rms_norm", hidden_size=64, seq_len=10, batch=2, eps=1e-5),
    "rope": tiny("rope", heads=4, kv_heads=2, head_dim=16, rope_theta=10_000.0, seq_len=12, batch=2),
    "swiglu": tiny("swiglu", hidden_size=32, intermediate_size=48, seq_len=6, batch=2, part="mlp"),
    "collective": tiny("collective", operation="all_gather", bytes=4096),
    "geglu": tiny("geglu", hidden_size=32, intermediate_size=48, seq_len=6, batch=2, part="activation"),
}
"""How to make a tiny case of a workload."""

SLOW_TO_COMPILE = {"flex", "compiled"}

MEASURED_BY_THEIR_OWN_TESTS = {
    "compiled_chunked",
    "liger_chunked",
    "adamw_compiled",
    "adamw_cpu_deepspeed",
    "adamw8bit_ao",
    "adamw4bit_ao",
    "adamw_fp8_ao",
}
"""Each compiles for tens of seconds: once, where more is asked of it, is enough."""

CANNOT = {("flex", Pass.FORWARD_BACKWARD): "FlexAttention does not support backward on CPU"}
"""What the libraries themselves refuse on a CPU."""


RIGHT_FOR_FLEX = {"head_dim": 64}
"""torch 2.13's FlexAttention for CPUs without AVX-512 is wrong at 24 keys of 16 numbers each, and is told so: no matter of ours."""

ABSENT = {"int4_weight_only_ao": "ImportError: Requires mslk"}
"""What the libraries themselves miss at the first call, beyond what is declared."""


BOTH = (Pass.FORWARD, Pass.FORWARD_BACKWARD)


def every() -> list[object]:
    """Workload, implementation and pass: forward with and without backward, or the passes of a workload that has neither."""
    catalogue = load_catalogue()
    return [
        pytest.param(
            workload, name, pass_, id=f"{workload}-{name}-{pass_}", marks=[pytest.mark.slow] if name in SLOW_TO_COMPILE else []
        )
        for workload, found in catalogue.workloads.items()
        for name in catalogue.implementations(workload)
        if name not in MEASURED_BY_THEIR_OWN_TESTS
        for pass_ in ([pass_ for pass_ in BOTH if pass_ in found.passes] or found.passes)
    ]


def test_every_workload_has_a_tiny_case_here() -> None:
    alone = {name for name, workload in load_catalogue().workloads.items() if name in workload.slots}
    assert alone == set(CASES), "say above how to make a tiny case of it"


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize(("workload", "name", "pass_"), every())
def test_it_measures_or_says_why_not(tmp_path: Path, workload: str, name: str, dtype: str, pass_: Pass) -> None:
    if name == "compiled" and (dtype != "fp32" or pass_ is Pass.FORWARD):
        pytest.skip("it takes long to compile: once, in both directions, is enough")
    if name == "flex" and (dtype, pass_) == ("bf16", Pass.FORWARD):
        pytest.skip("it takes long to compile: under masks it is measured in bf16")
    case: Case = dataclasses.replace(CASES[workload](name), dtype=dtype, pass_=pass_)
    if name == "flex":
        case = dataclasses.replace(case, params={**case.params, **RIGHT_FOR_FLEX})
    impl = load_catalogue().implementation(workload, name)
    reply = answer(tmp_path, case)
    if refusal := impl.declared_refusal(case):
        assert (reply.status, reply.reason) == (Status.UNSUPPORTED, refusal)
    elif missing := missing_requirements(impl):
        assert reply.status is Status.UNAVAILABLE
        assert missing[0] in str(reply.reason)
    elif name in ABSENT:
        assert reply.status is Status.UNAVAILABLE, reply.traceback
        assert str(reply.reason).startswith(ABSENT[name])
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
