"""Every quantized layer through the real worker on a CPU: measured and within its format's error, or refused in words."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.catalogue import load_catalogue
from bench.declare import Unsupported
from bench.records import Pass, Reply, Status
from bench.workloads.linear import WORKLOAD, LinearSpec
from tests.worker.trials import answer, only
from tests.workloads.linear_cases import linear, small_enough

IMPLEMENTATIONS = load_catalogue().implementations("linear")
OUT, IN = 704, 256

ERRORS = {
    "plain": (0.0, 0.003),
    "int8_bnb": (0.007, 0.014),
    "int8_bnb_outliers": (0.007, 0.014),
    "int8_weight_only_ao": (0.005, 0.01),
    "int8_dynamic_ao": (0.007, 0.014),
    "int8_static_ao": (0.009, 0.018),
    "nf4_bnb": (0.085, 0.097),
    "nf4_bnb_double": (0.085, 0.097),
    "fp4_bnb": (0.115, 0.13),
    "fp4_bnb_double": (0.115, 0.13),
    "intx_int4_ao": (0.085, 0.105),
    "float8_weight_only_ao": (0.023, 0.029),
    "float8_training_tensorwise": (0.034, 0.042),
    "float8_training_rowwise": (0.034, 0.042),
}
"""The relative error of out, from the format's step and the distribution of normal numbers (each file says how)."""

ROW_SCALES = OUT * 4
BYTES = {
    "int8_bnb": OUT * IN + ROW_SCALES,
    "int8_bnb_outliers": OUT * IN + ROW_SCALES,
    "int8_weight_only_ao": OUT * IN + ROW_SCALES + OUT,  # a byte a row of zero points, all of them 0
    "int8_dynamic_ao": OUT * IN + ROW_SCALES + OUT,
    "int8_static_ao": OUT * IN + ROW_SCALES + OUT + 4,
    "nf4_bnb": OUT * IN // 2 + OUT * IN // 64 * 4 + 16 * 4,
    "fp4_bnb": OUT * IN // 2 + OUT * IN // 64 * 4 + 16 * 4,
    "nf4_bnb_double": OUT * IN // 2 + OUT * IN // 64 + OUT * IN // 64 // 256 * 4 + (16 + 256 + 1) * 4,
    "fp4_bnb_double": OUT * IN // 2 + OUT * IN // 64 + OUT * IN // 64 // 256 * 4 + (16 + 256 + 1) * 4,
    "intx_int4_ao": OUT * IN + OUT * IN // 32 * (2 + 1),  # a byte a weight, bf16 scales, zero points
    "float8_weight_only_ao": OUT * IN + ROW_SCALES,
}
"""What the converted layer holds: weights, scales by rows or blocks, tables."""


@pytest.fixture(autouse=True)
def caches_of_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another process compiles meanwhile must not look like a compilation of ours."""
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))


def refused(reply: Reply) -> str:
    assert reply.status is Status.UNSUPPORTED, f"{reply.reason}\n{reply.traceback}"
    return str(reply.reason)


@pytest.mark.parametrize("pass_", [Pass.FORWARD, Pass.FORWARD_BACKWARD, Pass.QUANTIZE])
@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_it_is_right_within_its_formats_error_or_says_why_not(tmp_path: Path, name: str, pass_: Pass) -> None:
    case = linear(name, dtype="bf16", pass_=pass_, params=small_enough(name))
    reply = answer(tmp_path, case)
    if refusal := IMPLEMENTATIONS[name].declared_refusal(case):
        assert refused(reply) == refusal
        return
    if name == "int4_weight_only_ao":
        assert (reply.status, reply.reason) == (Status.UNAVAILABLE, "ImportError: Requires mslk >= 1.0.0")
        return
    assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"
    assert reply.proof is not None
    assert reply.proof.verdict == "proved", reply.proof
    lowest, highest = ERRORS[name]
    assert lowest <= only(reply, "output_error").samples[0] <= highest
    checked = {(check.tensor, check.at) for check in reply.checks}
    expected = {"out", "grad_x"} if pass_ is Pass.FORWARD_BACKWARD else {"out"}
    assert checked == {(tensor, at) for tensor in expected for at in ("small", "measured", "finite")}
    if pass_ is Pass.QUANTIZE:
        assert only(reply, "weight_bytes").samples == (BYTES[name],)


@pytest.mark.parametrize("name", ["plain", "int8_bnb", "int8_weight_only_ao", "nf4_bnb", "float8_training_rowwise"])
def test_a_backward_alone_is_measured(tmp_path: Path, name: str) -> None:
    reply = answer(tmp_path, linear(name, dtype="bf16", pass_=Pass.BACKWARD, params=small_enough(name)))
    assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"
    assert "grad_x" in {check.tensor for check in reply.checks if check.at == "measured"}


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_a_weight_that_learns_gets_its_gradient_or_the_row_says_that_it_cannot(tmp_path: Path, name: str) -> None:
    case = linear(name, dtype="bf16", pass_=Pass.FORWARD_BACKWARD, params={"weight_grad": True, **small_enough(name)})
    reply = answer(tmp_path, case)
    if refusal := IMPLEMENTATIONS[name].declared_refusal(case):
        assert refused(reply) == refusal
    elif name == "plain" or name.startswith("float8_training"):
        assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"
        assert {"grad_weight", "grad_x"} <= {check.tensor for check in reply.checks if check.at == "measured"}
    else:
        assert "gets no gradient; weight_grad: false measures it frozen" in refused(reply)


def test_four_bits_take_half_a_byte_and_double_quantization_takes_less() -> None:
    weights = OUT * IN
    assert BYTES["nf4_bnb"] / weights == pytest.approx(4.5 / 8, rel=0.001)
    assert BYTES["nf4_bnb_double"] < BYTES["nf4_bnb"]
    assert BYTES["int8_bnb"] / weights == pytest.approx(1 + 4 / IN)
    assert BYTES["intx_int4_ao"] > weights


@pytest.mark.parametrize("name", [name for name in BYTES if name != "int4_weight_only_ao"])
def test_a_bias_is_added_and_kept(tmp_path: Path, name: str) -> None:
    reply = answer(tmp_path, linear(name, dtype="fp32", params={"bias": True}))
    assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"


WRONG = """
from bench.declare import implementation

@implementation(workload="linear", requires=["bitsandbytes"], tolerance={tolerance})
def wrong_scale(spec):
    from bench.workloads.linear.{name} import {name}
    import torch
    convert = {name}.builder(spec)

    class Wrong(torch.nn.Module):
        def __init__(self, right):
            super().__init__()
            self.right = right

        def forward(self, x):
            return {factor} * self.right(x)

    return lambda plain: Wrong(convert(plain))
"""


@pytest.mark.parametrize("name", ["int8_bnb", "nf4_bnb", "fp4_bnb_double", "intx_int4_ao", "float8_weight_only_ao"])
@pytest.mark.parametrize(("factor", "status"), [(1.1, Status.INCORRECT), (0.9, Status.INCORRECT), (1.0, Status.OK)])
def test_a_scale_that_is_ten_percent_off_is_incorrect(tmp_path: Path, name: str, factor: float, status: Status) -> None:
    path = tmp_path / "wrong_scale.py"
    path.write_text(WRONG.format(name=name, factor=factor, tolerance=IMPLEMENTATIONS[name].tolerance))
    reply = answer(tmp_path, linear("wrong_scale", dtype="bf16"), plugins=(path,))
    assert reply.status is status, f"{reply.reason}\n{reply.traceback}"
    if status is Status.INCORRECT:
        assert "out (small)" in str(reply.reason)
        assert not [m for m in reply.measurements if m.metric == "time_s"]


@pytest.mark.parametrize("name", [name for name, impl in IMPLEMENTATIONS.items() if impl.tolerance is not None])
def test_every_tolerance_is_too_small_for_a_scale_that_is_ten_percent_off(name: str) -> None:
    tolerance = IMPLEMENTATIONS[name].tolerance
    assert tolerance is not None
    if name in ERRORS:
        lowest, highest = ERRORS[name]
        assert tolerance < (lowest**2 + 0.1**2) ** 0.5
        assert tolerance > 1.05 * highest


def error_of(name: str, **changes: Any) -> float:
    """The relative error of a layer's output, against float64."""
    spec = dataclasses.replace(
        LinearSpec(batch=1, seq_len=64, in_features=1024, out_features=256, bias=False, dtype="bf16", training=False), **changes
    )
    generator = torch.Generator().manual_seed(5)
    inputs, parameters = WORKLOAD.make_inputs(spec, "cpu", generator), WORKLOAD.make_parameters(spec, "cpu", generator)
    bound = WORKLOAD.bind(spec, {"linear": IMPLEMENTATIONS[name].builder(spec)}, dict(parameters))
    with torch.no_grad():
        out = bound.forward(inputs)["out"].double()
    exact = inputs["x"].double() @ parameters["weight"].double().T
    return float((out - exact).square().mean().sqrt() / exact.square().mean().sqrt())


def test_outliers_in_the_weights_cost_nf4_most_of_what_it_keeps() -> None:
    assert error_of("nf4_bnb", weight_outliers=0.01) > 1.5 * error_of("nf4_bnb")


def test_the_paper_is_right_about_outliers_in_the_inputs() -> None:
    """Without its threshold LLM.int8() loses what the small inputs say; with it the error stays what it was."""
    without, with_threshold = (error_of(name, activation_outliers=0.002) for name in ("int8_bnb", "int8_bnb_outliers"))
    assert without > 1.5 * with_threshold
    assert with_threshold < 1.3 * error_of("int8_bnb_outliers")


def test_a_conversion_leaves_the_original_weight_as_it_was() -> None:
    for name, impl in IMPLEMENTATIONS.items():
        if name in BYTES:
            spec = LinearSpec(batch=1, seq_len=4, in_features=256, out_features=64, bias=True, dtype="fp32", training=False)
            parameters = WORKLOAD.make_parameters(spec, "cpu", torch.Generator().manual_seed(1))
            original = {key: tensor.clone() for key, tensor in parameters.items()}
            WORKLOAD.bind(spec, {"linear": impl.builder(spec)}, parameters)
            assert all(torch.equal(parameters[key], tensor) for key, tensor in original.items()), name


@pytest.mark.parametrize(
    ("name", "in_features", "words"),
    [
        ("int8_bnb", 66, "66 input features are no multiple of 4: bitsandbytes would multiply in fp32"),
        ("int4_weight_only_ao", 192, "192 input features are no multiple of 128: torchao would leave the layer as it is"),
        ("float8_dynamic_ao", 72, "the sides of 64 x 72 are no multiples of 16: torchao would leave the layer as it is"),
    ],
)
def test_shapes_for_which_a_library_would_silently_do_something_else_are_refused(name: str, in_features: int, words: str) -> None:
    spec = LinearSpec(batch=1, seq_len=4, in_features=in_features, out_features=64, bias=False, dtype="bf16")
    with pytest.raises(Unsupported, match=words):
        IMPLEMENTATIONS[name].builder(spec)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "int8_dynamic_ao", "intx_int4_ao"])
def test_a_compiled_layer_is_right_and_still_known(tmp_path: Path, name: str) -> None:
    torch._dynamo.reset()
    reply = answer(tmp_path, linear(name, dtype="bf16", params={"compile": "default", **small_enough(name)}))
    assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"
    assert reply.proof is not None
    assert reply.proof.verdict == "proved"
    lowest, highest = ERRORS[name]
    assert lowest <= only(reply, "output_error").samples[0] <= highest
    assert only(reply, "compile_cold_s").samples[0] > 10 * only(reply, "time_s").samples[0]


@pytest.mark.parametrize(("name", "unusual"), [("nf4_bnb", "weight_outliers"), ("int8_bnb", "activation_outliers")])
def test_planted_outliers_are_a_finding_and_no_fault(tmp_path: Path, name: str, unusual: str) -> None:
    reply = answer(tmp_path, linear(name, dtype="bf16", params={unusual: 0.01}))
    assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"
    assert only(reply, "output_error").samples[0] > 1.5 * ERRORS[name][1]
    limits = {check.at: check.limit for check in reply.checks if check.tensor == "out"}
    assert limits["small"] == IMPLEMENTATIONS[name].tolerance
    assert limits["measured"] == 0.5
