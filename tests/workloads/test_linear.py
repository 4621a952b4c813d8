"""The semantics of the linear workload: shapes, numbers, costs, the slice, and what a layer holds."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch

from bench.catalogue import load_catalogue
from bench.errors import Unsupported
from bench.records import Cost, Pass
from bench.suite import suite_from_data
from bench.suite.expansion import expand
from bench.workloads.linear import LAYERS, WORKLOAD, LinearSpec
from bench.workloads.linear._calls import Conversion, plain_linear
from bench.workloads.linear._held import held_bytes
from bench.workloads.linear._torchao import multiplying_int8
from tests.workloads.linear_cases import linear

SPEC = LinearSpec(batch=1, seq_len=6, in_features=64, out_features=40, bias=True, dtype="fp32")


def parts(spec: LinearSpec = SPEC) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(2)
    return WORKLOAD.make_inputs(spec, "cpu", generator), WORKLOAD.make_parameters(spec, "cpu", generator)


def test_every_layer_of_a_model_has_the_shape_that_transformers_gives_it() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=256, intermediate_size=704, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
        vocab_size=512, tie_word_embeddings=False,
    )  # fmt: skip
    with torch.device("meta"):
        theirs = {name: tuple(tensor.shape) for name, tensor in LlamaForCausalLM(config).named_parameters()}
    for layer in LAYERS:
        case = linear("plain", params={"layer": layer, "value_head_dim": 32, "layer_index": 1, "weights": "tiny@0"})
        ((name, shape),) = WORKLOAD.stored_tensors(case).items()
        assert theirs[name] == shape
        spec = WORKLOAD.spec(case)
        assert (spec.tensor, (spec.out_features, spec.in_features)) == (name, shape)


def test_the_reference_is_torchs_linear() -> None:
    inputs, parameters = parts()
    expected = inputs["x"] @ parameters["weight"].T + parameters["bias"]
    torch.testing.assert_close(WORKLOAD.reference(SPEC, inputs, parameters)["out"], expected)


def test_outputs_are_of_the_size_of_one() -> None:
    spec = dataclasses.replace(SPEC, in_features=1024, out_features=256, bias=False, seq_len=64)
    out = WORKLOAD.reference(spec, *parts(spec))["out"]
    assert 0.9 < float(out.square().mean().sqrt()) < 1.1


def test_outliers_are_planted_in_whole_features_and_survive_a_redraw() -> None:
    spec = dataclasses.replace(
        SPEC, in_features=512, out_features=256, seq_len=256, weight_outliers=0.004, activation_outliers=0.004
    )
    inputs, parameters = parts(spec)
    for tensor, other in ((inputs["x"][0], parameters["weight"]), (parameters["weight"], inputs["x"][0])):
        by_feature = tensor.square().mean(0).sqrt()
        usual = by_feature.median()
        planted = (by_feature > 5 * usual).nonzero().flatten().tolist()
        assert len(planted) == 2
        assert all(15 < float(by_feature[feature] / usual) < 25 for feature in planted)
        others = other.square().mean(0).sqrt()
        assert not any(float(others[feature] / others.median()) > 5 for feature in planted)
    before = inputs["x"].clone()
    WORKLOAD.redraw(spec, inputs, torch.Generator().manual_seed(3))
    assert not torch.equal(before, inputs["x"])
    torch.testing.assert_close(before.square().mean((0, 1)).sqrt(), inputs["x"].square().mean((0, 1)).sqrt(), rtol=0.4, atol=0.1)


def test_a_share_that_is_not_zero_plants_one_feature_at_least() -> None:
    _, parameters = parts(dataclasses.replace(SPEC, weight_outliers=1e-6))
    assert float(parameters["weight"].abs().amax(0).max()) > 5 * float(parameters["weight"].abs().amax(0).median())


def test_the_small_problem_is_always_of_normal_numbers() -> None:
    unusual = dataclasses.replace(
        SPEC, weight_outliers=0.1, activation_outliers=0.1, weights="tiny@0", tensor="lm_head.weight", in_features=4096
    )
    small = WORKLOAD.small_spec(unusual)
    assert small.normal
    assert small.tensor is None
    assert small.in_features == 256
    assert not unusual.normal
    assert WORKLOAD.tolerance(small, 0.02) == 0.02
    assert WORKLOAD.tolerance(unusual, 0.02) == 0.5


def test_the_small_problem_sums_over_as_many_tokens_as_float8_products_take() -> None:
    large = dataclasses.replace(SPEC, seq_len=8192, in_features=4096, out_features=14336)
    assert WORKLOAD.small_spec(dataclasses.replace(large, weight_grad=True)).seq_len % 16 == 0
    assert WORKLOAD.small_spec(large).seq_len % 16


def test_few_rows_that_torch_has_no_int8_product_of_are_refused_in_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_for_few(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        raise RuntimeError(f"needs more than 16, but got {len(x)}")

    monkeypatch.setattr(torch, "_int_mm", none_for_few)
    plain = torch.nn.Linear(64, 40)
    many = multiplying_int8(lambda module: module, dataclasses.replace(SPEC, seq_len=17))
    assert many(plain) is plain
    few = multiplying_int8(lambda module: module, dataclasses.replace(SPEC, seq_len=16))
    with pytest.raises(Unsupported, match="16 rows here, and torchao would use fp32: needs more than 16, but got 16"):
        few(plain)


def test_few_rows_are_converted_where_torch_has_an_int8_product_of_them() -> None:
    plain = torch.nn.Linear(64, 40)
    assert multiplying_int8(lambda module: module, SPEC)(plain) is plain


def test_a_frozen_weight_costs_two_products_and_one_that_learns_three() -> None:
    frozen, learning = SPEC, dataclasses.replace(SPEC, weight_grad=True)
    product = 2 * 6 * 64 * 40
    x, weight, out = 6 * 64 * 4, 64 * 40 * 4, 6 * 40 * 4
    assert WORKLOAD.cost(frozen, Pass.FORWARD) == Cost(product, x + weight + out, 6)
    assert WORKLOAD.cost(frozen, Pass.BACKWARD) == Cost(product, out + weight + x, 6)
    assert WORKLOAD.cost(learning, Pass.BACKWARD) == Cost(2 * product, out + 2 * weight + 2 * x, 6)
    assert WORKLOAD.cost(learning, Pass.FORWARD_BACKWARD) == Cost(3 * product, 3 * x + 3 * weight + 2 * out, 6)
    assert WORKLOAD.cost(frozen, Pass.QUANTIZE) == Cost(bytes=weight)


def test_a_frozen_weight_gets_no_gradient_and_one_that_learns_does() -> None:
    assert WORKLOAD.frozen(SPEC) == {"weight", "bias"}
    assert WORKLOAD.frozen(dataclasses.replace(SPEC, weight_grad=True)) == frozenset()


@pytest.mark.parametrize("shape", [(6, 40), (300, 1100)])
def test_the_slice_is_a_problem_of_its_own(shape: tuple[int, int]) -> None:
    spec = dataclasses.replace(SPEC, seq_len=shape[0], out_features=shape[1])
    part, pick = WORKLOAD.slice(spec)  # type: ignore[misc]
    inputs, parameters = parts(spec)
    whole = WORKLOAD.reference(spec, inputs, parameters)["out"]
    picked = {name: pick(name, tensor) for name, tensor in parameters.items()}
    alone = WORKLOAD.reference(part, {"x": pick("x", inputs["x"])}, picked)["out"]  # type: ignore[dict-item,arg-type]
    assert alone.shape == (1, part.seq_len, part.out_features)
    assert part.seq_len <= 128
    assert part.out_features <= 512
    torch.testing.assert_close(alone, pick("out", whole))
    assert pick("grad_x", inputs["x"]).shape == (1, part.seq_len, 64)  # type: ignore[union-attr]
    assert pick("grad_weight", parameters["weight"]).shape == (part.out_features, 64)  # type: ignore[union-attr]


def test_real_weights_are_taken_by_name_and_cast() -> None:
    stored = {"lm_head.weight": torch.arange(40 * 64, dtype=torch.float32).reshape(40, 64)}
    workload = WORKLOAD.with_weights(stored.__getitem__)
    spec = dataclasses.replace(SPEC, weights="tiny@0", tensor="lm_head.weight", dtype="bf16", bias=False)
    weight = workload.make_parameters(spec, "cpu", torch.Generator())["weight"]
    assert torch.equal(weight, stored["lm_head.weight"].bfloat16())
    weight.zero_()
    assert stored["lm_head.weight"].any()


def test_real_weights_without_a_folder_or_of_another_shape_are_told() -> None:
    spec = dataclasses.replace(SPEC, weights="tiny@0", tensor="lm_head.weight")
    with pytest.raises(ValueError, match="--weights DIR"):
        WORKLOAD.make_parameters(spec, "cpu", torch.Generator())
    workload = WORKLOAD.with_weights(lambda _name: torch.zeros(3, 4))
    with pytest.raises(ValueError, match=r"has the shape \(3, 4\), not \(40, 64\)"):
        workload.make_parameters(spec, "cpu", torch.Generator())


def test_a_conversion_gets_a_fresh_plain_layer_each_time_and_leaves_the_weight_alone() -> None:
    inputs, parameters = parts()
    seen: list[Any] = []

    def destroys(plain: torch.nn.Linear) -> torch.nn.Module:
        seen.append(plain)
        plain.weight = torch.nn.Parameter(torch.zeros_like(plain.weight))
        return plain

    conversion = Conversion(destroys, parameters)
    conversion.prepare(2)
    for _ in range(2):
        returned = conversion(inputs)
    assert len({id(plain) for plain in seen}) == 2
    assert conversion.layer is seen[-1]
    assert torch.equal(conversion.observe(returned)["out"], parameters["bias"].expand(1, 6, 40))
    assert parameters["weight"].any()
    with pytest.raises(IndexError):
        conversion(inputs)


def test_what_a_layer_holds_is_counted_once_and_wherever_it_lies() -> None:
    _, parameters = parts()
    layer = plain_linear(parameters, learns=False)
    own = (64 * 40 + 40) * 4
    assert held_bytes(layer) == own

    class State:
        def __init__(self) -> None:
            self.scales = [torch.zeros(10, dtype=torch.float64)]
            self.same = layer.weight.data
            self.owner = layer

    layer.state = State()  # type: ignore[assignment]
    layer.weight.absmax = {"a": torch.zeros(7, dtype=torch.uint8)}  # type: ignore[attr-defined]
    assert held_bytes(layer) == own + 80 + 7


@pytest.mark.parametrize("name", ["quantization", "float8_training"])
def test_the_published_profile_has_twelve_points_at_most(name: str) -> None:
    from pathlib import Path

    from bench.suite import load_suite

    catalogue = load_catalogue()
    suite = load_suite(Path(__file__).parents[2] / "suites" / f"{name}.yaml", catalogue, profile="published")
    cases = expand(suite, catalogue, device="cuda").cases
    points = {case.point_key for case in cases}
    assert 1 < len(points) <= 12
    assert {case.params["tokens"] for case in cases} >= ({16, 512, 8192} if name == "quantization" else {8192})
    assert suite_from_data(suite.to_data(), catalogue).sweep == suite.sweep


def test_nine_percent_is_what_nf4_costs_normal_numbers() -> None:
    """The tolerances' derivation, from the levels alone: quantize blocks of 64 by hand."""
    from bitsandbytes.functional import get_4bit_type

    for quant_type, expected, band in (("nf4", 0.091, 0.003), ("fp4", 0.122, 0.004)):
        levels = get_4bit_type(quant_type, device="cpu").sort().values
        blocks = torch.randn(4096, 64, generator=torch.Generator().manual_seed(1))
        scaled = blocks / blocks.abs().amax(1, keepdim=True)
        nearest = levels[torch.bucketize(scaled, (levels[:-1] + levels[1:]) / 2)]
        error = float(((nearest - scaled) * blocks.abs().amax(1, keepdim=True)).square().mean().sqrt())
        assert math.isclose(error, expected, abs_tol=band)
