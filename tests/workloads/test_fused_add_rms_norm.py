"""The semantics of the residual's addition with the norm after it."""

from __future__ import annotations

import torch

from bench.catalogue import load_catalogue
from bench.declare import NormSpec
from bench.workloads.fused_add_rms_norm import WORKLOAD, plain_module

SPEC = NormSpec(batch=2, seq_len=5, hidden_size=16, eps=1e-5, dtype="fp32")


def parts() -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(2)
    return WORKLOAD.make_inputs(SPEC, "cpu", generator), WORKLOAD.make_parameters(SPEC, "cpu", generator)


def test_the_reference_is_an_addition_and_torchs_rms_norm() -> None:
    inputs, parameters = parts()
    x, residual = (inputs[name].double() for name in ("x", "residual"))
    weight = parameters["weight"].double()
    got = WORKLOAD.reference(SPEC, {"x": x, "residual": residual}, {"weight": weight})
    torch.testing.assert_close(got["new_residual"], x + residual)
    torch.testing.assert_close(got["normed"], torch.nn.functional.rms_norm(x + residual, (16,), weight, SPEC.eps))


def test_the_plain_module_is_what_llamas_layer_does_between_its_blocks() -> None:
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    inputs, parameters = parts()
    theirs = LlamaRMSNorm(16, eps=SPEC.eps)
    with torch.no_grad():
        theirs.weight.copy_(parameters["weight"])
    ours = plain_module(SPEC)(parameters["weight"].clone())
    for dtype in (torch.float32, torch.bfloat16):
        x, residual = inputs["x"].to(dtype), inputs["residual"].to(dtype)
        normed, new_residual = ours.to(dtype)(x, residual)
        assert torch.equal(new_residual, residual + x)
        assert torch.equal(normed, theirs.to(dtype)(residual + x))


def test_both_inputs_have_the_same_gradient_that_of_both_outputs_together() -> None:
    inputs, parameters = parts()
    for name in ("eager", "torch_native"):
        impl = load_catalogue().implementation("fused_add_rms_norm", name)
        bound = WORKLOAD.bind(SPEC, {"fused_add_rms_norm": impl.builder(SPEC)}, {"weight": parameters["weight"].clone()})
        leaves = {key: tensor.clone().requires_grad_() for key, tensor in inputs.items()}
        outputs = bound.forward(leaves)
        (outputs["normed"].sin().sum() + 2 * outputs["new_residual"].sum()).backward()
        assert leaves["x"].grad is not None
        torch.testing.assert_close(leaves["x"].grad, leaves["residual"].grad)
        alone = torch.autograd.grad(
            WORKLOAD.reference(SPEC, leaves, {"weight": parameters["weight"]})["normed"].sin().sum(), leaves["x"]
        )[0]
        torch.testing.assert_close(leaves["x"].grad, alone + 2)


def test_costs_of_both_directions_add_up() -> None:
    forward, backward, both = (WORKLOAD.cost(SPEC, pass_) for pass_ in WORKLOAD.passes)
    assert (forward.flops, forward.bytes) == (5 * 160, (4 * 160 + 16) * 4)
    assert (backward.flops, backward.bytes) == (12 * 160, (4 * 160 + 2 * 16) * 4)
    assert (both.flops, both.bytes, both.tokens) == (17 * 160, (8 * 160 + 3 * 16) * 4, 10)
