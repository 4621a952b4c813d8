"""The fork server: imports torch once, then gives every trial a fresh process in milliseconds.

Started as `python -m bench.worker.server --fd N`, where N is its end of a socket pair. It speaks JSON lines:

    parent -> {"op": "run", "directory": PATH, "world_size": N, "variables": {NAME: TEXT}}     joins the trial's environment
    server -> {"event": "ready", "facts": {...}, "source": FOLDER of this package}  or  {"event": "failed", "message": TEXT}, then it ends
    server -> {"event": "started", "pid": PID, "prepared_s": SECONDS that went into imports for this and later trials,
               "branches": [PID ...] of processes below the server that are no trial's}
    server -> {"event": "refused", "message": TEXT}             the server is not fit to fork: our bug
    server -> {"event": "ended", "returncode": CODE, "survivors": [PID ...]}     negative code: killed by that signal

Why fork at all: a fresh interpreter with torch costs five seconds, a fork some milliseconds. What makes it safe: the server has exactly
one thread, has never touched CUDA, and imported nothing but the allow-list below. The first two are asserted before every fork, because
a library that starts a thread or a CUDA context at import would poison every child. What trials of a kind import besides, a branch
imports for them: this same server, forked, with a socket to the first one instead of the parent (`preload.py`, `branch.py`).

The server is a subreaper: what a trial leaves behind becomes its child, and is killed before `ended` is said. When the parent dies,
the socket ends, and so do all trials and the server.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gc
import importlib
import importlib.util
import inspect
import json
import os
import platform
import resource
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import bench
from bench.processes import Process, adopt_orphans, descendants, die_with_parent, end_all, flush_c_streams, look_up, outlive_parent
from bench.records import trial_folder

# Nothing here may import torch: this process must live to say that it could not. `_imports` does, and whoever is called after it.
if TYPE_CHECKING:
    from bench.records import Request
    from bench.worker.branch import Branch

ALLOWED = ("torch", "torch._dynamo", "torch._inductor", "triton")
"""Imported before the first fork. Nothing else: many libraries initialise CUDA when they are imported."""


def _imports() -> None:
    for name in ALLOWED:
        if name == "triton" and importlib.util.find_spec("triton") is None:
            continue
        importlib.import_module(name)
    _warm_triton()
    # Our own modules, declarations and validators, so that a child pays for none of them.
    from bench.records import Reply, Request
    from bench.records.json_form import validator
    from bench.worker import trial  # noqa: F401
    from bench.worker.subject import import_declarations

    import_declarations()
    for record in (Request, Reply):
        validator(record)


def _warm_triton() -> None:
    """What every process would do again before its first Triton kernel, done once: none of it touches the driver.

    Triton hashes its own files (the library is hundreds of megabytes), asks `ptxas` for its version in a process of its own, and
    hashes its device library. All is kept per process, and a forked child has it. Names differ between releases: what is not there
    is left out, and what fails here fails again, with its message, where it is needed.
    """
    if "triton" not in sys.modules:
        return
    from bench.worker import cuda_kernels  # noqa: F401 - declares our own kernels; nothing is compiled

    for module in ("triton.runtime.cache", "triton.compiler.compiler"):
        key = getattr(sys.modules.get(module), "triton_key", None)
        if key is not None:
            key()
    compiler = sys.modules.get("triton.backends.nvidia.compiler")
    version = getattr(compiler, "get_ptxas_version", None)
    options = getattr(compiler, "CUDAOptions", None)
    # An AssertionError is how Triton says that there is no driver's library.
    with contextlib.suppress(OSError, RuntimeError, AssertionError, subprocess.SubprocessError):
        if version is None or options is None:
            return
        # By architecture where the release asks for one: 90 stands for all that the older of the two assemblers serves.
        version(90) if inspect.signature(version).parameters else version()
        options().hash()
        # Asks ldconfig where the driver's library lies.
        getattr(sys.modules.get("triton.backends.nvidia.driver"), "library_dirs", list)()


def _facts() -> dict[str, Any]:
    """What torch says of itself. Asked in a child, because asking for devices may leave a thread of the driver behind."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        status = 1
        try:
            os.write(writer, json.dumps(_read_facts()).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as answers:
        answer = answers.read()
    os.waitpid(pid, 0)
    facts: dict[str, Any] = json.loads(answer)
    return facts


def _read_facts() -> dict[str, Any]:
    import torch

    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_cuda": torch.version.cuda,
        "cuda_available": torch.cuda.is_available(),
        "cuda_devices": torch.cuda.device_count(),
    }


def _unfit() -> str | None:
    """Why this process must not be forked, or None."""
    import torch

    threads = os.listdir("/proc/self/task")
    if len(threads) != 1:
        names = [Path(f"/proc/self/task/{thread}/comm").read_text().strip() for thread in threads]
        return f"the fork server has {len(threads)} threads ({', '.join(names)}) and must have one"
    if torch.cuda.is_initialized():
        return "the fork server has initialised CUDA, which a forked child cannot use"
    return None


def _say(connection: socket.socket, message: dict[str, Any]) -> None:
    """One line to the parent. A parent that is gone is noticed when the socket is read."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(json.dumps(message).encode() + b"\n")


class Server:
    """One trial at a time, started and ended at the parent's word."""

    def __init__(self, connection: socket.socket, *, is_branch: bool = False) -> None:
        self._connection = connection
        self._is_branch = is_branch
        self._incoming = b""
        self._pid = os.getpid()
        self._trial: int | None = None
        self._returncode: int | None = None
        # The interpreter writes a byte here when a child ends, so that one poll waits for both.
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        from bench.worker.preload import Branches

        self._branches = Branches(_unfit, self._be_a_branch)
        self._active: Branch | None = None
        """That of the trial in progress."""
        self._asked: dict[str, Any] = {}
        """What the parent asked for last."""
        self._prepared_s = 0.0

    def serve(self) -> None:
        """Until the parent closes its end or dies."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        while True:
            watched = {branch.connection.fileno(): branch for branch in self._branches.standing()}
            for number in watched:
                poll.register(number, select.POLLIN)
            spoken = [watched[number] for number, _ in poll.poll() if number in watched]
            for number in watched:
                poll.unregister(number)
            for branch in spoken:
                self._hear(branch)
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake_read, 4096)
            self._collect()
            if not self._receive():
                self._end_descendants(branches=True)
                return

    def say(self, **message: Any) -> None:
        _say(self._connection, message)

    def _receive(self) -> bool:
        """Handles what has arrived; False at the end of the socket."""
        try:
            data = self._connection.recv(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False
        self._incoming += data
        *lines, self._incoming = self._incoming.split(b"\n")
        for line in lines:
            self._asked = json.loads(line)
            self._start()
        return bool(data)

    def _start(self) -> None:
        """The trial that was asked for, from the branch of its kind where there is one."""
        from bench.worker.branch import NOT_SHARED

        began = time.monotonic()
        request = None if self._is_branch or self._asked["world_size"] != 1 else self._read_request()
        if self._is_branch:
            NOT_SHARED[:] = self._asked["not_shared"]
        self._active = None if request is None else self._branches.offer(request)
        self._prepared_s = time.monotonic() - began
        if self._active is None:
            self._fork()
        elif not self._active.ask({**self._asked, "not_shared": NOT_SHARED}):
            self._lose(self._active)

    def _fork(self) -> None:
        if (unfit := _unfit()) is not None:
            self.say(event="refused", message=unfit)
            return
        gc.freeze()  # keeps the collector's marks out of pages that children share
        pid = os.fork()
        if pid == 0:
            self._be_the_trial(Path(self._asked["directory"]), int(self._asked["world_size"]), self._asked["variables"])
        self._begin(pid)

    def _begin(self, pid: int) -> None:
        self._trial = pid
        self.say(event="started", pid=pid, prepared_s=self._prepared_s, branches=self._branch_pids())

    def _branch_pids(self) -> list[int]:
        return [branch.pid for branch in self._branches.standing()]

    def _read_request(self) -> Request | None:
        from bench.records import Request, load_json

        try:
            return load_json(Request, (Path(self._asked["directory"]) / trial_folder.REQUEST).read_bytes())
        except (OSError, ValueError):
            return None  # the trial reads it too, and says what is wrong with it

    def _be_a_branch(self, connection: socket.socket) -> None:
        """In a fork of this process: what it has of the parent and of other branches is not ours."""
        self._leave_behind()
        Server(connection, is_branch=True).serve()

    def _leave_behind(self) -> None:
        """Closes what a forked process has no business with."""
        self._connection.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
        for branch in self._branches.standing():
            branch.connection.close()

    def _hear(self, branch: Branch) -> None:
        """Hands on what a branch says of its trial."""
        messages = branch.messages()
        if messages is None:
            self._lose(branch)
            return
        for message in messages:
            if message["event"] == "started":
                self._begin(message["pid"])
            else:
                self._ended(message)

    def _lose(self, branch: Branch) -> None:
        """A branch has ended. Its trial in progress goes with it and becomes our child; one that it did not start is started here."""
        self._branches.drop(branch)
        if branch is not self._active:
            return
        self._active = None
        if self._trial is None:
            self._fork()
        elif look_up(self._trial) is None:
            self._returncode = -signal.SIGKILL  # the branch had collected it, and did not come to say so

    def _be_the_trial(self, directory: Path, world_size: int, variables: dict[str, str]) -> NoReturn:
        code = 70
        try:
            die_with_parent()
            if os.getppid() != self._pid:
                os._exit(code)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._leave_behind()
            os.setsid()
            log = os.open(directory / trial_folder.log(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(log, 1)
            os.dup2(log, 2)
            from bench.worker.branch import SAID

            for said in SAID:
                os.write(log, said)
            os.close(log)
            os.environ.update(variables)
            faulthandler.enable()  # a segmentation fault leaves the Python stack in the log
            if world_size == 1:
                os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", LOCAL_WORLD_SIZE="1")
                from bench.worker.trial import run_trial

                run_trial(directory)
            else:
                from bench.worker.launch import launch_ranks

                launch_ranks(directory, world_size)
            code = 0
        except BaseException:  # noqa: BLE001 - nothing may climb into the server's loop in a second process
            text = traceback.format_exc()
            with contextlib.suppress(OSError):
                (directory / trial_folder.HARNESS_ERROR).write_text(text)
        finally:
            flush_c_streams()
            os._exit(code)

    def _collect(self) -> None:
        """Reaps all dead children; when the trial is among them, kills what it left and says that it ended."""
        self._reap_all()
        if self._trial is None or self._returncode is None:
            return
        survivors = self._end_descendants(branches=False)
        self._ended({"event": "ended", "returncode": self._returncode, "survivors": survivors})

    def _ended(self, message: dict[str, Any]) -> None:
        """The last word on a trial, a branch's or ours."""
        self._trial = self._returncode = self._active = None
        self.say(**message)

    def _reap_all(self, _zombies: list[int] | None = None) -> None:
        while True:
            try:
                pid, wait_status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._trial:
                self._returncode = os.waitstatus_to_exitcode(wait_status)

    def _end_descendants(self, *, branches: bool) -> list[int]:
        kept = () if branches else self._branch_pids()

        def find() -> list[Process]:
            return [process for process in descendants(self._pid) if process.pid not in kept]

        return end_all(find, grace_s=0.0, collect=self._reap_all)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.worker.server", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--fd", type=int, required=True, help="file descriptor of this end of the socket pair")
    connection = socket.socket(fileno=parser.parse_args(arguments).fd)
    connection.set_inheritable(False)
    die_with_parent()  # until torch is imported nobody listens to the socket
    adopt_orphans()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is a row; gigabytes of core files would fill the disk
    # The collector would walk through all of torch a dozen times while it grows, a seventh of the start.
    gc.disable()
    try:
        _imports()
        facts = _facts()
    except Exception as error:  # noqa: BLE001 - whatever torch's import raises is for the parent to tell
        traceback.print_exc()
        _say(connection, {"event": "failed", "message": f"{type(error).__name__}: {error}"})
        return 1
    gc.enable()
    gc.collect()
    outlive_parent()
    server = Server(connection)
    server.say(event="ready", facts=facts, source=str(Path(bench.__file__).parent))
    server.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
