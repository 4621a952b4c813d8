"""A branch: a fork of the fork server that has imported more, and forks the trials that import just that.

Packages as large as transformers take seconds to import, and each trial would pay for them anew. They cannot be imported in the server
itself: many start threads or initialise CUDA, which would poison every child, and some change torch (bitsandbytes and Liger wrap
methods of all optimizers), which is no business of a rival's trial. So a process of its own imports them, and serves only trials of
that kind. Whether it may is not believed but tried: it must have one thread then, torch must not have
initialised CUDA, and where trials run on CUDA a child of it must be able to compute there.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from bench.processes import adopt_orphans, die_with_parent, flush_c_streams
from bench.worker.cuda_answers import Properties, answered
from bench.worker.triton_interpreter import complete

IMPORT_LIMIT_S = 35
"""After which a branch is given up: the parent waits a minute for a fork."""

MOST_SAID_BYTES = 2**16

Statement = tuple[str, tuple[str, ...]]
"""An import statement: the module, and the names that are taken from it."""

IMPORTED: list[str] = []
"""In a branch: the modules of its statements, and the seconds that each took. Its trials find them here."""
SAID: list[bytes] = []
"""In a branch: what packages printed while it imported them. It begins the logs of its trials, as if they had imported."""
NOT_SHARED: list[str] = []
"""In the server and in a branch: why the trial that is forked next imports for itself what could be shared. The trial finds it here."""


class Branch:
    """The server's end of one."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self.connection = connection
        self._incoming = b""

    def ask(self, request: dict[str, Any]) -> bool:
        """Sends it the parent's request; False where it is gone."""
        try:
            self.connection.sendall(json.dumps(request).encode() + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def messages(self) -> list[dict[str, Any]] | None:
        """What it has said by now, for the parent; None where it has ended. Waits where it has said nothing."""
        try:
            data = self.connection.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            return None
        *lines, self._incoming = (self._incoming + data).split(b"\n")
        return [json.loads(line) for line in lines]


def open_branch(
    statements: Sequence[Statement],
    serve: Callable[[socket.socket], None],
    unfit: Callable[[], str | None],
    device_index: int | None,
    properties: Sequence[Properties],
    *,
    interpreter: bool = False,
) -> Branch | str:
    """A branch that has run `statements` and now does `serve` with its end of a socket pair; or why there is none.

    `unfit` says why a process must not be forked; `device_index` is the trials' GPU, None on a CPU; `properties` are those of all GPUs;
    with `interpreter` Triton's is completed first, as a trial does, for packages take its functions when they are imported.
    """
    ours, theirs = socket.socketpair()
    server = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            die_with_parent()
            if os.getppid() == server:
                ours.close()
                adopt_orphans()
                NOT_SHARED.clear()
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(IMPORT_LIMIT_S)
                if interpreter:
                    complete()
                with _heard():
                    reason = _tried(statements, unfit, device_index, properties, theirs)
                signal.alarm(0)
                theirs.sendall(json.dumps({"reason": reason}).encode() + b"\n")
                if reason is None:
                    serve(theirs)
        finally:
            os._exit(0)
    theirs.close()
    branch = Branch(pid, ours)
    said = branch.messages()
    if said and said[0]["reason"] is None:
        return branch
    ours.close()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if said:
        return str(said[0]["reason"])
    return (
        f"a process that imported them was ended by {signal.Signals(-code).name}"
        if code < 0
        else "a process that imported them ended"
    )


@contextmanager
def _heard() -> Iterator[None]:
    """Keeps what is printed in `SAID`, and says it where it would have been said, too."""
    kept = os.memfd_create("imports")
    outs = {number: os.dup(number) for number in (1, 2)}
    for number in outs:
        os.dup2(kept, number)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        flush_c_streams()
        for number, out in outs.items():
            os.dup2(out, number)
            os.close(out)
        os.lseek(kept, 0, os.SEEK_SET)
        said = os.read(kept, MOST_SAID_BYTES)
        os.close(kept)
        if said:
            SAID.append(said)
            os.write(2, said)


def _tried(
    statements: Sequence[Statement],
    unfit: Callable[[], str | None],
    device_index: int | None,
    properties: Sequence[Properties],
    answers: socket.socket,
) -> str | None:
    """Runs them; why that made this process unfit, or None."""
    try:
        with ExitStack() as stack:
            askers = [] if device_index is None else stack.enter_context(answered(properties, device_index))
            for name, wanted in statements:
                start = time.monotonic()
                module = __import__(name, fromlist=wanted)
                for one in wanted:
                    getattr(module, one, None)  # some packages import what is asked of them, when it is asked
                IMPORTED.append(f"{name} ({time.monotonic() - start:.1f} s)")
            _warm_compiler()
    except Exception as error:  # noqa: BLE001 - whatever a package raises when it is imported is its trials' to tell
        return f"{type(error).__name__}: {error}"
    reason = unfit()
    if reason is not None:
        return f"{reason} (for {askers[0]})" if askers else reason
    if device_index is None:
        return None
    return None if _a_child_can_compute(device_index, answers) else "a child that is forked after their import cannot use CUDA"


def _warm_compiler() -> None:
    """What torch's compiler, where it has been imported, would do again in each trial: it hashes torch's sources, once a process."""
    key = getattr(sys.modules.get("torch._inductor.codecache"), "torch_key", None)
    if key is not None:
        key()


def _a_child_can_compute(device_index: int, answers: socket.socket) -> bool:
    """Whether it can. One that hangs goes with us, and does not keep the socket open, whose end the server waits for."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            die_with_parent()
            answers.close()
            import torch

            code = int(torch.ones(8, device=f"cuda:{device_index}").sum().item() != 8)
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0
