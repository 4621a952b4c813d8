"""What PyTorch's caching allocator on CUDA adds to a request, and what lies around its blocks when memory runs out.

`allocated` counts whole blocks, which are multiples of 512 bytes. Large blocks are split only where more than 1 MiB would remain, so each
may carry up to that besides; which do depends on the history and is not in a prediction (well below 1 % for large models). What the
allocator has reserved is more than what it has given out, and the driver's context lies outside of it: both count when a model must fit.
"""

from __future__ import annotations

BLOCK_BYTES = 512
CONTEXT_BYTES = 600 * 2**20
"""A context of CUDA with lazily loaded kernels takes about as much; stas00/ml-engineering measured 0.47 GB on an A100."""
MARGIN = 0.05
"""Of the peak, for what the allocator has reserved and cannot use, with expandable segments; without them it may need more."""


PROCESS_BYTES = 2**31
"""Python's, torch's, CUDA's and NCCL's own of the host's memory, for each GPU: no formula has it. Rows of H200s that moved nothing there
have 1.3 to 2.1 GiB, where the trial did not trace its memory."""


def slack_bytes(size: int) -> int:
    """What rounding adds to a tensor of `size` bytes."""
    return -size % BLOCK_BYTES


def pinned_bytes(size: int) -> int:
    """What PyTorch's allocator of pinned host memory takes for `size` bytes: the next power of two (ATen, CachingHostAllocator)."""
    return 1 << (size - 1).bit_length() if size else 0


def needed_bytes(peak_bytes: int) -> int:
    """Memory that a GPU must have for a predicted peak."""
    return int(peak_bytes * (1 + MARGIN)) + CONTEXT_BYTES


def host_needed_bytes(away_bytes: int, processes: int) -> int:
    """Memory that a host must have for so many processes, each of which keeps as much there."""
    return processes * (away_bytes + PROCESS_BYTES)
