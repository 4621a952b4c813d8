"""The semantics of layer normalisation."""

from __future__ import annotations

import torch

from bench.catalogue import load_catalogue
from bench.declare import NormSpec
from bench.records import Pass
from bench.workloads.layer_norm import WORKLOAD

SPEC = NormSpec(batch=2, seq_len=5, hidden_size=16, eps=1e-5, dtype="fp32")


def parts() -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(2)
    return WORKLOAD.make_inputs(SPEC, "cpu", generator), WORKLOAD.make_parameters(SPEC, "cpu", generator)


def test_the_reference_is_torchs_layer_norm() -> None:
    inputs, parameters = parts()
    x, weight, bias = inputs["x"].double(), parameters["weight"].double(), parameters["bias"].double()
    expected = torch.nn.functional.layer_norm(x, (16,), weight, bias, SPEC.eps)
    torch.testing.assert_close(WORKLOAD.reference(SPEC, {"x": x}, {"weight": weight, "bias": bias})["out"], expected)


def test_without_a_bias_it_is_coheres() -> None:
    from transformers.models.cohere.modeling_cohere import CohereLayerNorm

    inputs, parameters = parts()
    theirs = CohereLayerNorm(16, eps=SPEC.eps)
    with torch.no_grad():
        theirs.weight.copy_(parameters["weight"])
    ours = WORKLOAD.reference(SPEC, inputs, {"weight": parameters["weight"], "bias": torch.zeros(16)})["out"]
    torch.testing.assert_close(ours, theirs(inputs["x"]))


def test_replacements_own_weight_and_bias_and_give_both_gradients() -> None:
    inputs, parameters = parts()
    for name in ("eager", "torch_native"):
        impl = load_catalogue().implementation("layer_norm", name)
        copies = {key: tensor.clone() for key, tensor in parameters.items()}
        bound = WORKLOAD.bind(SPEC, {"layer_norm": impl.builder(SPEC)}, copies)
        assert list(bound.parameters) == ["weight", "bias"]
        bound.forward(inputs)["out"].sum().backward()
        assert all(parameter.grad is not None for parameter in bound.parameters.values())


def test_costs_of_both_directions_add_up() -> None:
    forward, backward, both = (WORKLOAD.cost(SPEC, pass_) for pass_ in WORKLOAD.passes)
    assert (forward.flops, forward.bytes) == (7 * 160, (2 * 160 + 2 * 16) * 4)
    assert (backward.flops, backward.bytes) == (13 * 160, (3 * 160 + 3 * 16) * 4)
    assert both.flops == 20 * 160
    assert both.bytes == (5 * 160 + 5 * 16) * 4
    assert both.tokens == 10
    assert WORKLOAD.passes == (Pass.FORWARD, Pass.BACKWARD, Pass.FORWARD_BACKWARD)


def test_the_slice_takes_both_parameters_whole() -> None:
    sliced = WORKLOAD.slice(SPEC)
    assert sliced is not None
    part, pick = sliced
    inputs, parameters = parts()
    whole = WORKLOAD.reference(SPEC, inputs, parameters)["out"]
    picked = {"x": pick("x", inputs["x"])}
    torch.testing.assert_close(WORKLOAD.reference(part, picked, parameters)["out"], pick("out", whole))  # type: ignore[arg-type]
    assert all(pick(f"grad_{name}", tensor) is tensor for name, tensor in parameters.items())
