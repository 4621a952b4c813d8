"""What every test gets: no settings of the person who runs it, and a reason where there is no GPU."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator

import hypothesis
import pytest

from tests.lending import Lender


def pytest_configure() -> None:
    """What must stand before anything is imported or started."""
    # A job in the background of a script inherits that Ctrl-C is ignored, and so would every process that a test starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Tests start hundreds of processes, and each would compile all of bench anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # In every empty cache torch would try each instruction set of this processor with the compiler again: fifteen seconds each time.
    os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")
    # With more, whoever compiles first starts a pool of processes, each of which imports torch.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    # How long an example takes says how busy the machine is.
    hypothesis.settings.register_profile("bench", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
    hypothesis.settings.load_profile("bench")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """One more than there are processors: a quarter of the time a test waits, for a process to start, for a nap or a lock."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays to the end: the garbage collector need not walk through it, now or later."""
    gc.disable()
    collected = yield
    gc.enable()
    gc.freeze()
    return collected


@pytest.fixture(autouse=True, scope="session")
def _locks_of_our_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A run that somebody measures on this machine meanwhile must not make tests wait, nor they it."""
    os.environ["BENCH_LOCK_DIR"] = str(tmp_path_factory.mktemp("locks") / "stepbench-locks")


@pytest.fixture(autouse=True, scope="session")
def _compile_caches_of_our_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What another process compiles meanwhile must not appear in the caches that a trial in this process watches."""
    folder = tmp_path_factory.mktemp("compiled")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
    os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")


@pytest.fixture(scope="session")
def lender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lender]:
    """Real fork servers that outlive a run."""
    made = Lender(tmp_path_factory.mktemp("lender"))
    yield made
    made.close()


@pytest.fixture
def shared_server(lender: Lender, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in this process borrow one real fork server: for tests of what a run does with trials, not of how a server lives."""
    monkeypatch.setattr("bench.run.worker.ForkServer", lender.borrow)


@pytest.fixture(autouse=True)
def _no_settings_of_mine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BENCH_DB", raising=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `gpu` are skipped, with the reason, where NVML sees no GPU."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    from bench.errors import DeviceError
    from bench.machine import find_device

    try:
        find_device("cuda")
    except DeviceError as error:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=str(error)))
