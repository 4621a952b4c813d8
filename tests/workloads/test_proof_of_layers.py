"""A confusion matrix: what each layer, loss, optimizer and copy shows under the profiler on a GPU proves it, and none of another kind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.catalogue import load_catalogue
from bench.worker.proof import judge

SEEN: Mapping[str, Mapping[str, list[dict[str, Any]]]] = json.loads(
    (Path(__file__).parent / "kernels_seen.json").read_text(encoding="utf-8")
)["layers"]
CALLS = [
    pytest.param(slot, name, call, id=f"{slot} {name}: {call['of']}")
    for slot, implementations in SEEN.items()
    for name, calls in implementations.items()
    for call in calls
]

TORCHAO = {"int8_dynamic_ao", "int8_static_ao", "int8_weight_only_ao", "intx_int4_ao", "float8_weight_only_ao", "float8_dynamic_ao"}
COMPILED_STEPS = {"adamw_compiled", "adamw8bit_ao", "adamw4bit_ao", "adamw_fp8_ao"}
EIGHT_BIT_STEPS = {"adamw8bit_bnb", "paged_adamw8bit_bnb", "paged_adamw32bit_bnb", "lion8bit_bnb"}
SIBLINGS: Mapping[str, list[set[str]]] = {
    "cross_entropy": [{"eager", "torch_native"}],  # the same kernels; the fp32 copy of the logits is in their memory
    "linear": [  # one library's formats: their error and bytes tell them apart
        {"nf4_bnb", "nf4_bnb_double", "fp4_bnb", "fp4_bnb_double"},
        {"int8_bnb", "int8_bnb_outliers"},
        TORCHAO | {"float8_training_tensorwise", "float8_training_rowwise"},
        {"plain", "int8_weight_only_ao", "float8_weight_only_ao"},  # weights unpacked by elementwise kernels, and a plain product
    ],
    "linear_cross_entropy": [{"compiled", "compiled_chunked"}],  # generated kernels either way; memory tells
    "offload": [{"pinned", "file_direct", "file_cached"}],  # files come and go by way of pinned memory
    "optimizer": [COMPILED_STEPS, EIGHT_BIT_STEPS, {"adamw_foreach", "sgd"}, {"adamw_fused", "muon"}],  # the states differ
}
"""Who is not told from whom by names alone, and what tells."""
NOT_SEEN = {
    "distillation_loss": {"liger", "liger_chunked"},
    "linear": {"int4_weight_only_ao"},  # needs a package that was not there
    "linear_cross_entropy": {"torch_native"},  # needs a newer torch
    "optimizer": {"adamw_cpu_deepspeed", "adamw_fused_deepspeed"},  # they compile operators first
    "preference_loss": {"liger_chunked_eager"},
}


@pytest.mark.parametrize("slot", SEEN)
def test_every_implementation_that_runs_on_cuda_has_a_call_or_a_reason(slot: str) -> None:
    on_cuda = {name for name, impl in load_catalogue().implementations(slot).items() if "cuda" in impl.devices}
    assert set(SEEN[slot]) <= on_cuda
    assert on_cuda - set(SEEN[slot]) <= NOT_SEEN.get(slot, set())


@pytest.mark.parametrize(("slot", "ran", "call"), CALLS)
def test_a_call_proves_who_ran_and_nobody_of_another_kind(slot: str, ran: str, call: dict[str, Any]) -> None:
    proofs = {
        name: judge(impl.proof["cuda"], call["ops"], call["kernels"])
        for name, impl in load_catalogue().implementations(slot).items()
        if "cuda" in impl.proof and name not in NOT_SEEN.get(slot, set())
    }
    assert proofs[ran].verdict == "proved", proofs[ran].detail
    alike = {ran}.union(*(group for group in SIBLINGS.get(slot, []) if ran in group))
    if call["of"].endswith("compiled"):
        return  # a compiled layer has lost its operators: what may pass for it is in the next test
    wrong = {name for name, proof in proofs.items() if name not in alike and proof.verdict != "disproved"}
    assert wrong == set()


def test_a_layer_that_was_left_plain_is_no_float8_layer_compiled_or_not() -> None:
    implementations = load_catalogue().implementations("linear")
    for call in SEEN["linear"]["plain"]:
        for name in ("float8_training_tensorwise", "float8_training_rowwise"):
            assert judge(implementations[name].proof["cuda"], call["ops"], call["kernels"]).verdict == "disproved", call["of"]


def test_a_divergence_by_another_compilers_kernel_is_not_ligers_triton_kernel() -> None:
    """Seen where CuTe's compiler was installed: Liger's own choice then falls on it."""
    kernels = ["kernel_cutlass_kernel_liger_kernelopsbackends_cutedsljsd_LigerJSDLossAndGradCuTeDSL_object_at__0"]
    liger = load_catalogue().implementation("distillation_loss", "liger")
    assert judge(liger.proof["cuda"], ["LigerFusedLinearJSDFunction"], kernels).verdict == "disproved"


def test_deepspeeds_adam_is_told_from_torchs_by_its_functor() -> None:
    """The name is that of the kernel which DeepSpeed 0.19.8 compiles to; it was not seen under the profiler."""
    optimizers = load_catalogue().implementations("optimizer")
    arguments = "float, float, float, float, float, float, adamMode_t, float"
    kernel = f"void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<c10::BFloat16, int>, {arguments}>"
    deepspeed = optimizers["adamw_fused_deepspeed"].proof["cuda"]
    assert judge(deepspeed, [], [kernel]).verdict == "proved"
    assert judge(optimizers["adamw_fused"].proof["cuda"], [], [kernel]).verdict == "disproved"
    for name, calls in SEEN["optimizer"].items():
        assert {judge(deepspeed, call["ops"], call["kernels"]).verdict for call in calls} == {"disproved"}, name
