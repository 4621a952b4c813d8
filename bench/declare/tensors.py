"""The tensors of a workload: dtypes by our names, and normal numbers to fill them with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

DTYPES: Mapping[str, str] = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp64": "float64"}
"""Our name of a compute dtype to torch's name of its storage (tf32 stores fp32 and multiplies in 19 bits)."""


def torch_dtype(name: str) -> torch.dtype:
    """torch's dtype for one of `DTYPES`; raises KeyError for another name."""
    import torch

    dtype: torch.dtype = getattr(torch, DTYPES[name])
    return dtype


def dtype_bytes(name: str) -> int:
    """Bytes of one element."""
    return {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}[DTYPES[name]]


def fill_normal(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Puts standard normal numbers into a floating-point tensor of any layout and returns it; not seen by autograd.

    They are drawn in place where the generator lives on the tensor's device, and copied there otherwise.
    """
    import torch

    with torch.no_grad():
        if generator.device.type == tensor.device.type:
            return tensor.normal_(generator=generator)
        return tensor.copy_(torch.randn(tensor.shape, generator=generator, device=generator.device))
