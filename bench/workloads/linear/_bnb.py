"""bitsandbytes' layers, made from a plain one as its documentation says: the original weight goes in, `.to(device)` converts it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import Unsupported, torch_dtype
from bench.workloads.linear._compiled import COMPILED
from bench.workloads.linear._frozen import demand_frozen

if TYPE_CHECKING:
    import torch

    from bench.workloads.linear import LinearSpec

REQUIRES = ["bitsandbytes>=0.50"]

FOUR_BIT_PROOF = {
    "cpu": {"ops": ["^bitsandbytes::(gemm_4bit|gemv_4bit|quantize_4bit)$"], "not": ["int8"]},
    "cuda": {
        "kernels": ["gemm_4bit|kDequantizeBlockwise|kQuantizeBlockwise"],
        "ops": ["^bitsandbytes::(gemm_4bit|gemv_4bit|quantize_4bit)$"],
        "not": ["Int8VectorQuant"],
    },
}
"""One of them, in a forward or in a conversion. Which one is told in the row: the library itself chooses between a kernel that
multiplies packed weights (`gemm_4bit` on a GPU) and unpacking them (`kDequantizeBlockwise`) for the vendor's product, by shape."""

INT8_PROOF = {
    "cpu": {"ops": [f"^bitsandbytes::int8_vectorwise_quant$|^MatMul8bitFp$|{COMPILED}"], "not": ["4bit"]},
    "cuda": {"kernels": ["kInt8VectorQuant"], "not": ["4bit", "^MatMul8bitFp$"]},
}
"""On a CPU a layer in training mode multiplies with the weight unpacked (`MatMul8bitFp`), by the library's own choice."""


def four_bit(spec: LinearSpec, quant_type: str, *, double: bool) -> Any:
    """`Linear4bit` with blocks of 64 weights, `double`: with its scales quantized once more."""
    from bitsandbytes.nn import Linear4bit, Params4bit

    demand_frozen(spec, f"{quant_type} in blocks of 64")
    compute_dtype = torch_dtype(spec.dtype)

    def convert(plain: torch.nn.Linear) -> torch.nn.Module:
        options = {"compress_statistics": double, "quant_type": quant_type}
        layer = Linear4bit(
            plain.in_features, plain.out_features, plain.bias is not None, compute_dtype=compute_dtype, device="meta", **options
        )
        layer.weight = Params4bit(plain.weight.data, requires_grad=False, module=layer, **options)
        layer.bias = plain.bias
        converted: torch.nn.Module = layer.to(plain.weight.device)
        return converted

    return convert


def int8(spec: LinearSpec, threshold: float) -> Any:
    """`Linear8bitLt` without a 16-bit copy of the weight. Features of x with a value of `threshold` or more are multiplied in 16 bits.

    The library converts on the way from the host to the device only, so a weight on a GPU makes the detour that transformers makes too.
    In other dtypes than fp16 it warns at every call: the warnings are in the log, and their microseconds in the time, as for its users.
    """
    from bitsandbytes.nn import Int8Params, Linear8bitLt

    demand_frozen(spec, "int8 by rows")
    if spec.in_features % 4:
        raise Unsupported(
            f"{spec.in_features} input features are no multiple of 4: bitsandbytes would multiply in fp32, not in int8"
        )

    def convert(plain: torch.nn.Linear) -> torch.nn.Module:
        layer = Linear8bitLt(
            plain.in_features,
            plain.out_features,
            plain.bias is not None,
            has_fp16_weights=False,
            threshold=threshold,
            device="meta",
        )
        layer.weight = Int8Params(plain.weight.data.to("cpu"), requires_grad=False, has_fp16_weights=False)
        layer.bias = plain.bias
        converted: torch.nn.Module = layer.to(plain.weight.device)
        return converted

    return convert
