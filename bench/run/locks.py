"""One measuring run per device, and one process per run, at a time: locks that die with their process and say who holds them.

The locks are files of one folder for all users of the host, whatever TMPDIR says: two runs with different temporary folders must meet.
It is the first of /run/lock, /dev/shm and /tmp that everybody may write; BENCH_LOCK_DIR names another one.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import json
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from bench.errors import LockError
from bench.records import utc_now

_LOOK_EVERY_S = 0.5
LOCK_DIR_VARIABLE = "BENCH_LOCK_DIR"
_PLACES = ("/run/lock", "/dev/shm", "/tmp")


class StillHeldError(LockError):
    """Somebody held the device, or the run, for as long as there was time to wait."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who wrote himself into the lock file. It may be the one before: only the lock itself is binding."""

    pid: int
    user: str
    command: str
    run_id: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} of {self.user}, since {self.since}: {self.command} (run {self.run_id})"


def _place() -> Path:
    """By the folder's mode and not by our own rights: root must not choose another one than everybody else."""
    for place in map(Path, _PLACES):
        with contextlib.suppress(OSError):
            if place.stat().st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH | stat.S_ISVTX:
                return place
    return Path(_PLACES[-1])


def lock_path(lock_name: str) -> Path:
    """The same file for every user of this host."""
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in lock_name)
    chosen = os.environ.get(LOCK_DIR_VARIABLE)
    return (Path(chosen) if chosen else _place() / "stepbench-locks") / f"{safe}.lock"


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(mode=0o777, parents=LOCK_DIR_VARIABLE in os.environ)
        path.parent.chmod(0o1777)  # mkdir's mode is cut by the umask
    except FileExistsError:
        pass
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        # Without O_CREAT first: kernels refuse it in sticky folders for a file of another user, even where it may be written.
        return os.open(path, flags)
    except FileNotFoundError:
        pass
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        return os.open(path, flags)
    os.fchmod(descriptor, 0o666)
    return descriptor


def _holder(descriptor: int) -> Holder | None:
    text = os.pread(descriptor, 65536, 0)
    try:
        return Holder(**json.loads(text))
    except (ValueError, TypeError):
        return None  # it is just being written, or by another version


@contextlib.contextmanager
def device_lock(
    lock_name: str,
    *,
    run_id: str,
    command: str,
    wait: bool = True,
    waiting: Callable[[str], None] = lambda _text: None,
    stop: Callable[[], bool] = lambda: False,
    late: Callable[[], bool] = lambda: False,
) -> Iterator[bool]:
    """Holds the device; yields False, without it, where `stop` turned true while waiting.

    `waiting` is told once per holder for whom we wait. Raises LockError where the device is held and `wait` is false, StillHeldError where
    `late` turned true while waiting.
    """
    descriptor = _opened(lock_name)
    try:
        told: Holder | None = None
        announced = False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _still_named(descriptor, lock_name):
                    break
                named = _opened(lock_name)  # its holder has removed the file that we waited for
                os.close(descriptor)
                descriptor = named
            except BlockingIOError:
                holder = _holder(descriptor)
                who = str(holder) if holder else "another run that has not said its name"
                if not wait:
                    raise LockError(f"{lock_name} is held by {who}") from None
                if not announced or holder != told:
                    waiting(f"waiting for {lock_name}, held by {who}")
                    told, announced = holder, True
                if stop():
                    yield False
                    return
                if late():
                    raise StillHeldError(f"{lock_name} was held all the while that there was time to wait, by {who}") from None
                time.sleep(_LOOK_EVERY_S)
        mine = Holder(os.getpid(), _user(), command, run_id, utc_now("seconds"))
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(asdict(mine)).encode(), 0)
        yield True
    finally:
        os.close(descriptor)  # and with it the lock: no child has a copy


@contextlib.contextmanager
def device_locks(
    lock_names: Sequence[str],
    *,
    run_id: str,
    command: str,
    wait: bool = True,
    waiting: Callable[[str], None] = lambda _text: None,
    stop: Callable[[], bool] = lambda: False,
    late: Callable[[], bool] = lambda: False,
) -> Iterator[bool]:
    """`device_lock` of several devices, each once and in the order of their names, so that no two runs wait for each other.

    Names are the same in every process, and numbers of GPUs are not.
    """
    names = sorted(set(lock_names))
    with contextlib.ExitStack() as stack:
        how = partial(device_lock, run_id=run_id, command=command, wait=wait, waiting=waiting, stop=stop, late=late)
        locks = (how(name) for name in names)
        yield all(stack.enter_context(lock) for lock in locks)


@contextlib.contextmanager
def run_lock(
    run_id: str,
    *,
    command: str,
    wait: bool = True,
    waiting: Callable[[str], None] = lambda _text: None,
    stop: Callable[[], bool] = lambda: False,
    late: Callable[[], bool] = lambda: False,
) -> Iterator[bool]:
    """Holds a run, as `device_lock` holds a device: two resumes of one run on different GPUs must not measure the same trials."""
    name = _run_lock_name(run_id)
    with device_lock(name, run_id=run_id, command=command, wait=wait, waiting=waiting, stop=stop, late=late) as held:
        try:
            yield held
        finally:
            if held:
                # There is one a run, so they would pile up. Who waits for it holds a file without a name then, and opens a new one.
                with contextlib.suppress(OSError):
                    lock_path(name).unlink()


def run_is_alive(run_id: str) -> bool:
    """Whether a process of this host works on the run now."""
    path = lock_path(_run_lock_name(run_id))
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _run_lock_name(run_id: str) -> str:
    return f"run-{run_id}"


def _opened(lock_name: str) -> int:
    path = lock_path(lock_name)
    try:
        return _open(path)
    except OSError as error:
        other = f"set {LOCK_DIR_VARIABLE} to a folder that all users share"
        to_do = f"remove {path}, or {other}" if os.path.lexists(path) else other
        raise LockError(f"cannot open the lock of {lock_name}: {error}; {to_do}") from error


def _still_named(descriptor: int, lock_name: str) -> bool:
    """Whether the file that we hold is the one that others will find."""
    try:
        there = lock_path(lock_name).stat()
    except OSError:
        return False
    mine = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"  # containers run as numbers without a name
