"""Runs the parts of the self-test, each for itself: a part that fails says so in its own line and hides no other."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bench.errors import BenchError, DeviceError, HarnessError
from bench.machine import Device
from bench.run.selftest import parts, parts_cpu, parts_cuda
from bench.run.selftest.comparison import Comparisons
from bench.run.selftest.judgement import Judgement, cannot_tell, exit_code
from bench.run.selftest.session import NotMeasured, Session, open_session

Part = tuple[str, Callable[[], Iterator[Judgement]]]


@dataclass(frozen=True, slots=True)
class Report:
    """What the self-test found on one device, in the order of its parts."""

    device: str
    judgements: tuple[Judgement, ...]
    duration_s: float

    @property
    def exit_code(self) -> int:
        return exit_code(self.judgements)


def selftest(
    device: Device, *, wait: bool = True, progress: Callable[[str], None] = lambda _text: None, budget_s: float | None = None
) -> Report:
    """All parts on `device`, at most 60 s on a CPU and 150 s on a GPU; what there is no time for cannot be told.

    Raises LockError where another run holds the device and `wait` is false, DeviceError where torch does not see the GPU, and
    KeyboardInterrupt on Ctrl-C and TERM.
    """
    side = parts_cuda if device.kind == "cuda" else parts_cpu
    began = time.monotonic()
    with (
        open_session(device, budget_s=budget_s or side.BUDGET_S, wait=wait, notice=progress) as session,
        side.comparisons(session) as running,
    ):
        found: list[Judgement] = []
        for name, part in _parts(session, running):
            progress(f"{name} ...")
            found += guarded(name, part)
    return Report(device.name, tuple(found), time.monotonic() - began)


def _parts(session: Session, running: Comparisons) -> Sequence[Part]:
    """In the order of their worth: what comes last may find no time left."""
    cuda = session.device.kind == "cuda"
    side = parts_cuda if cuda else parts_cpu
    known = parts_cuda.KNOWN if cuda else parts_cpu.PROTOCOL
    return (
        ("zero", lambda: side.empty(session)),
        ("spins", lambda: parts.spins(session, side.SPINS_S, known, trials=side.SPIN_TRIALS)),
        ("memory", lambda: parts.memory(session, known)),
        ("slow-down", lambda: side.injected(session)),
        ("other timers", lambda: side.compared(session, running)),
        ("spread between processes", lambda: side.spread(session)),
    )


def guarded(name: str, part: Callable[[], Iterator[Judgement]]) -> list[Judgement]:
    """The part's lines; where it ended early, those before it and the reason."""
    found: list[Judgement] = []
    try:
        for line in part():
            found.append(line)
    except NotMeasured as error:
        found.append(cannot_tell(name, "the rest" if found else "all of it", str(error)))
    except DeviceError:
        raise  # without its device no part means anything
    except (BenchError, HarnessError) as error:
        found.append(cannot_tell(name, "the rest" if found else "all of it", f"the harness failed: {error}"))
    except Exception:  # noqa: BLE001 - our own bug; shown whole in its line, and the other parts are still worth having
        found.append(cannot_tell(name, "the rest" if found else "all of it", f"a bug in bench: {traceback.format_exc()}"))
    return found
