"""What the ranks of a training step share out among themselves, and what each keeps whole.

    name               weights        gradients      states and master   who reduces and updates
    none               whole          whole          whole               one process; no ranks
    ddp                whole          whole          whole               torch DistributedDataParallel
    fsdp2              1/N            1/N            1/N                 torch fully_shard: each layer, the embedding and the head a unit
    fsdp2_root_unit    1/N            1/N            1/N                 the same, but embedding and head stay in the root unit (below)
    fsdp2_kept         1/N            1/N            1/N                 the same as fsdp2, but weights stay gathered until the backward
    zero0              whole          whole          whole               DeepSpeed's engine without ZeRO
    zero1              whole          whole          1/N                 DeepSpeed's engine
    zero2              whole          1/N            1/N                 DeepSpeed's engine
    zero3              1/N            1/N            1/N                 DeepSpeed's engine

All are data-parallel: each rank has micro-batches of its own, and gradients are means over all ranks. So a step's loss is the mean over
them too, and N ranks learn what one process learns of N times as many micro-batches; that is how they are checked. Weights begin alike.

The root unit is FSDP2's trap: what no other unit holds is the root's, and the root stays gathered from its forward to the end of its
backward. With embedding and head in it, both are whole on every rank at the peak, and so are their gradients.

Precision. With `bf16_master` and `fp16_master` ranks compute in 16 bits and update an fp32 copy: DeepSpeed's `bf16` and `fp16`, and
FSDP2's mixed-precision policy over fp32 shards, which have the same numbers. DeepSpeed trains in those two and in fp32 here. Loss scaling
of its fp16 is its own; its stage 0 in 16 bits sums gradients otherwise, so its distance from plain PyTorch is told and not judged.

A builder gets the step's spec and returns a `Sharding`. Its promise is proved by what the rank holds in bytes (`_promise.py`), and what it
communicates is counted by the worker. World size 1 is allowed: that is what an engine costs by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from bench.workloads.train_step._driver import Driver, Parts

DTYPES = ["fp32", "bf16", "fp16"]
ENGINE_REQUIRES = ["deepspeed>=0.18"]
NO_DTENSOR = ["got mixed torch.Tensor and DTensor"]
"""What torch says where a library's own operator is given the tensors that fully_shard makes, which it does not know."""


@dataclass(frozen=True, slots=True)
class Sharding:
    """How ranks share a step."""

    drive: Callable[[Parts], Driver]
    """Makes the driver of the filled model. Raises Unsupported, in words, for what cannot go together."""
    join: Callable[[torch.device], Any]
    """Joins the ranks, before anything is made; raises Unsupported where there may be none."""

    def common_seed(self, seed: int, device: torch.device) -> int:
        """The seed of rank 0, on every rank: weights begin alike everywhere."""
        self.join(device)
        from bench.workloads.sharding._group import of_rank_0

        return of_rank_0(seed)
