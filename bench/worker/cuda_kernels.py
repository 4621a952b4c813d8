"""Two one-block Triton kernels: read the device's clocks, and wait. Importing this needs Triton, so only CUDA trials do.

`do_not_specialize`: otherwise each new class of argument (1, multiples of 16) would compile a kernel in the middle of sampling.
"""

import triton
import triton.language as tl
from triton.language.extra.cuda import globaltimer, smid


@triton.jit(do_not_specialize=["index"])
def stamp(out, index):  # type: ignore[no-untyped-def]
    """Stores (cycles of this SM, nanoseconds, number of this SM) at out[3 * index]; `out` is int64."""
    cycles = tl.inline_asm_elementwise("mov.u64 $0, %clock64;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)
    now = globaltimer()
    tl.store(out + 3 * index, cycles)
    tl.store(out + 3 * index + 1, now)
    tl.store(out + 3 * index + 2, smid().to(tl.int64))


@triton.jit(do_not_specialize=["nanoseconds"])
def spin(out, nanoseconds):  # type: ignore[no-untyped-def]
    """Loops until the nanosecond timer has advanced by `nanoseconds`; stores by how much it did."""
    start = globaltimer()
    now = start
    while now - start < nanoseconds:
        now = globaltimer()
    tl.store(out, now - start)
