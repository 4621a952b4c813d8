"""One measuring run per device at a time: a lock that dies with its process, and says who holds it."""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.errors import LockError

_LOOK_EVERY_S = 0.5


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


def lock_path(lock_name: str) -> Path:
    """The same file for every user of this host."""
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in lock_name)
    return Path(tempfile.gettempdir()) / "stepbench-locks" / f"{safe}.lock"


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(mode=0o777)
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
) -> Iterator[bool]:
    """Holds the device; yields False, without it, where `stop` turned true while waiting.

    `waiting` is told once per holder for whom we wait. Raises LockError where the device is held and `wait` is false.
    """
    path = lock_path(lock_name)
    try:
        descriptor = _open(path)
    except OSError as error:
        raise LockError(
            f"cannot open the lock of {lock_name}: {error}; remove {path} or set TMPDIR to a folder of yours"
        ) from error
    try:
        told: Holder | None = None
        announced = False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
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
                time.sleep(_LOOK_EVERY_S)
        mine = Holder(os.getpid(), _user(), command, run_id, datetime.now(UTC).isoformat(timespec="seconds"))
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(asdict(mine)).encode(), 0)
        yield True
    finally:
        os.close(descriptor)  # and with it the lock: no child has a copy


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"  # containers run as numbers without a name
