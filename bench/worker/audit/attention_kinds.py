"""Tells by the names of operators and kernels how attention was computed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

_OPERATORS: tuple[tuple[str, str], ...] = (
    ("sdpa_flash", r"^aten::_scaled_dot_product_flash_attention(_for_cpu)?(_backward)?$|^ScaledDotProductFlashAttention"),
    ("sdpa_efficient", r"^aten::_scaled_dot_product_efficient_attention(_backward)?$|^ScaledDotProductEfficientAttention"),
    ("sdpa_cudnn", r"^aten::_scaled_dot_product_cudnn_attention(_backward)?$|^ScaledDotProductCudnnAttention"),
    ("sdpa_math", r"^aten::_scaled_dot_product_attention_math$"),
    ("flash_attn3", r"(?i)flash_?attn_?3|FlashAttnV3"),
    ("flash_attn4", r"(?i)flash_attn[._]cute|FlashAttnCute"),
    ("flash_attn2", r"(?i)^_?flash_attn[a-z0-9_]*::|^FlashAttn\w*Func(Backward)?$"),
    ("flex", r"(?i)flex_attention|FlexAttention"),
    ("xformers", r"(?i)^xformers"),
)
"""Operators that compute attention as a whole, or their backward, in the words of torch's profiler."""

_KERNELS: tuple[tuple[str, str], ...] = (
    ("sdpa_flash", r"pytorch_flash::"),
    ("sdpa_cudnn", r"cudnn.*(sdpa|attention)"),
    ("flash_attn4", r"flash_attn_?cute|FlashAttention(MLA)?(Forward|Backward)"),
    ("flash_attn3", r"flash::(enable_sm90|FlashAttn(Fwd|Bwd))"),
    ("flash_attn2", r"(^|[^_a-zA-Z])flash::flash_(fwd|bwd)"),
    ("sdpa_efficient", r"fmha_cutlass|mem_eff|AttentionKernel"),
)
"""Kernels that say so themselves. A call through torch is known by its operator before, whichever kernel it takes."""

EAGER_OPERATORS = re.compile(
    r"^aten::(bmm|baddbmm|_softmax|_softmax_backward_data|_safe_softmax|masked_fill_?|tril_?|mul|add|div|native_dropout)$"
)
"""What attention consists of where it is computed one after the other."""
_SOFTMAX = re.compile(r"^aten::_(safe_)?softmax$")
_PRODUCT = re.compile(r"^aten::(bmm|baddbmm)$")


@cache
def kind_of_operator(name: str) -> str | None:
    return next((kind for kind, pattern in _OPERATORS if re.search(pattern, name)), None)


@cache
def kind_of_kernel(name: str) -> str | None:
    return next((kind for kind, pattern in _KERNELS if re.search(pattern, name)), None)


@cache
def is_backward(name: str) -> bool:
    return "backward" in name.lower() or "_bwd" in name


def is_eager(names: Iterable[str]) -> bool:
    """Whether operators of one attention's forward are products and a softmax."""
    seen = list(names)
    return any(map(_SOFTMAX.search, seen)) and any(map(_PRODUCT.search, seen))
