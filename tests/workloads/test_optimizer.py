"""Optimizers through the real worker: right by their own algorithm, their states counted, and what is wrong found out."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.catalogue import load_catalogue
from bench.catalogue.installed import missing_requirements
from bench.declare import Unsupported
from bench.records import Case, Pass, Reply, Status
from bench.workloads.optimizer import SMALL_SHAPES, WORKLOAD, OptimizerSpec, Recipe
from bench.workloads.optimizer._algorithms import REFERENCES
from bench.workloads.optimizer._checks import checks_of
from bench.workloads.optimizer._states import state_bytes
from bench.workloads.optimizer._update import Update
from tests.factories import case
from tests.worker.trials import answer, only

SHAPE = {"hidden_size": 256, "intermediate_size": 512, "heads": 4, "kv_heads": 2, "head_dim": 64, "value_head_dim": 64}
MATRICES = 2 * 256 * 256 + 2 * 128 * 256 + 3 * 512 * 256
NORMS = 2 * 256
PARAMETERS = MATRICES + NORMS
BLOCKS = MATRICES // 256

FP32_STATES = {
    "adamw_forloop": 8 * PARAMETERS + 9 * 4,  # a step counter a tensor
    "adamw_foreach": 8 * PARAMETERS + 9 * 4,
    "adamw_fused": 8 * PARAMETERS + 9 * 4,
    "adamw8bit_bnb": 2 * (MATRICES + 4 * BLOCKS + 4 * 256) + 8 * NORMS,  # codes, scales, two code books; norms stay fp32
    "lion8bit_bnb": MATRICES + 4 * BLOCKS + 4 * 256 + 4 * NORMS,
    "muon": 4 * MATRICES + 8 * NORMS + 2 * 4,
    "adafactor": 4 * (2 * (256 + 256) + 2 * (128 + 256) + 3 * (512 + 256)) + 4 * NORMS + 9 * 4,
    "sgd": 4 * PARAMETERS,
}
"""Bytes of all states of one layer of `SHAPE`, added up by hand."""

SQUARE = {**SHAPE, "hidden_size": 64, "intermediate_size": 64, "heads": 1, "kv_heads": 1}
"""All matrices of a layer are alike, and its norms are as long as that of the small problem: torchao compiles for each shape."""
ALIKE, SHORT = 7 * 64 * 64, 2 * 64
COMPILED_STATES = {
    "adamw8bit_ao": 2 * (ALIKE + 4 * (ALIKE // 256) + 7 * 4 * 256) + 8 * SHORT + 9 * 4,  # a code book for each tensor
    "adamw4bit_ao": 2 * (ALIKE // 2 + 4 * 2 * (ALIKE // 256) + 7 * 4 * 16) + 8 * SHORT + 9 * 4,
    "adamw_fp8_ao": 2 * (ALIKE + 4 * (ALIKE // 256)) + 8 * SHORT + 9 * 4,
    "adamw_compiled": 8 * (ALIKE + SHORT) + 9 * 4,
}
"""Of one layer of `SQUARE`."""


def optimizer(name: str, **changes: Any) -> Case:
    params = {**SHAPE, "layer_count": 1, "lr": 1e-3, **changes.pop("params", {})}
    made = case(name, params=params, pass_=Pass.STEP, **changes)
    return dataclasses.replace(made, workload="optimizer", subject={"optimizer": name})


def right(reply: Reply) -> Reply:
    assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"
    assert reply.proof is not None
    assert reply.proof.verdict == "proved", reply.proof.detail
    return reply


def value(reply: Reply, metric: str) -> float:
    return only(reply, metric).samples[0]


def plugin(directory: Path, name: str, body: str) -> Path:
    """A lone file whose builder's lines are `body`."""
    path = directory / f"{name}.py"
    path.write_text(
        'from bench.declare import implementation\n\n\n@implementation(workload="optimizer", passes=["step"])\n'
        f"def {name}(spec):\n    import torch\n    from bench.workloads.optimizer import Recipe\n{body}\n"
    )
    return path


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Reply]:
    """A right reply, measured once for all tests that look at it."""

    @functools.cache
    def measure(name: str, dtype: str = "fp32", lr: float = 1e-3) -> Reply:
        return right(answer(tmp_path_factory.mktemp(name), optimizer(name, dtype=dtype, params={"lr": lr})))

    return measure


@pytest.mark.parametrize("name", FP32_STATES)
def test_each_is_right_in_fp32_and_keeps_the_bytes_that_its_format_has(measured: Callable[..., Reply], name: str) -> None:
    reply = measured(name)
    assert value(reply, "state_bytes") == FP32_STATES[name]
    assert "state_host_bytes" not in {m.metric for m in reply.measurements}  # a CPU has nothing but host memory
    assert value(reply, "state_bytes_per_parameter") == pytest.approx(FP32_STATES[name] / PARAMETERS)
    assert {check.tensor.split()[0] for check in reply.checks if check.at == "small"} == {name for name, _ in SMALL_SHAPES}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED_STATES)
def test_each_that_compiles_its_step_is_right_too(tmp_path: Path, name: str) -> None:
    reply = right(answer(tmp_path, optimizer(name, params=SQUARE)))
    assert value(reply, "state_bytes") == COMPILED_STATES[name]


@pytest.mark.parametrize("name", FP32_STATES)
def test_each_is_right_with_bf16_parameters(measured: Callable[..., Reply], name: str) -> None:
    reply = measured(name, "bf16")
    if name.startswith("adamw_"):
        assert value(reply, "state_bytes") == 4 * PARAMETERS + 9 * 4  # torch keeps moments in the parameters' dtype
    if name.endswith("_bnb"):
        assert value(reply, "state_bytes") == FP32_STATES[name]  # and bitsandbytes in its own


def test_the_familiar_bytes_per_parameter_come_out() -> None:
    assert FP32_STATES["adamw_fused"] / PARAMETERS == pytest.approx(8.0, abs=1e-3)
    assert 2.03 < FP32_STATES["adamw8bit_bnb"] / PARAMETERS < 2.09
    assert 1.01 < FP32_STATES["lion8bit_bnb"] / PARAMETERS < 1.04
    assert FP32_STATES["adafactor"] / PARAMETERS < 0.04


@pytest.mark.parametrize("name", ["paged_adamw8bit_bnb", "paged_adamw32bit_bnb"])
def test_paging_is_refused_on_a_cpu_where_it_would_not_page(tmp_path: Path, name: str) -> None:
    reply = answer(tmp_path, optimizer(name))
    assert (reply.status, reply.reason) == (Status.UNSUPPORTED, f"{name} runs on cuda, not on cpu")


@pytest.mark.parametrize(
    "changed",
    ["betas=(0.8, 0.999)", "betas=(0.9, 0.998)", "weight_decay=0.0", "lr=1.01 * spec.lr", "eps=1e-2"],
)
def test_an_adamw_with_another_hyper_parameter_is_incorrect(tmp_path: Path, changed: str) -> None:
    given = {"lr": "spec.lr", "betas": "spec.betas", "eps": "spec.eps", "weight_decay": "spec.weight_decay"}
    name, _, new = changed.partition("=")
    arguments = ", ".join(f"{key}={text}" for key, text in {**given, name: new}.items())
    file = plugin(tmp_path, "off", f"    return lambda parameters: torch.optim.AdamW(list(parameters), {arguments})")
    reply = answer(tmp_path, optimizer("off"), plugins=(file,))
    assert reply.status is Status.INCORRECT, reply.reason
    assert "up_proj by adamw (small): error" in str(reply.reason)


def test_a_plain_function_that_is_adamw_needs_no_recipe(tmp_path: Path) -> None:
    body = (
        "    return lambda parameters: torch.optim.AdamW(list(parameters), lr=spec.lr, betas=spec.betas, eps=spec.eps,"
        " weight_decay=spec.weight_decay)"
    )
    reply = answer(tmp_path, optimizer("plain"), plugins=(plugin(tmp_path, "plain", body),))
    assert reply.status is Status.OK, reply.reason


def test_a_wrong_beta_stands_out_of_8_bit_states_as_well(tmp_path: Path) -> None:
    body = (
        "    from bitsandbytes.optim import AdamW8bit\n"
        "    make = lambda parameters: AdamW8bit(parameters, lr=spec.lr, betas=(0.9, 0.99), weight_decay=spec.weight_decay)\n"
        "    return Recipe('adamw', make, tolerance=0.025)"
    )
    reply = answer(tmp_path, optimizer("off8"), plugins=(plugin(tmp_path, "off8", body),))
    assert reply.status is Status.INCORRECT, reply.reason


@pytest.mark.parametrize("name", ["adamw_forloop", "adamw_fused", "adamw8bit_bnb", "lion8bit_bnb", "sgd"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_forgotten_decay_is_found_beside_bf16_and_beside_8_bit_states(name: str, dtype: str) -> None:
    implementation = load_catalogue().implementation("optimizer", name)
    if missing := missing_requirements(implementation):
        pytest.skip(missing[0])

    def all_pass(decayed: bool) -> bool:
        def make(spec: OptimizerSpec) -> Update:
            parameters = WORKLOAD.make_parameters(spec, "cpu", torch.Generator().manual_seed(1))
            built = implementation.builder(spec if decayed else dataclasses.replace(spec, weight_decay=0.0))
            return Update.of(spec, built, parameters)

        small = OptimizerSpec(dtype, shapes=SMALL_SHAPES[1:3])
        return all(check.passed for check in checks_of(small, make, torch.Generator().manual_seed(3)))

    assert all_pass(decayed=True)
    assert not all_pass(decayed=False)


def test_another_algorithm_than_the_recipe_says_is_incorrect(tmp_path: Path) -> None:
    body = "    return Recipe('lion', lambda parameters: torch.optim.SGD(parameters, lr=spec.lr))"
    reply = answer(tmp_path, optimizer("liar"), plugins=(plugin(tmp_path, "liar", body),))
    assert reply.status is Status.INCORRECT
    assert "by lion (small)" in str(reply.reason)


def test_a_recipe_without_a_reference_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'shampoo'; known: adamw, lion, muon, adafactor, sgd"):
        Recipe("shampoo", lambda parameters: torch.optim.SGD(parameters))


def test_what_overflows_is_found_at_the_measured_shape(tmp_path: Path) -> None:
    body = (
        "    def make(parameters):\n"
        "        made = torch.optim.SGD(parameters, lr=spec.lr, momentum=spec.momentum, weight_decay=spec.weight_decay)\n"
        "        if parameters[0].shape == (256, 256):\n"
        "            made.register_step_post_hook(lambda *_: parameters[0].detach().mul_(float('inf')))\n"
        "        return made\n"
        "    return Recipe('sgd', make)"
    )
    reply = answer(tmp_path, optimizer("bursts"), plugins=(plugin(tmp_path, "bursts", body),))
    assert reply.status is Status.INCORRECT
    assert "0.q_proj (finite)" in str(reply.reason)


def test_muon_keeps_the_groups_and_states_of_both_its_parts() -> None:
    spec = OptimizerSpec("fp32")
    matrix, norm = torch.nn.Parameter(torch.eye(4)), torch.nn.Parameter(torch.ones(4))
    made = load_catalogue().implementation("optimizer", "muon").builder(spec)([matrix, norm])
    assert [len(group["params"]) for group in made.param_groups] == [1, 1]
    for group in made.param_groups:
        group["lr"] = 0.0
    matrix.grad, norm.grad = torch.ones(4, 4), torch.ones(4)
    made.step()
    assert matrix.equal(torch.eye(4))
    assert norm.equal(torch.ones(4))
    assert set(made.state) == {matrix, norm}


def torchs(spec: OptimizerSpec) -> dict[str, Callable[[list[torch.Tensor]], torch.optim.Optimizer]]:
    decay: dict[str, Any] = {"lr": spec.lr, "weight_decay": spec.weight_decay}
    return {
        "adamw": lambda ps: torch.optim.AdamW(ps, betas=spec.betas, eps=spec.eps, foreach=False, **decay),
        "sgd": lambda ps: torch.optim.SGD(ps, momentum=spec.momentum, foreach=False, **decay),
        "adafactor": lambda ps: torch.optim.Adafactor(ps, foreach=False, **decay),
    }


@pytest.mark.parametrize("algorithm", ["adamw", "sgd", "adafactor"])
@pytest.mark.parametrize("shape", [(5, 7), (6,)])
def test_a_reference_is_torchs_optimizer_in_float64(algorithm: str, shape: tuple[int, ...]) -> None:
    spec = OptimizerSpec("fp64", lr=0.05, weight_decay=0.1)
    generator = torch.Generator().manual_seed(1)
    ours = torch.randn(shape, generator=generator, dtype=torch.float64)
    theirs = torch.nn.Parameter(ours.clone())
    made = torchs(spec)[algorithm]([theirs])
    states: dict[str, torch.Tensor] = {}
    for step in range(1, 12):
        gradient = torch.randn(shape, generator=generator, dtype=torch.float64)
        ours = REFERENCES[algorithm](spec, step, ours, gradient, states)
        theirs.grad = gradient.clone()
        made.step()
    torch.testing.assert_close(theirs.detach(), ours, rtol=1e-9, atol=1e-12)


def test_the_reference_of_muon_makes_all_singular_values_alike_and_its_steps_as_large_as_adamws() -> None:
    spec = OptimizerSpec("fp64", lr=0.1, weight_decay=0.0)
    before = torch.zeros(24, 60, dtype=torch.float64)
    gradient = torch.randn(24, 60, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for given in (gradient, gradient.T):
        change = REFERENCES["muon"](spec, 1, before.reshape(given.shape), given, {}) / (0.1 * 0.2 * 60**0.5)
        values = torch.linalg.svdvals(change)
        assert 0.6 < float(values.min()) <= float(values.max()) < 1.3
        assert float((change * given).sum()) < 0.0


def test_the_reference_of_lion_is_the_fp32_one_of_bitsandbytes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from bitsandbytes.optim import Lion
    spec = OptimizerSpec("fp32", lr=0.05, weight_decay=0.1)
    generator = torch.Generator().manual_seed(1)
    ours = torch.randn(40, generator=generator)
    theirs = torch.nn.Parameter(ours.clone())
    made = Lion([theirs], lr=spec.lr, betas=spec.lion_betas, weight_decay=spec.weight_decay)
    states: dict[str, torch.Tensor] = {}
    for step in range(1, 12):
        gradient = torch.randn(40, generator=generator)
        ours = REFERENCES["lion"](spec, step, ours, gradient, states)
        theirs.grad = gradient.clone()
        made.step()
    torch.testing.assert_close(theirs.detach(), ours)


def test_states_inside_torchaos_wrappers_are_counted() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchao.optim.subclass_4bit import OptimState4bit
        from torchao.optim.subclass_8bit import OptimState8bit
    parameter = torch.nn.Parameter(torch.zeros(64, 256))
    made = torch.optim.SGD([parameter])
    made.state[parameter] = {
        "first": OptimState8bit.zeros(parameter.shape, True, 256),
        "second": OptimState4bit.zeros(parameter.shape, False, 128),
    }
    eight = 64 * 256 + 4 * 64 + 4 * 256
    four = 64 * 256 // 2 + 4 * 128 + 4 * 16
    assert state_bytes(made) == (eight + four, eight + four)


def test_a_storage_that_states_share_is_counted_once() -> None:
    flat = torch.zeros(100)
    parameter = torch.nn.Parameter(torch.zeros(40))
    made = torch.optim.SGD([parameter])
    made.state[parameter] = {"first": flat[:40], "second": [flat[40:80], flat[80:]], "step": 3}
    assert state_bytes(made) == (400, 400)


def test_foreach_needs_a_copy_of_all_parameters_and_fused_nothing(measured: Callable[..., Reply]) -> None:
    peaks = {name: value(measured(name), "peak_bytes") for name in FP32_STATES if "adamw_" in name}
    assert 4 * PARAMETERS <= peaks["adamw_foreach"] < 4 * PARAMETERS + 4096
    assert peaks["adamw_forloop"] < peaks["adamw_foreach"]
    assert peaks["adamw_fused"] < 4096


def test_the_way_from_fp32_adamw_grows_from_rounding_to_8_bits_to_another_algorithm(measured: Callable[..., Reply]) -> None:
    errors = {name: value(measured(name), "update_error") for name in ("adamw_fused", "adamw8bit_bnb", "lion8bit_bnb")}
    assert errors["adamw_fused"] < 1e-6
    assert 1e-3 < errors["adamw8bit_bnb"] < 0.05 < errors["lion8bit_bnb"]


def test_bf16_weights_lose_steps_that_are_below_their_last_place(measured: Callable[..., Reply]) -> None:
    usual, tiny = (value(measured("adamw_fused", "bf16", lr), "update_error") for lr in (1e-3, 1e-6))
    assert 1e-3 < usual < 0.1 < tiny


def test_gradients_are_attached_before_the_clock_starts_and_left_by_the_step() -> None:
    spec = OptimizerSpec("fp32", shapes=SMALL_SHAPES)
    generator = torch.Generator().manual_seed(3)
    update = Update.of(spec, lambda ps: torch.optim.SGD(list(ps), lr=0.1), WORKLOAD.make_parameters(spec, "cpu", generator))
    inputs = WORKLOAD.make_inputs(spec, "cpu", generator)
    assert update.prepare is not None
    update.prepare(1)
    update.forward(inputs)
    for parameter in update.parameters.values():
        parameter.grad = None
    update.prepare(1)
    for name, parameter in update.parameters.items():
        assert parameter.grad is inputs[f"{name}.gradient"]
    update.forward(inputs)
    assert all(parameter.grad is not None for parameter in update.parameters.values())


def test_a_layer_of_llama_3_8b_has_its_218_million_parameters() -> None:
    dims = load_catalogue().models["llama-3-8b"].dims()
    made = optimizer("adamw_fused", dtype="bf16", params={**{name: dims[name] for name in WORKLOAD.dims}, "layer_count": 2})
    spec = WORKLOAD.spec(made)
    assert spec.parameters == 2 * 218_112_000
    assert WORKLOAD.cost(spec, Pass.STEP).bytes == 6 * spec.parameters
    assert {name for name, _ in spec.shapes} >= {"0.q_proj", "1.post_attention_norm"}


@pytest.mark.parametrize("name", ["adamw8bit_bnb", "lion8bit_bnb", "adamw8bit_ao", "adafactor", "adamw_compiled"])
def test_what_counts_on_the_host_refuses_a_cuda_graph_in_words(name: str) -> None:
    spec = WORKLOAD.spec(optimizer(name, timer="cuda_graph"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Unsupported, match=r"timer cuda_graph is not for it: .*; use timer wall or events"):
            load_catalogue().implementation("optimizer", name).builder(spec)


@pytest.mark.parametrize("name", ["adamw_forloop", "adamw_foreach", "adamw_fused"])
def test_torchs_adamw_counts_on_the_device_where_a_graph_is_asked_for(name: str) -> None:
    recipe = load_catalogue().implementation("optimizer", name).builder(WORKLOAD.spec(optimizer(name, timer="cuda_graph")))
    assert recipe([torch.nn.Parameter(torch.zeros(3))]).defaults["capturable"] is True


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "each"), [("paged_adamw8bit_bnb", 1), ("paged_adamw32bit_bnb", 4)])
def test_paged_states_of_large_tensors_lie_off_the_device_and_are_right(tmp_path: Path, name: str, each: int) -> None:
    large = {"hidden_size": 512, "intermediate_size": 1024, "heads": 8, "kv_heads": 8}
    reply = right(answer(tmp_path, optimizer(name, device="cuda", cache="cold", params=large)))
    assert value(reply, "state_host_bytes") == 2 * each * (4 * 512 * 512 + 3 * 1024 * 512)
    assert value(reply, "state_bytes") > value(reply, "state_host_bytes")


@pytest.mark.gpu
@pytest.mark.parametrize("name", [*FP32_STATES, "adamw8bit_ao"])
def test_on_the_device_only_step_counters_are_kept_on_the_host(tmp_path: Path, name: str) -> None:
    reply = right(answer(tmp_path, optimizer(name, device="cuda", cache="cold")))
    assert value(reply, "state_host_bytes") <= 9 * 4


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["adamw_forloop", "adamw_foreach", "adamw_fused", "sgd"])
def test_a_capturable_step_is_timed_in_a_graph(tmp_path: Path, name: str) -> None:
    right(answer(tmp_path, optimizer(name, device="cuda", cache="warm", timer="cuda_graph")))


def test_states_in_fp16_end_in_no_number_and_the_row_says_that_plain_pytorchs_do_too(tmp_path: Path) -> None:
    reply = answer(tmp_path, optimizer("adamw_forloop", dtype="fp16"))
    assert reply.status is Status.INCORRECT
    assert "not finite; plain PyTorch in the same dtype does not stay finite" in str(reply.reason)
    assert all(check.plain_error is None and check.limit is not None for check in reply.checks)
