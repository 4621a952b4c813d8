"""The formulas against numbers that others have published, and against sums that were read off traces of transformers' decoders."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench.plan import ModelSpec, TrainSpec, model_named, predict_step
from bench.plan.layer import decoder_layer, dims_of, last_norm
from bench.plan.loss import loss
from bench.plan.optimizers import states
from bench.plan.pieces import Layer, mlp, norm
from bench.plan.published import saved_by_layers
from bench.plan.tape import SAME, Operation, Tape, Tensor
from bench.plan.weights import Weight, kept_bytes, parameters, weights

MIB, GIB = 2**20, 2**30
LIGER = {"rms_norm": "liger", "rope": "liger", "swiglu": "liger"}
LLAMA = model_named("llama-3-8b")


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("llama-3-8b", 8_030_261_248),
        ("llama-3.2-1b", 1_235_814_400),
        ("llama-2-7b", 6_738_415_616),
        ("llama-3-70b", 70_553_706_496),
        ("qwen2.5-7b", 7_615_616_512),
        ("qwen3-8b", 8_190_735_360),
        ("mistral-7b", 7_248_023_552),
    ],
)
def test_a_model_has_as_many_parameters_as_its_makers_say(name: str, published: int) -> None:
    assert parameters(model_named(name)) == published


def saved_per_token(**changes: Any) -> float:
    train = TrainSpec(seq_len=1024, **changes)
    return saved_by_layers(LLAMA, train) / LLAMA.layers / 1024


@pytest.mark.parametrize(
    ("changes", "formula"),
    [
        ({"attention": "sdpa_flash"}, lambda h, a, k, d, i, s: 16 * h + 8 + 4 * a * d + 4 * k * d + 4 * a + 8 * i),
        (
            {"attention": "flash_attn2", "rms_norm": "liger"},
            lambda h, a, k, d, i, s: 8 * h + 8 + 4 * a * d + 4 * k * d + 4 * a + 8 * i,
        ),
        (
            {"attention": "sdpa_cudnn", "swiglu": "liger"},
            lambda h, a, k, d, i, s: 16 * h + 8 + 4 * a * d + 4 * k * d + 4 * a + 6 * i,
        ),
        ({"attention": "sdpa_flash", **LIGER}, lambda h, a, k, d, i, s: 8 * h + 8 + 4 * a * d + 4 * k * d + 4 * a + 6 * i),
        ({"attention": "sdpa_efficient"}, lambda h, a, k, d, i, s: 16 * h + 8 + 8 * a * d + 4 * a + 8 * i),
        ({}, lambda h, a, k, d, i, s: 16 * h + 8 + 8 * a * d + 8 * i + 6 * a * s),
        ({"attention": "sdpa_math"}, lambda h, a, k, d, i, s: 16 * h + 8 + 14 * a * d + 8 * i + 4 * a * s),
    ],
    ids=["flash", "liger norm", "liger swiglu", "liger", "efficient", "eager", "math"],
)
def test_a_layer_saves_what_its_formula_says(changes: dict[str, str], formula: Any) -> None:
    assert saved_per_token(**changes) == formula(4096, 32, 8, 128, 14336, 1024)


def test_liger_takes_a_third_off_what_a_layer_with_flash_attention_saves() -> None:
    assert saved_per_token(attention="sdpa_flash") == 200_840
    assert saved_per_token(attention="sdpa_flash", **LIGER) == 139_400


def test_autocast_saves_a_wider_stream_and_a_copy_of_each_weight() -> None:
    h, a, k, d, i, t = 4096, 32, 8, 128, 14336, 1024
    linear = sum(weight.elements for weight in weights(LLAMA, TrainSpec(seq_len=1)) if weight.matrix)
    train = TrainSpec(seq_len=t, attention="sdpa_flash", precision="bf16_amp")
    per_token = 26 * h + 8 + 4 * a * d + 4 * k * d + 4 * a + 8 * i
    assert saved_by_layers(LLAMA, train) == LLAMA.layers * (per_token * t + 2 * linear)


def test_adapters_save_an_fp32_copy_of_each_input() -> None:
    t, r = 1024, 16
    inside = sum(weight.shape[1] for weight in weights(LLAMA, TrainSpec(seq_len=1)) if weight.matrix)
    train = TrainSpec(seq_len=t, attention="sdpa_flash", adaptation="lora")
    frozen = 8 * 4096 + 8 + 4 * 4096 + 4 * 1024 + 4 * 32 + 6 * 14336
    assert saved_by_layers(LLAMA, train) == LLAMA.layers * t * (frozen + 4 * inside + 7 * 4 * r)


def test_the_adapters_of_rank_16_of_an_8b_model_are_42_million_numbers() -> None:
    adapters = [weight for weight in weights(LLAMA, TrainSpec(seq_len=1, adaptation="lora")) if weight.learns]
    assert sum(weight.total for weight in adapters) == 41_943_040


@pytest.mark.parametrize(("linear", "bits"), [("nf4_bnb", 4.5), ("nf4_bnb_double", 4.1275)], ids=["nf4", "double"])
def test_a_quantized_weight_takes_the_published_bits_with_its_scales(linear: str, bits: float) -> None:
    weight = Weight("q_proj", (4096, 4096), 1, True, True, False, 2)
    assert kept_bytes(weight, linear) * 8 / weight.elements == pytest.approx(bits, rel=1e-3)


@pytest.mark.parametrize(
    ("optimizer", "element_bytes", "per_number"),
    [
        ("adamw_fused", 4, 8.0),
        ("adamw_foreach", 2, 4.0),
        ("adamw8bit_bnb", 2, 2.03125),
        ("adamw8bit_ao", 2, 2.03138),
        ("adamw4bit_ao", 2, 1.06250),
        ("adamw_fp8_ao", 2, 2.03125),
        ("lion8bit_bnb", 2, 1.015625),
        ("sgd", 4, 4.0),
    ],
)
def test_an_optimizer_keeps_the_published_bytes_of_each_number(optimizer: str, element_bytes: int, per_number: float) -> None:
    weight = Weight("up_proj", (14336, 4096), 1, True, True, True, element_bytes)
    kept = states(optimizer, [weight], element_bytes, device_steps=False)
    assert kept.device_bytes / weight.elements == pytest.approx(per_number, rel=1e-4)


def test_small_tensors_keep_full_states_and_paged_ones_lie_on_the_host() -> None:
    small, large = (Weight("w", (side, 64), 1, True, True, True, 2) for side in (32, 4096))
    assert states("adamw8bit_bnb", [small], 2, device_steps=False).device_bytes == 8 * small.elements + 2048
    paged = states("paged_adamw32bit_bnb", [small, large], 2, device_steps=False)
    assert (paged.device_bytes, paged.host_bytes) == (8 * small.elements, 8 * large.elements)


@pytest.mark.parametrize(("precision", "bytes_each"), [("fp32", 16), ("bf16_amp", 16), ("bf16_pure", 8), ("bf16_master", 16)])
def test_weights_gradients_and_states_take_the_bytes_of_their_scheme(precision: str, bytes_each: int) -> None:
    """The master copy's gradients are fp32 for the time of the update, as Megatron counts 18."""
    train = TrainSpec(seq_len=128, attention="sdpa_efficient", precision=precision, optimizer="adamw_fused")
    update = predict_step(LLAMA, train).moments[-1].by_category()
    kept = update["parameters"] + update["gradients"] + update["optimizer_states"]
    extra = 2 if precision == "bf16_master" else 0
    last = LLAMA.vocab_size * LLAMA.hidden_size * 2 if extra else 0
    assert kept == pytest.approx(parameters(LLAMA) * (bytes_each + extra) + last, rel=1e-3)


def test_the_loss_of_transformers_needs_twelve_bytes_for_each_logit() -> None:
    train = TrainSpec(seq_len=16384, attention="sdpa_flash")
    tape = loss(LLAMA, train, dims_of(LLAMA, train), cuda=True)
    highest = tape.backward(in_place=True).highest - dims_of(LLAMA, train).size("2·h·t")
    assert highest / GIB == pytest.approx(12 * 128256 * 16384 / GIB, rel=1e-6)
    assert highest / GIB == pytest.approx(23.5, abs=0.05)


def held_by_its_caller(tape: Tape) -> Tape:
    """The tape under a caller that keeps the graph (`retain_graph`) and the outer gradient, as Liger's benchmark does."""
    kept, held = Tensor("graph", 0, "0", "caller"), Tensor("held", 0, "0", "caller")
    outer = Tensor("output", tape.result.size, tape.result.formula, "caller")
    saved = tuple(dict.fromkeys(tensor for operation in tape.operations for tensor in operation.saved))

    def rewired(tensor: Tensor) -> Tensor:
        return kept if tensor is tape.source else tensor

    last = Operation((tape.result, held), (outer,), (), (), (), (), {tape.result: SAME, held: SAME}, (), False)
    inner = [
        replace(
            operation,
            inputs=tuple(map(rewired, operation.inputs)),
            gradients={rewired(tensor): buffer for tensor, buffer in operation.gradients.items()},
        )
        for operation in tape.operations
    ]
    tape.operations = [Operation((tape.source,), (kept,), saved, (), (), (), {tape.source: SAME}, (), False), *inner, last]
    return tape


def measured_alone(model: ModelSpec, train: TrainSpec, put: Any, x_bytes: str, weight_formula: str) -> float:
    """MiB at the peak of forward and backward of a part: its input, output, weights and their gradients are resident."""
    dims = dims_of(model, train)
    x = Tensor("x", dims.size("x·h·t"), "x·h·t", "input")
    layer = Layer(Tape(x), dims, model, train, cuda=True)
    put(layer, x, x_bytes)
    peak = held_by_its_caller(layer.tape).backward(in_place=True, accumulated=True).highest
    return (2 * dims.size(weight_formula) + 2 * x.size + peak) / MIB


@pytest.mark.parametrize(
    ("swiglu", "seq_len", "published"),
    [
        ("eager", 1024, 1294.2),
        ("eager", 2048, 1992.2),
        ("eager", 4096, 3452.2),
        ("eager", 8192, 6372.2),
        ("liger", 1024, 1100.2),
        ("liger", 2048, 1582.2),
        ("liger", 4096, 2546.2),
        ("liger", 8192, 4474.2),
    ],
)
def test_an_mlp_peaks_where_ligers_published_benchmark_on_an_a100_does(swiglu: str, seq_len: int, published: float) -> None:
    """Liger's all_benchmark_data.csv: batch 4, hidden 4096, width 11008, bf16; two cuBLAS workspaces of an A100 are 16.25 MiB."""
    model = ModelSpec("mlp", "llama", 4096, 11008, 1, 32, 32, 128, 32000, False)
    found = measured_alone(model, TrainSpec(seq_len=seq_len, batch=4, swiglu=swiglu), mlp, "e", "3·e·h·i") + 16.25
    assert found == pytest.approx(published, abs=0.06)


@pytest.mark.parametrize(("hidden", "published"), [(1024, 80.0), (4096, 320.1), (16384, 1280.2)])
def test_a_norm_peaks_where_ligers_published_benchmark_on_an_a100_does(hidden: int, published: float) -> None:
    """The same file: 2048 rows of fp32 through transformers' norm."""
    model = ModelSpec("norm", "llama", hidden, 4, 1, 1, 1, 1, 4, False)
    train = TrainSpec(seq_len=2048, precision="fp32")

    def put(layer: Layer, x: Tensor, x_bytes: str) -> None:
        norm(layer, x, "norm", x_bytes=x_bytes)

    assert measured_alone(model, train, put, "x", "w·h") == pytest.approx(published, abs=0.1)


def test_checkpoints_keep_an_input_of_each_layer_and_one_layer_at_a_time() -> None:
    train = TrainSpec(
        seq_len=8192, attention="sdpa_flash", checkpointing="full", linear_cross_entropy="liger", optimizer="adamw_fused"
    )
    plain, full = (predict_step(LLAMA, replace(train, checkpointing=how)) for how in ("none", "full"))
    inputs = 32 * 2 * 4096 * 8192
    loss_moment = next(moment for moment in full.moments if moment.phase == "loss").by_category()
    assert loss_moment["checkpoints"] == inputs
    assert full.peak_bytes < plain.peak_bytes - 31 * (200_840 - 2 * 4096) * 8192 + 32 * 2**30


def test_a_selective_checkpoint_keeps_products_and_attention() -> None:
    t, h, q, kv, i = 1024, 4096, 4096, 1024, 14336
    train = TrainSpec(seq_len=t, attention="sdpa_flash", checkpointing="selective")
    tape = decoder_layer(LLAMA, train, dims_of(LLAMA, train), cuda=True)
    kept = tape.forward(saving=False, keeping=True).left_bytes
    assert kept == t * (2 * (2 * q + 2 * kv + 2 * h + 2 * i) + 4 * 32)


def test_the_last_norm_is_one_of_the_norms() -> None:
    train = TrainSpec(seq_len=64, rms_norm="liger")
    tape = last_norm(LLAMA, train, dims_of(LLAMA, train), cuda=True)
    assert tape.forward(saving=True).left_bytes == 64 * (2 * 4096 + 4)


def test_rounding_is_told_apart_and_is_small() -> None:
    prediction = predict_step(LLAMA, TrainSpec(seq_len=1001, attention="sdpa_flash"))
    moment = next(moment for moment in prediction.moments if moment.phase == "loss")
    assert 0 < moment.by_category()["allocator_slack"] < 0.001 * moment.size_bytes
