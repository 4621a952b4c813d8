"""Ends a process after the steps that were asked for, so that nothing is left behind: no process, and no checkpoint half written.

An exception would run the script's `finally` and `except` blocks, and some of those save what a full training would have made. So the
process leaves at once, right after an update: after what it printed is out, threads that the script waits for are done, its ranks have met,
and what it started has ended. Its exit status is 0.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from bench.processes import descendants, end_all, flush_c_streams

RANKS_S = 60.0
"""How long ranks wait for each other."""
THREADS_S = 30.0
"""How long threads that are no daemons may go on: one may be writing a checkpoint."""
_ARRIVED, _LEFT = "bench_audit_arrived", "bench_audit_left"


def leave() -> None:
    """Ends this process with status 0."""
    try:
        _wait_for_threads()
        _flush()
        last = _meet()
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a DataLoader's handler raises when its workers end
        end_all(lambda: descendants(os.getpid()), grace_s=1.0)
        if last is not None:
            last()
        _flush()
    finally:
        os._exit(0)


def _wait_for_threads() -> None:
    """Those that Python would wait for, pools of idle workers excepted: these wait for work that nobody gives them any more."""
    until = time.monotonic() + THREADS_S
    for thread in threading.enumerate():
        waits = not thread.daemon and thread is not threading.current_thread() and thread is not threading.main_thread()
        if waits and not _is_idle_worker(thread):
            thread.join(max(0.0, until - time.monotonic()))


def _is_idle_worker(thread: threading.Thread) -> bool:
    target: Any = getattr(thread, "_target", None)
    if getattr(target, "__module__", "") != "concurrent.futures.thread":
        return False
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code.co_name == "_worker"


def _flush() -> None:
    for handler in list(logging.root.handlers):
        with contextlib.suppress(OSError, ValueError):
            handler.flush()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    flush_c_streams()


def _meet() -> Any:
    """Waits until all ranks are here: one that left earlier would break what the others still exchange.

    Returns what the keeper of the ranks' store has to call last, since the store goes with its process. A rank that does not come is not
    waited for beyond `RANKS_S`.
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() < 2:
        return None
    from torch.distributed.distributed_c10d import _get_default_store

    store = _get_default_store()
    ranks = dist.get_world_size()
    _count_up(store, _ARRIVED, ranks, wait=True)
    keeper = dist.get_rank() == 0
    if not keeper:
        _count_up(store, _LEFT, ranks - 1, wait=False)
        return None
    return lambda: _wait_for(store, f"{_LEFT}_all")


def _count_up(store: Any, name: str, wanted: int, *, wait: bool) -> None:
    if store.add(name, 1) >= wanted:
        store.set(f"{name}_all", "1")
    if wait:
        _wait_for(store, f"{name}_all")


def _wait_for(store: Any, key: str) -> None:
    with contextlib.suppress(dist.DistStoreError, RuntimeError):
        store.wait([key], timedelta(seconds=RANKS_S))
