"""What the optimizers of bitsandbytes have in common: how far their states are off, and how much managed memory is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.declare import Unsupported

if TYPE_CHECKING:
    import torch

EIGHT_BIT_TOLERANCE = 0.025
"""A number in the dynamic code is off by 1.3 % (root mean square, normal numbers), once a step and moment. The first moment forgets
its errors with beta 0.9 while the last gradients weigh most, the second counts by its root: measured 0.010 to 0.014 after the
check's steps, in fp32 and bf16 parameters. Not quite twice that, to stay below what beta 0.99 for 0.999 does (0.03)."""

LION_TOLERANCE = 0.06
"""An error of 1 % of the momentum turns the sign of what is near 0, and each turned sign is off by two whole steps: measured 0.025
to 0.030 after the check's steps. Twice that."""

DECAY_LAST_TOLERANCE = 0.02
"""Kernels for CUDA have taken the decay off after the update and not before, which scales the update by 1 - lr * decay: at the
check's 0.01 and 1 by one hundredth. Twice that, and no more, since the moments are fp32."""

PAGED_FROM = 100_000
"""Elements from which bitsandbytes puts a state into managed memory."""


def require_room(parameters: list[torch.Tensor], bytes_per_parameter: int) -> None:
    """Raises Unsupported where the managed states would not fit into what the card has free.

    Managed memory can be larger than the card, and the host then serves it: what that costs depends on what else the host does, and
    asking for too much of it ends other processes.
    """
    import torch

    needed = sum(tensor.numel() for tensor in parameters if tensor.numel() >= PAGED_FROM) * bytes_per_parameter
    free, _ = torch.cuda.mem_get_info()
    if needed > free:
        raise Unsupported(
            f"managed states of {needed / 2**30:.1f} GiB, and the card has {free / 2**30:.1f} GiB free: "
            "states larger than the card are not measured; use fewer of them"
        )
