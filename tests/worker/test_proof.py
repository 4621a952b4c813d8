"""Patterns against names that profilers have really shown."""

from __future__ import annotations

import pytest
import torch

from bench.catalogue import load_catalogue
from bench.declare import ProofPatterns
from bench.worker.proof import MOST_NAMES, judge, judge_all, observation, observe
from bench.worker.step import PASS_MARK

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


class Event:
    """One of the profiler's, as far as it is read."""

    def __init__(self, name: str, kind: str, start: int) -> None:
        self._name, self._kind, self._start = name, kind, start

    def name(self) -> str:
        return self._name

    def activity_type(self) -> str:
        return self._kind

    def start_ns(self) -> int:
        return self._start

    def device_type(self) -> torch.autograd.DeviceType:
        on_device = self._kind.startswith("gpu_") or self._kind in ("kernel", "cuda_sync")
        return torch.autograd.DeviceType.CUDA if on_device else torch.autograd.DeviceType.CPU


def test_only_what_the_device_did_for_the_timed_part_is_counted() -> None:
    seen = observation(
        [
            Event("aten::bmm", "cpu_op", 1),
            Event("forward_kernel", "kernel", 5),
            Event("Context Sync", "cuda_sync", 7),
            Event(PASS_MARK, "user_annotation", 10),
            Event(PASS_MARK, "gpu_user_annotation", 14),
            Event("backward_kernel", "kernel", 15),
            Event("backward_kernel", "kernel", 16),
            Event("Memset (Device)", "gpu_memset", 17),
            Event("Memcpy DtoD", "gpu_memcpy", 18),
            Event("Torch-Compiled Region: 0/0", "gpu_user_annotation", 19),
            Event("Event Sync", "cuda_sync", 20),
        ]
    )
    assert seen.kernels_per_call == 4
    assert seen.kernels == ("forward_kernel", "backward_kernel", "Memset (Device)", "Memcpy DtoD")
    assert seen.ops == ("aten::bmm",)


def test_the_random_name_of_a_compiled_graph_is_no_kernel_that_a_pattern_forbids() -> None:
    graph = "## Call CompiledFxGraph fmha5geyahql2rjbgquhfs5w6nli7tymkrggowl2btkv5j2diznv ##"
    seen = observation([Event(graph, "cpu_op", 1), Event("triton_tem_fused_flex_attention_0", "kernel", 2)])
    assert seen.ops == ("## Call CompiledFxGraph … ##",)
    patterns = ProofPatterns(kernels=("flex_attention",), ops=("CompiledFxGraph",), not_=("fmha",))
    assert judge(patterns, seen.ops, seen.kernels).verdict == "proved"
    assert judge(patterns, seen.ops, (*seen.kernels, "fmha_cutlassF_bf16_aligned")).verdict == "disproved"


def test_where_no_kernel_is_seen_none_is_counted() -> None:
    assert observation([Event(PASS_MARK, "user_annotation", 1), Event("aten::mm", "cpu_op", 2)]).kernels_per_call is None


def test_a_backwards_forward_is_observed_too_and_our_mark_is_no_operator() -> None:
    class Pass:
        def prepare(self, calls: int = 1) -> None:
            self.x = torch.ones(3, requires_grad=True).exp()

        def __call__(self) -> None:
            self.x.sum().backward()

    seen = observe(Pass(), cuda=False)
    assert {"aten::exp", "aten::sum"} <= set(seen.ops)
    assert PASS_MARK not in seen.ops


def test_kernels_that_no_profiler_shows_prove_nothing_either_way() -> None:
    assert judge(ProofPatterns(kernels=("flash",)), ("aten::bmm",), ()).verdict == "unknown"
    assert judge(ProofPatterns(ops=("flash",)), (), ()).verdict == "unknown"


def test_operators_disprove_even_where_no_kernel_can_be_seen() -> None:
    assert judge(ProofPatterns(kernels=("flash",), ops=("flash",)), ("aten::bmm",), ()).verdict == "disproved"
    forbidden = judge(ProofPatterns(kernels=("flash",), not_=("bmm",)), ("aten::bmm",), ())
    assert (forbidden.verdict, forbidden.detail) == ("disproved", "'aten::bmm' ran, which 'bmm' forbids")
    met = judge(ProofPatterns(kernels=("flash",), ops=("flash",), not_=("bmm",)), ("aten::_flash",), ())
    assert (met.verdict, met.detail) == ("unknown", "the profiler reported no device kernels")


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
