"""States on disk under stage 3 of ZeRO: what lies in files, and which memory of the host they pass through.

Read off DeepSpeed 0.19, `runtime/swap_tensor/optimizer_utils.py` and `stage3.py`: of each group that is updated together the fp32 copy,
both moments and the gradients have files, which are read into buffers of the largest group's size. These are page-locked by DeepSpeed's
own allocator, which does not round up.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.plan.pinning import Pinning
from bench.plan.spec import TrainSpec
from bench.plan.terms import DISK, PINNED, Away
from bench.plan.zero_terms import DEEPSPEED, FP32_BYTES

BUFFERS = 4
"""`buffer_count` of offload_optimizer."""
LEAST_BYTES = 2**20
"""Smaller tensors are not written (`MIN_AIO_BYTES`, and the block size of asynchronous reads)."""
ALIGNED_TO_BYTES = 1024
"""What does not fill such a piece at a gradient's end stays in memory; groups are padded to it (`AIO_ALIGNED_BYTES`)."""
STATES = 3
"""The fp32 copy and both moments."""
SWAPPED = "DeepSpeed 0.19, runtime/swap_tensor"


def swapped(train: TrainSpec, groups: Sequence[int], shares: Sequence[int], *, cuda: bool) -> tuple[Away, ...]:
    """Of a rank; `groups` in elements, `shares` of each tensor. `cuda`: whether gradients are pinned, too."""
    padded = [-(-FP32_BYTES * group // ALIGNED_TO_BYTES) * ALIGNED_TO_BYTES for group in groups]
    gradients = (FP32_BYTES * share for share in shares)
    written = sum(size // ALIGNED_TO_BYTES * ALIGNED_TO_BYTES for size in gradients if size >= LEAST_BYTES)
    own = Pinning(cuda=cuda).away("gradients of the share", [train.weight_bytes * sum(shares)], "e·S", DEEPSPEED)
    return (
        Away("buffers that states pass through", PINNED, BUFFERS * max(padded), f"{BUFFERS}·4·the largest group", SWAPPED),
        own,
        Away("fp32 copy and moments in files", DISK, STATES * sum(padded), f"{STATES}·4·S", SWAPPED),
        Away("gradients in files", DISK, written, "4·S, but for what is left in memory", SWAPPED),
    )
