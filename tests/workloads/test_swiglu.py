"""The semantics of both gated MLPs: against transformers' own, alone and in their parts."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from typing import Any

import pytest
import torch

from bench.catalogue import load_catalogue
from bench.workloads.geglu import WORKLOAD as GEGLU
from bench.workloads.swiglu import WORKLOAD as SWIGLU
from bench.workloads.swiglu._gated import PROJECTIONS, GatedMlp, MlpSpec, with_activation

SPEC = MlpSpec(batch=2, seq_len=5, hidden_size=16, intermediate_size=24, part="mlp", dtype="fp32")
ALONE = dataclasses.replace(SPEC, part="activation")
BOTH = [pytest.param(SWIGLU, id="swiglu"), pytest.param(GEGLU, id="geglu")]


def parts(workload: GatedMlp, spec: MlpSpec) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(2)
    return workload.make_inputs(spec, "cpu", generator), workload.make_parameters(spec, "cpu", generator)


def theirs(workload: GatedMlp) -> Any:
    from transformers import GemmaConfig, LlamaConfig
    from transformers.models.gemma.modeling_gemma import GemmaMLP
    from transformers.models.llama.modeling_llama import LlamaMLP

    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2, "num_key_value_heads": 2}
    return LlamaMLP(LlamaConfig(**sizes)) if workload is SWIGLU else GemmaMLP(GemmaConfig(**sizes))


@pytest.mark.parametrize("workload", BOTH)
def test_reference_and_plain_module_are_those_of_transformers(workload: GatedMlp) -> None:
    inputs, parameters = parts(workload, SPEC)
    module = theirs(workload)
    module.load_state_dict(parameters)
    expected = module(inputs["x"])
    torch.testing.assert_close(workload.reference(SPEC, inputs, parameters)["out"], expected)
    eager = load_catalogue().implementation(workload.name, "eager").builder(SPEC)
    bound = workload.bind(SPEC, {workload.name: eager}, {name: tensor.clone() for name, tensor in parameters.items()})
    assert torch.equal(bound.forward(inputs)["out"], expected)
    assert set(bound.parameters) == {f"{name}.weight" for name in PROJECTIONS}


@pytest.mark.parametrize("workload", BOTH)
def test_a_builder_takes_the_module_of_a_transformers_model_as_well(workload: GatedMlp) -> None:
    module = theirs(workload)
    replaced = load_catalogue().implementation(workload.name, "eager").builder(SPEC)(module)
    x = torch.randn(2, 5, 16)
    torch.testing.assert_close(replaced(x), module(x))


@pytest.mark.parametrize("workload", BOTH)
def test_the_activation_alone_is_what_stands_between_the_products(workload: GatedMlp) -> None:
    inputs, parameters = parts(workload, SPEC)
    linear = torch.nn.functional.linear
    gate, up, down = (parameters[f"{name}.weight"] for name in PROJECTIONS)
    between = {"gate": linear(inputs["x"], gate), "up": linear(inputs["x"], up)}
    alone = workload.reference(ALONE, between, {})["out"]
    torch.testing.assert_close(linear(alone, down), workload.reference(SPEC, inputs, parameters)["out"])
    assert {name: tuple(tensor.shape) for name, tensor in parts(workload, ALONE)[0].items()} == {
        "gate": (2, 5, 24),
        "up": (2, 5, 24),
    }
    assert parts(workload, ALONE)[1] == {}


def test_numbers_stay_near_one_so_that_an_error_can_be_seen() -> None:
    inputs, parameters = parts(SWIGLU, dataclasses.replace(SPEC, hidden_size=256, intermediate_size=512))
    out = SWIGLU.reference(SPEC, inputs, parameters)["out"]
    assert 0.1 < float(out.std()) < 2.0


@pytest.mark.parametrize(("workload", "per_element"), [(SWIGLU, (5, 10)), (GEGLU, (10, 21))])
def test_costs_are_three_products_forward_six_backward_and_the_activation(workload: GatedMlp, per_element: tuple[int, int]) -> None:
    tokens, product, between = 10, 2 * 10 * 16 * 24, 10 * 24
    forward, backward, both = (workload.cost(SPEC, pass_) for pass_ in workload.passes)
    assert forward.flops == 3 * product + per_element[0] * between
    assert backward.flops == 6 * product + per_element[1] * between
    assert both.flops == forward.flops + backward.flops
    weights = 3 * 16 * 24
    assert (forward.bytes, backward.bytes) == ((2 * tokens * 16 + weights) * 4, (3 * tokens * 16 + 2 * weights) * 4)
    alone = [workload.cost(ALONE, pass_) for pass_ in workload.passes]
    assert [cost.flops for cost in alone] == [per_element[0] * between, per_element[1] * between, sum(per_element) * between]
    assert [cost.bytes for cost in alone] == [3 * between * 4, 5 * between * 4, 8 * between * 4]


@pytest.mark.parametrize("workload", BOTH)
def test_the_slice_is_rows_and_whole_weights(workload: GatedMlp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.workloads.swiglu._gated.SLICE_ELEMENTS", SPEC.batch * 2 * 24)
    sliced = workload.slice(SPEC)
    assert sliced is not None
    part, pick = sliced
    inputs, parameters = parts(workload, SPEC)
    whole = workload.reference(SPEC, inputs, parameters)["out"]
    picked = {name: pick(name, tensor) for name, tensor in inputs.items()}
    assert part.seq_len == 2
    torch.testing.assert_close(workload.reference(part, picked, parameters)["out"], pick("out", whole))  # type: ignore[arg-type]
    assert pick("grad_up_proj.weight", parameters["up_proj.weight"]) is parameters["up_proj.weight"]


def test_a_small_problem_keeps_the_width_of_the_rows_between_the_products() -> None:
    small = SWIGLU.small_spec(dataclasses.replace(SPEC, batch=9, seq_len=999, hidden_size=4096, intermediate_size=14336))
    assert (small.batch, small.seq_len, small.hidden_size, small.intermediate_size) == (2, 33, 128, 14336)


def test_projections_that_are_converted_later_are_not_kept_by_the_module_that_was_replaced() -> None:
    plain = torch.nn.Module()
    for name in PROJECTIONS:
        setattr(plain, name, torch.nn.Linear(4, 4, bias=False))
    weights = [weakref.ref(getattr(plain, name)) for name in PROJECTIONS]
    mlp = with_activation(plain, torch.mul)
    del plain
    for name in PROJECTIONS:
        setattr(mlp, name, torch.nn.Linear(4, 4, bias=False))
    gc.collect()
    assert [weight() for weight in weights] == [None, None, None]
    assert mlp(torch.ones(1, 4)).shape == (1, 4)
