"""Patterns against names that profilers have really shown."""

from __future__ import annotations

import pytest

from bench.catalogue import load_catalogue
from bench.declare import ProofPatterns
from bench.worker.proof import MOST_NAMES, judge, judge_all

OPS = {
    "eager": ("aten::matmul", "aten::bmm", "aten::_softmax", "aten::mul"),
    "sdpa_math": ("aten::scaled_dot_product_attention", "aten::_scaled_dot_product_attention_math", "aten::bmm", "aten::_softmax"),
    "sdpa_flash": ("aten::scaled_dot_product_attention", "aten::_scaled_dot_product_flash_attention_for_cpu"),
    "flex": ("Torch-Compiled Region: 0/0", "aten::empty"),
}


@pytest.mark.parametrize("declared", OPS)
@pytest.mark.parametrize("ran", OPS)
def test_on_a_cpu_each_implementation_is_proved_by_its_own_operators_and_by_no_others(declared: str, ran: str) -> None:
    patterns = load_catalogue().implementation("attention", declared).proof["cpu"]
    assert judge(patterns, OPS[ran], ()).verdict == ("proved" if declared == ran else "disproved")


CUDA = {
    "sdpa_flash": (
        ("aten::_scaled_dot_product_flash_attention",),
        ("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<128, 128, 64, 4>>(Flash_fwd_params)",),
    ),
    "sdpa_efficient": (
        ("aten::_scaled_dot_product_efficient_attention",),
        ("fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t>::Params)",),
    ),
    "sdpa_cudnn": (
        ("aten::_scaled_dot_product_cudnn_attention",),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x128x128_4x1x1_cga1x1x1_kernel0_0",),
    ),
    "flash_attn2": (
        ("FlashAttnFunc",),
        ("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t>>(params)",),
    ),
    "sdpa_math": (
        ("aten::_scaled_dot_product_attention_math", "aten::bmm", "aten::_softmax"),
        ("nvjet_tst_128x256", "void (anonymous namespace)::softmax_warp_forward<float>"),
    ),
    "eager": (("aten::bmm", "aten::_softmax"), ("nvjet_tst_128x256", "void (anonymous namespace)::softmax_warp_forward<float>")),
}


@pytest.mark.parametrize("declared", CUDA)
@pytest.mark.parametrize("ran", CUDA)
def test_on_cuda_pytorchs_own_flash_is_told_from_the_package_and_from_cudnn(declared: str, ran: str) -> None:
    patterns = load_catalogue().implementation("attention", declared).proof["cuda"]
    assert judge(patterns, *CUDA[ran]).verdict == ("proved" if declared == ran else "disproved")


def test_kernels_that_no_profiler_shows_prove_nothing_either_way() -> None:
    assert judge(ProofPatterns(kernels=("flash",)), ("aten::bmm",), ()).verdict == "unknown"
    assert judge(ProofPatterns(ops=("flash",)), (), ()).verdict == "unknown"


def test_a_disproof_names_the_pattern_and_keeps_what_ran() -> None:
    proof = judge(ProofPatterns(ops=("flash",), not_=("bmm",)), ("aten::bmm", "aten::_softmax"), ())
    assert proof.verdict == "disproved"
    assert proof.detail == "no op matches 'flash'; 'aten::bmm' ran, which 'bmm' forbids"
    assert proof.observed == ("aten::bmm", "aten::_softmax")


def test_a_subject_without_patterns_for_the_device_is_not_declared() -> None:
    assert judge_all({}, "cpu", ("aten::add",), ()).verdict == "not_declared"


def test_what_is_kept_is_bounded() -> None:
    proof = judge(ProofPatterns(ops=("x",)), [f"y{i}" * 500 for i in range(1000)], ())
    assert len(proof.observed) == MOST_NAMES
    assert max(map(len, proof.observed)) <= 300
