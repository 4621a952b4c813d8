"""Sets how fp32 products are rounded, from the case's dtype alone: whatever the environment or a library asked for before.

torch has two families of switches and fails where they contradict each other, so both of each pair are set: those that say `allow
tf32`, and through them those that name a precision. `TORCH_ALLOW_TF32_CUBLAS_OVERRIDE` only sets where the first of them begins.
`NVIDIA_TF32_OVERRIDE` is read by the CUDA libraries themselves when they are first used, and so it is taken away.
"""

from __future__ import annotations

import os
import warnings

import torch

from bench.errors import Unsupported

LIBRARY_OVERRIDE = "NVIDIA_TF32_OVERRIDE"


def set_precision(dtype: str, device: str) -> None:
    """Products and convolutions of fp32 tensors run in tf32 where `dtype` is `tf32`, and in full fp32 otherwise.

    Raises Unsupported for tf32 on anything but a CUDA device. Call it before the device's libraries are used.
    """
    tf32 = dtype == "tf32"
    if tf32 and device != "cuda":
        raise Unsupported("tf32 is how CUDA devices multiply fp32 tensors; a CPU has no such mode")
    os.environ.pop(LIBRARY_OVERRIDE, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some releases call the first family deprecated; the second alone would contradict it
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        torch.backends.cudnn.allow_tf32 = tf32
