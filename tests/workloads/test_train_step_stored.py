"""Real weights of a whole model: they are the ones that the step computes with, and rows say whose they are."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from bench.catalogue import load_catalogue
from bench.catalogue.shapes import read_models
from bench.records import Pass
from bench.suite import expand, load_suite
from bench.workloads.train_step import WORKLOAD
from bench.workloads.train_step._architectures import ARCHITECTURES
from bench.workloads.train_step._learning import small_spec
from bench.workloads.train_step._model import make_model
from bench.workloads.train_step._spec import DecoderShape
from bench.workloads.train_step._stored import fill, known_by
from tests.workloads.training import training

SUITE = Path(__file__).parents[2] / "suites" / "train_step.yaml"
NAMED = sorted(name for name, shape in read_models().items() if shape.architecture in ARCHITECTURES)


def test_cases_name_the_weights_only_where_they_are_no_random_ones() -> None:
    catalogue = load_catalogue()
    for sets, named in (([], None), (["weights=mine@0123456789ab"], "mine@0123456789ab")):
        cases = expand(load_suite(SUITE, catalogue, profile="cpu", sets=sets), catalogue, device="cpu").cases
        # Whose weights are random lacks the parameter, as the cases of rows that were stored before there was one.
        assert {case.params.get("weights") for case in cases} == {named}
        assert all(bool(WORKLOAD.stored_tensors(case)) is (named is not None) for case in cases)


def test_the_step_computes_with_the_weights_of_the_folder() -> None:
    case = training(weights="mine@0123456789ab")
    spec = WORKLOAD.spec(case)
    theirs = make_model(spec, 3, torch.device("cpu"), "fp32", "eager")
    tensors = {name: weight.detach().clone() * 1.5 for name, weight in theirs.named_parameters()}
    catalogue = load_catalogue()
    built = {slot: catalogue.implementation(slot, name) for slot, name in case.subject.items()}
    bound = WORKLOAD.with_weights(tensors.__getitem__).bind(spec, built, {"seed": torch.tensor(7)})
    step = bound.forward
    for name, weight in step.model.named_parameters():
        assert torch.equal(weight, tensors[name].to(weight.dtype)), name
    assert small_spec(spec).weights == "random"
    assert WORKLOAD.cost(spec, Pass.STEP) == WORKLOAD.cost(WORKLOAD.spec(training()), Pass.STEP)


@pytest.mark.parametrize("name", NAMED)
def test_every_family_has_the_tensors_that_a_folder_is_known_by(name: str) -> None:
    spec = WORKLOAD.spec(training())
    whole = read_models()[name]
    shape = DecoderShape(**{field.name: getattr(whole, field.name) for field in dataclasses.fields(DecoderShape)})
    spec = dataclasses.replace(spec, shape=dataclasses.replace(shape, layers=1))
    model = make_model(spec, 0, torch.device("meta"), "bf16", "eager")
    shapes = {name: tuple(weight.shape) for name, weight in model.named_parameters()}
    assert {name: shapes.get(name) for name in known_by(spec.shape)} == known_by(spec.shape)


def test_without_a_folder_or_with_another_shape_it_says_what_to_do() -> None:
    model = torch.nn.Linear(2, 3, bias=False)
    with pytest.raises(ValueError, match="say which one with --weights DIR"):
        fill(model, "mine@0", None)
    with pytest.raises(ValueError, match=r"weight of mine@0 has the shape \(1, 2\), not \(3, 2\)"):
        fill(model, "mine@0", lambda name: torch.ones(1, 2))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"model.layers.1.self_attn.o_proj.weight": torch.ones(1)}, "it is another model"),
        ({"model.layers.0.self_attn.q_proj.bias": torch.ones(1)}, "it is another model"),
        ({"model.layers.0.self_attn.q_norm.weight": torch.ones(1)}, "it is another model"),
        ({"model.layers.0.weight": torch.ones(3, 2, dtype=torch.int8)}, "not quantized"),
        ({"model.layers.0.weight": torch.ones(3, 2).to(torch.float8_e4m3fn)}, "not quantized"),
    ],
)
def test_a_deeper_model_another_family_and_quantized_weights_are_refused(more: dict[str, torch.Tensor], words: str) -> None:
    model = torch.nn.ModuleDict(
        {"model": torch.nn.ModuleDict({"layers": torch.nn.ModuleList([torch.nn.Linear(2, 3, bias=False)])})}
    )
    held = {"model.layers.0.weight": torch.ones(3, 2)}
    fill(model, "mine@0", held.__getitem__)
    with pytest.raises(ValueError, match=words):
        fill(model, "mine@0", {**held, **more}.__getitem__)
