"""States on disk under stage 3 of ZeRO: what lies in files, and which memory of the host they pass through.

Read off DeepSpeed 0.19, `runtime/swap_tensor/optimizer_utils.py` and `stage3.py`: of each group that is updated together the fp32 copy,
both moments and the gradients have files, which are read into buffers of the largest group's size. These are page-locked by DeepSpeed's
own allocator, which does not round up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.plan.spec import TrainSpec

BUFFERS = 4
"""`buffer_count` of offload_optimizer."""
LEAST_BYTES = 2**20
"""Smaller tensors are not written (`MIN_AIO_BYTES`, and the block size of asynchronous reads)."""
ALIGNED_TO_BYTES = 1024
"""What does not fill such a piece at a gradient's end stays in memory; groups are padded to it (`AIO_ALIGNED_BYTES`)."""
STATES = 3
"""The fp32 copy and both moments."""
FP32_BYTES = 4


def swapped(train: TrainSpec, groups: Sequence[int], shares: Sequence[int], kept: Callable[[int], int]) -> tuple[int, int]:
    """Host and disk bytes of a rank; `groups` in elements, `shares` of each tensor. `kept`: what the host's allocator makes of bytes."""
    padded = [-(-FP32_BYTES * group // ALIGNED_TO_BYTES) * ALIGNED_TO_BYTES for group in groups]
    gradients = (FP32_BYTES * share for share in shares)
    written = sum(size // ALIGNED_TO_BYTES * ALIGNED_TO_BYTES for size in gradients if size >= LEAST_BYTES)
    return BUFFERS * max(padded) + kept(train.weight_bytes * sum(shares)), STATES * sum(padded) + written
