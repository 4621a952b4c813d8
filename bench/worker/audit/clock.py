"""Moments of a training, cheap enough for every step: on CUDA events on the stream, on a CPU the host's clock."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Moment:
    host_s: float
    event: Any
    """None where CUDA is not in use."""


def now() -> Moment:
    """This moment; on CUDA it is when the device gets there."""
    event = None
    if torch.cuda.is_initialized():
        event = torch.cuda.Event(enable_timing=True)
        event.record()
    return Moment(time.perf_counter(), event)


def seconds(begin: Moment, end: Moment) -> float:
    """Between two moments. Waits for the device where both are its."""
    if begin.event is None or end.event is None:
        return end.host_s - begin.host_s
    end.event.synchronize()
    elapsed: float = begin.event.elapsed_time(end.event)
    return elapsed * 1e-3
