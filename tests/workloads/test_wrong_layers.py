"""Layers that are right by all numbers near 1 in 16 bits, and wrong where it matters: another eps, another form of the activation."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from bench.records import Pass, Status
from tests.factories import case
from tests.worker.trials import answer

NORM = """
from bench.declare import implementation
import dataclasses

@implementation(workload="{workload}")
def layer(spec):
    from bench.workloads.{workload} import plain_module
    other = dataclasses.replace(spec, eps={eps})

    def replace(plain):
        return plain_module(other)(*(parameter.data for parameter in plain.parameters()))

    return replace
"""

MLP = """
from bench.declare import implementation

@implementation(workload="{workload}")
def layer(spec):
    from torch.nn import functional
    from bench.workloads.swiglu._gated import activation_module, with_activation

    def activate(gate, up):
        return {form} * up

    def replace(module):
        return with_activation(module, activate) if spec.part == "mlp" else activation_module(activate)

    return replace
"""
RIGHT = {"geglu": 'functional.gelu(gate, approximate="tanh")', "swiglu": "functional.silu(gate)"}
WRONG = {"geglu": "functional.gelu(gate)", "swiglu": "gate * (1.05 * gate).sigmoid()"}


def failed(directory: Path, source: str, workload: str, dtype: str, **params: Any) -> set[str]:
    """Names of the checks that a layer of 16 bits does not pass."""
    path = directory / "layer.py"
    path.write_text(source)
    shape = {"seq_len": 40, "batch": 2, **params}
    of = dataclasses.replace(
        case("layer", params=shape, pass_=Pass.FORWARD_BACKWARD, dtype=dtype), workload=workload, subject={workload: "layer"}
    )
    reply = answer(directory, of, plugins=(path,))
    assert (reply.status is Status.OK) == all(check.passed for check in reply.checks), reply.reason
    return {check.tensor for check in reply.checks if not check.passed}


@pytest.mark.parametrize("workload", ["rms_norm", "layer_norm", "fused_add_rms_norm"])
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_another_eps_is_found_in_16_bits(tmp_path: Path, workload: str, dtype: str) -> None:
    def fails_with(eps: str) -> set[str]:
        return failed(tmp_path, NORM.format(workload=workload, eps=eps), workload, dtype, hidden_size=96, eps=1e-5)

    assert fails_with("spec.eps") == set()
    assert {f"{'normed' if workload == 'fused_add_rms_norm' else 'out'} beside eps"} == fails_with("1e-6")


@pytest.mark.parametrize("workload", ["geglu", "swiglu"])
@pytest.mark.parametrize("part", ["activation", "mlp"])
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_another_form_of_the_activation_is_found_in_16_bits(tmp_path: Path, workload: str, part: str, dtype: str) -> None:
    def fails_with(form: str) -> set[str]:
        return failed(
            tmp_path,
            MLP.format(workload=workload, form=form),
            workload,
            dtype,
            hidden_size=48,
            intermediate_size=96,
            part=part,
        )

    assert fails_with(RIGHT[workload]) == set()
    assert "activation's tail" in fails_with(WRONG[workload])
