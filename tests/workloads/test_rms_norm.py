"""The semantics of RMS normalisation."""

from __future__ import annotations

import pytest
import torch

from bench.catalogue import load_catalogue
from bench.declare import NormSpec
from bench.workloads.rms_norm import WORKLOAD, plain_module

SPEC = NormSpec(batch=2, seq_len=5, hidden_size=16, eps=1e-5, dtype="fp32")


def parts() -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(2)
    return WORKLOAD.make_inputs(SPEC, "cpu", generator), WORKLOAD.make_parameters(SPEC, "cpu", generator)


def test_the_reference_is_torchs_rms_norm() -> None:
    inputs, parameters = parts()
    x, weight = inputs["x"].double(), parameters["weight"].double()
    expected = torch.nn.functional.rms_norm(x, (16,), weight, SPEC.eps)
    torch.testing.assert_close(WORKLOAD.reference(SPEC, {"x": x}, {"weight": weight})["out"], expected)


def test_the_plain_module_is_llamas() -> None:
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    inputs, parameters = parts()
    theirs = LlamaRMSNorm(16, eps=SPEC.eps)
    with torch.no_grad():
        theirs.weight.copy_(parameters["weight"])
    ours = plain_module(SPEC)(parameters["weight"].clone())
    assert torch.equal(ours(inputs["x"]), theirs(inputs["x"]))
    assert torch.equal(ours.bfloat16()(inputs["x"].bfloat16()), theirs.bfloat16()(inputs["x"].bfloat16()))


def test_every_replacement_owns_the_plain_modules_weight() -> None:
    inputs, parameters = parts()
    for impl in load_catalogue().implementations("rms_norm").values():
        if impl.requires or impl.name == "compiled":  # that takes seconds to compile, and is the plain module where it stands
            continue
        bound = WORKLOAD.bind(SPEC, {"rms_norm": impl.builder(SPEC)}, {"weight": parameters["weight"].clone()})
        assert set(bound.parameters) == {"weight"}
        torch.testing.assert_close(bound.parameters["weight"].detach(), parameters["weight"])
        bound.forward(inputs)["out"].sum().backward()
        assert bound.parameters["weight"].grad is not None


def test_costs_of_both_directions_add_up() -> None:
    forward, backward, both = (WORKLOAD.cost(SPEC, pass_) for pass_ in WORKLOAD.passes)
    assert forward.bytes == (2 * 160 + 16) * 4
    assert backward.bytes == (3 * 160 + 2 * 16) * 4
    assert both.bytes == forward.bytes + backward.bytes
    assert both.flops == (forward.flops or 0) + (backward.flops or 0)
    assert both.tokens == 10


def test_the_slice_is_rows_of_every_sequence_and_the_whole_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.workloads.rms_norm._rows.SLICE_ELEMENTS", SPEC.batch * 3 * SPEC.hidden_size)
    sliced = WORKLOAD.slice(SPEC)
    assert sliced is not None
    part, pick = sliced
    inputs, parameters = parts()
    whole = WORKLOAD.reference(SPEC, inputs, parameters)["out"]
    picked = {"x": pick("x", inputs["x"])}
    assert (part.batch, part.seq_len) == (SPEC.batch, 3)
    torch.testing.assert_close(WORKLOAD.reference(part, picked, parameters)["out"], pick("out", whole))  # type: ignore[arg-type]
    assert torch.equal(picked["x"][:, -1], inputs["x"][:, -1])  # type: ignore[index]
    assert pick("grad_weight", parameters["weight"]) is parameters["weight"]
