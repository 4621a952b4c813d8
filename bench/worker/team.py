"""Keeps several ranks in step: one decision for all, and a common start of every sample."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol

PATIENCE_S = 30.0
"""For the other ranks to come out of a pass that this one has left for want of memory."""


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

    def leave(self, place: str) -> None:
        """Tells the others that this rank has come out of a pass, and waits for nobody."""

    def all_leave(self, place: str) -> bool:
        """The same; and whether all others have come out of it too, or do so soon."""


class Alone:
    """World size 1."""

    rank = 0
    size = 1

    def barrier(self) -> None:
        return

    def agree(self, value: int) -> int:
        return value

    def leave(self, place: str) -> None:
        return

    def all_leave(self, place: str) -> bool:
        return True


class ProcessGroupTeam:
    """The ranks of torch.distributed's default group, coordinated over a gloo group of their own.

    The default group is the subject's: where ranks fall out of step, its collective must not be taken for one of ours. And
    coordination through NCCL would enqueue work on the device that is being timed.
    """

    def __init__(self) -> None:
        import torch.distributed as dist
        from torch.distributed.distributed_c10d import PrefixStore, _get_default_store

        self.rank = dist.get_rank()
        self.size = dist.get_world_size()
        self._group = dist.new_group(backend="gloo")
        # Where a rank says something that nobody waits for, as a collective would.
        self._store = PrefixStore("bench passes", _get_default_store())

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

    def leave(self, place: str) -> None:
        self._store.set(f"{place}/{self.rank}", "left")

    def all_leave(self, place: str) -> bool:
        self.leave(place)
        try:
            self._store.wait([f"{place}/{rank}" for rank in range(self.size)], timedelta(seconds=PATIENCE_S))
        except RuntimeError:  # as torch says that the time is over, or that the store has gone with its rank
            return False
        return True
