"""What of a training step leaves the device's memory, and where it goes between its uses.

    name                       what goes                           where it is computed   by
    none                       nothing
    optimizer_cpu              states, fp32 copy of the weights    update on the host     zero1, zero2, zero3
    parameters_optimizer_cpu   those, and the weights              update on the host     zero3, fsdp2
    optimizer_nvme             states, fp32 copy of the weights    update on the host     zero3
    optimizer_cpu_ao           states, a copy of the weights       update on the host     none: torchao, tensor by tensor; on CUDA alone

How it is done is the library's that shares the step (`sharding`): DeepSpeed's `offload_optimizer` and `offload_param`, or FSDP2's
`CPUOffloadPolicy`. At world size 1 nothing is shared, and what is left is the price of moving. The slot `optimizer` says what updates on
the host: `adamw_cpu_deepspeed` is DeepSpeed's own and is compiled beforehand; an optimizer of torch does it too, some times more slowly.

On a CPU the host is the device, and nothing is far: what can be checked there is that states and files are where they should be, not what
it costs. A builder gets the step's spec and returns an `Offloading`.
"""

from __future__ import annotations

from dataclasses import dataclass

DTYPES = ["fp32", "tf32", "bf16", "fp16"]


@dataclass(frozen=True, slots=True)
class Offloading:
    """What goes where; `where` and `by` in the words of an error."""

    where: str
    """`nothing`, `states to the host`, `parameters and states to the host`, `states to disk`."""
    states: str = "none"
    """`none`, `cpu` or `nvme`, in DeepSpeed's words; `torchao` where that moves them to the host."""
    parameters: str = "none"
    """`none` or `cpu`."""
    by: str = "zero1 to zero3 or fsdp2"
    """What of the slot `sharding` does it."""


NOTHING = Offloading("nothing")
STATES_TO_HOST = Offloading("states to the host", states="cpu")
ALL_TO_HOST = Offloading("parameters and states to the host", states="cpu", parameters="cpu")
STATES_TO_HOST_BY_TORCHAO = Offloading("states to the host by torchao", states="torchao", by="sharding=none")
STATES_TO_DISK = Offloading("states to disk", states="nvme")
