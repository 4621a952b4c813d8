"""Turns the first Ctrl-C, TERM or HUP into a question that the run asks itself; the second one acts at once."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """Yields a function that says whether a signal has asked us to stop. Outside the main thread no signal reaches it."""
    received: list[int] = []
    before: dict[signal.Signals, object] = {}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # it is what signal.signal returned
        before.clear()

    def note(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        restore()

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # A signal that we were started to ignore (nohup) stays ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, note)
    try:
        yield lambda: bool(received)
    finally:
        restore()
