"""A Triton kernel that does nothing: what launching and timing cost by themselves. Importing this needs Triton."""

import triton


@triton.jit
def empty(out):  # type: ignore[no-untyped-def]
    """Reads and writes nothing; `out` only gives the launch an argument, as every real kernel has some."""
