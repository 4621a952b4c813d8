"""The process group that ranks share a step over: the one that the trial has, or one of a single rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.declare import Unsupported

if TYPE_CHECKING:
    import torch


def ranks() -> int:
    """How many there are; 1 without a group."""
    import torch.distributed as dist

    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Which one this is."""
    import torch.distributed as dist

    return dist.get_rank() if dist.is_initialized() else 0


def alone(device: torch.device) -> None:
    """Raises Unsupported where there are several: each would train by itself."""
    if ranks() > 1:
        raise Unsupported("sharding=none has no ranks: each would train a model of its own; ddp is the plain way for several")


def join(device: torch.device) -> None:
    """Makes a group of one rank where the trial has none: libraries that shard want one."""
    import torch.distributed as dist
    from torch._C._distributed_c10d import HashStore

    if not dist.is_initialized():
        dist.init_process_group(backend(device), store=HashStore(), rank=0, world_size=1)


def backend(device: torch.device) -> str:
    """gloo between hosts' memories, NCCL between GPUs; a group on GPUs has both."""
    return "gloo" if device.type == "cpu" else "cpu:gloo,cuda:nccl"


def of_rank_0(value: int) -> int:
    """Rank 0's number on every rank; only called by all of them."""
    import torch
    import torch.distributed as dist

    if ranks() == 1:
        return value
    buffer = torch.tensor([value], dtype=torch.int64)
    dist.broadcast(buffer, src=0)
    return int(buffer.item())


def mean_of_ranks(value: float) -> float:
    """Only called by all ranks."""
    import torch
    import torch.distributed as dist

    if ranks() == 1:
        return value
    buffer = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(buffer)
    return float(buffer.item()) / ranks()
