"""Keeps several ranks in step: one decision for all, and a common start of every sample."""

from __future__ import annotations

from typing import Protocol


class PeerLostError(RuntimeError):
    """Another rank ended while this one waited for it; the fault lies there."""


class Team(Protocol):
    """The ranks of a trial. With one rank everything is free."""

    rank: int
    size: int

    def barrier(self) -> None:
        """Returns when all ranks have come here."""

    def agree(self, value: int) -> int:
        """Rank 0's value, on every rank."""


class Alone:
    """World size 1."""

    rank = 0
    size = 1

    def barrier(self) -> None:
        return

    def agree(self, value: int) -> int:
        return value


class ProcessGroupTeam:
    """The ranks of torch.distributed's default group, coordinated over a gloo group of their own.

    The default group is the subject's: where ranks fall out of step, its collective must not be taken for one of ours. And
    coordination through NCCL would enqueue work on the device that is being timed.
    """

    def __init__(self) -> None:
        import torch.distributed as dist

        self.rank = dist.get_rank()
        self.size = dist.get_world_size()
        self._group = dist.new_group(backend="gloo")

    def barrier(self) -> None:
        self.agree(0)

    def agree(self, value: int) -> int:
        import torch
        import torch.distributed as dist

        buffer = torch.tensor([value if self.rank == 0 else 0], dtype=torch.int64)
        try:
            # A sum, not a broadcast: nobody leaves before everybody has come.
            dist.all_reduce(buffer, group=self._group)
        except RuntimeError as error:
            raise PeerLostError(f"rank {self.rank} waited for another rank that had ended") from error
        return int(buffer.item())
