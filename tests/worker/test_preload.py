"""Trials of one kind share their imports through a branch of the server; what would poison its children is left to them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import bench.workloads
from bench.processes import look_up
from bench.records import Pass, Protocol, Request, canonical_json, dump
from bench.records.trial_folder import GATE
from bench.run.forkserver import ForkServer, server_environment
from bench.worker.branch import NOT_SHARED, SAID, Branch, open_branch
from bench.worker.preload import COMPILER, Branches, compiles, shared_imports
from bench.worker.server import Server
from bench.worker.subject import import_declarations
from tests import factories
from tests.worker.trials import attention, rms_norm
from tests.workloads.linear_cases import linear
from tests.workloads.training import training

QUIET = (("quiet_one", ("LOADED",)),)


def threads() -> str | None:
    count = len(os.listdir("/proc/self/task"))
    return None if count == 1 else f"{count} threads"


def fit() -> None:
    """Of the tests' own process, which may have threads, nothing is asked."""


def waits(connection: socket.socket) -> None:
    connection.recv(1)


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path of this process, for modules that do something when they are imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "quiet_one.py").write_text("LOADED = 1\n")
    thread = "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    (tmp_path / "threaded_one.py").write_text(f"import threading, time\n{thread}\n")
    (tmp_path / "broken_one.py").write_text("raise RuntimeError('no licence')\n")
    (tmp_path / "dying_one.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    (tmp_path / "noisy_one.py").write_text("import os\nos.write(2, b'in words\\n')\nos.system('echo by others')\n")
    (tmp_path / "endless_one.py").write_text("import time\ntime.sleep(60)\n")
    return tmp_path


def end(branch: Branch) -> None:
    branch.connection.close()
    os.waitpid(branch.pid, 0)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("broken_one", "RuntimeError: no licence"),
        ("threaded_one", "threads"),
        ("dying_one", "a process that imported them was ended by SIGKILL"),
        ("nowhere_to_be_found", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
    ],
)
def test_a_process_that_its_imports_make_unfit_becomes_no_branch(modules: Path, name: str, reason: str) -> None:
    def unfit() -> str | None:
        return "threads" if len(os.listdir("/proc/self/task")) != 1 else None

    assert open_branch([(name, ())], waits, unfit, None, ()) == reason
    assert name not in sys.modules


def test_a_branch_imports_in_a_process_of_its_own_and_leaves_when_its_socket_ends(modules: Path) -> None:
    def tell(connection: socket.socket) -> None:
        import quiet_one  # type: ignore[import-not-found]

        connection.recv(64)
        connection.sendall(json.dumps({"loaded": quiet_one.LOADED}).encode() + b"\n")
        connection.recv(1)

    branch = open_branch(QUIET, tell, fit, None, ())
    assert isinstance(branch, Branch), branch
    assert branch.ask({"op": "tell"})
    assert branch.messages() == [{"loaded": 1}]
    end(branch)


def test_what_packages_print_when_they_are_imported_is_kept_for_the_logs_of_the_trials(modules: Path) -> None:
    def tell(connection: socket.socket) -> None:
        connection.recv(64)
        connection.sendall(json.dumps([said.decode() for said in SAID]).encode() + b"\n")
        connection.recv(1)

    branch = open_branch([("noisy_one", ())], tell, fit, None, ())
    assert isinstance(branch, Branch), branch
    assert branch.ask({"op": "tell"})
    (said,) = branch.messages() or ()
    assert sorted("".join(said).splitlines()) == ["by others", "in words"]
    end(branch)


@pytest.mark.parametrize("device_index", [None, 0])
def test_a_branch_that_hangs_is_given_up_and_nothing_of_it_stays(
    modules: Path, monkeypatch: pytest.MonkeyPatch, device_index: int | None
) -> None:
    mark = modules / "pid"

    def hang(*_: object, **__: object) -> None:
        mark.write_text(str(os.getpid()))
        time.sleep(60)

    monkeypatch.setattr("torch.ones", hang)  # what the child of a branch calls on the GPU
    monkeypatch.setattr("bench.worker.branch.IMPORT_LIMIT_S", 1)
    start = time.monotonic()
    name = "endless_one" if device_index is None else "quiet_one"
    assert open_branch([(name, ())], waits, fit, device_index, ()) == "a process that imported them was ended by SIGALRM"
    while mark.exists() and (found := look_up(int(mark.read_text() or 0))) is not None and not found.zombie:
        assert time.monotonic() - start < 50, "the child of the branch lives on"
        time.sleep(0.05)
    assert time.monotonic() - start < 50


class Opened:
    """Stands in for `open_branch`: says what was asked for, and has a socket that nobody is behind."""

    def __init__(self, refuse: str = "") -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.sockets: list[socket.socket] = []
        self._refuse = refuse

    def __call__(self, statements: Any, *_: Any, **__: Any) -> Branch | str:
        self.asked.append(tuple(name for name, _ in statements))
        if any(self._refuse == name for name, _ in statements):
            return "it has 2 threads"
        self.sockets += socket.socketpair()
        return Branch(len(self.asked), self.sockets[-2])


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    import_declarations()  # as the server has
    made = Opened("liger_kernel.ops")
    monkeypatch.setattr("bench.worker.preload.open_branch", made)
    yield made
    for one in made.sockets:
        one.close()


def request(case: Any) -> Request:
    return Request(case, Protocol(), seed=1, threads=1)


LLAMA = "transformers.models.llama.modeling_llama"


def test_trials_that_require_the_same_package_have_one_branch_and_a_rival_has_none(opened: Opened) -> None:
    branches = Branches(fit, waits)
    branch = branches.offer(request(linear("nf4_bnb")))
    assert branch is not None
    assert branches.offer(request(linear("int8_bnb"))) is branch
    assert branches.offer(request(linear("plain"))) is None, "a rival's trial has nothing to do with it"
    assert opened.asked == [("bitsandbytes",)]


def test_a_training_step_has_its_family_besides_and_what_a_package_brings_is_not_asked_for_again() -> None:
    import_declarations()
    assert shared_imports(training()) == (LLAMA,)
    assert shared_imports(training(architecture="gemma2")) == ()
    assert shared_imports(training(fills={"optimizer": "adamw8bit_bnb", "swiglu": "liger"})) == (LLAMA, "liger_kernel.ops")
    assert shared_imports(training(fills={"optimizer": "adamw8bit_bnb", "compile": "layer"})) == (
        LLAMA,
        COMPILER[1],
        "bitsandbytes",
    )
    assert shared_imports(training(fills={"optimizer": "adamw8bit_ao"})) == (LLAMA, COMPILER[0], "torchao")
    assert shared_imports(attention("flash_attn4")) == ("cutlass.cute", "quack"), "itself it looks at where a trial's caches lie"
    assert shared_imports(factories.case(pass_=Pass.FORWARD)) == ()
    assert shared_imports(factories.case(workload="from_outside", params={"compile": "none"})) == ()


def test_what_compiles_has_torchs_compiler_and_a_rival_has_not(opened: Opened) -> None:
    branches = Branches(fit, waits)
    assert branches.offer(request(attention("sdpa_flash"))) is None
    branch = branches.offer(request(attention("flex")))
    assert branch is not None
    assert branches.offer(request(attention("flex", params={"seq_len": 48}))) is branch
    assert opened.asked == [COMPILER]


def test_all_that_calls_torch_compile_is_known_to_compile() -> None:
    """Held against the sources of the workloads: a way of compiling that is new must be told."""
    folder = Path(bench.workloads.__file__).parent
    by_name = [path for path in folder.glob("*/*.py") if "torch.compile(" in path.read_text() and path.name[0] != "_"]
    assert len(by_name) > 6
    assert [path for path in by_name if not compiles(factories.case(path.stem))] == []
    assert compiles(linear("plain", params={"compile": "default"}))
    assert compiles(training(fills={"compile": "layer"}))
    assert compiles(training(fills={"optimizer": "adamw8bit_ao"}))
    assert not any(compiles(case) for case in (linear("plain"), training(), attention("eager"), rms_norm("liger")))


def test_what_makes_a_branch_unfit_is_tried_once_and_the_rest_is_still_shared(opened: Opened) -> None:
    branches = Branches(fit, waits)
    liger, alone = request(training(fills={"rope": "liger"})), request(rms_norm("liger"))
    assert branches.offer(liger) is not None
    assert branches.offer(liger) is branches.offer(request(training()))
    assert opened.asked == [(LLAMA, "liger_kernel.ops"), (LLAMA,)]
    assert [branches.offer(alone), branches.offer(alone)] == [None, None]
    assert opened.asked[2:] == [("liger_kernel.ops",)]
    assert set(branches.refused.values()) == {"it has 2 threads"}
    assert NOT_SHARED == ["it has 2 threads"], "its trial tells"
    branches.offer(request(linear("plain")))
    assert NOT_SHARED == []


def test_a_trial_whose_first_branch_took_long_to_fail_waits_for_no_second_one(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    branches, liger = Branches(fit, waits), request(training(fills={"rope": "liger"}))
    with monkeypatch.context() as slow:
        slow.setattr("bench.worker.preload.SECOND_TRY_WITHIN_S", -1)
        assert branches.offer(liger) is None
    assert (opened.asked, NOT_SHARED) == ([(LLAMA, "liger_kernel.ops")], ["it has 2 threads"])
    assert branches.offer(liger) is not None, "the next trial has the time"
    assert opened.asked[1:] == [(LLAMA,)]


def test_the_branch_that_was_longest_not_used_makes_room(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.worker.preload.MOST", 2)
    branches = Branches(fit, waits)
    one, two, three = (request(case) for case in (linear("nf4_bnb"), linear("int8_dynamic_ao"), attention("flex")))
    first, second = branches.offer(one), branches.offer(two)
    assert branches.offer(one) is first
    assert branches.standing() == [second, first]
    third = branches.offer(three)
    assert branches.standing() == [first, third]


def test_a_branch_tells_its_trials_what_could_not_be_shared_besides(
    tmp_path: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "request.json").write_text(canonical_json(dump(request(training(fills={"rope": "liger"})))))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        server, branch = Server(theirs), Server(theirs, is_branch=True)
        asked = {"op": "run", "directory": str(tmp_path), "world_size": 1, "variables": {}}
        ours.sendall(json.dumps(asked).encode() + b"\n")
        assert server._receive()
        passed_on = json.loads(opened.sockets[-1].recv(65536))
        NOT_SHARED.clear()
        monkeypatch.setattr(branch, "_fork", lambda: None)
        ours.sendall(json.dumps(passed_on).encode() + b"\n")
        assert branch._receive()
        assert NOT_SHARED == ["it has 2 threads"]
        NOT_SHARED.clear()


def run_once(server: Any, folder: Path, case: Any) -> tuple[str, dict[str, Any]]:
    """The note at the trial's import time, and its reply."""
    folder.mkdir()
    protocol = Protocol(min_samples=5, max_samples=10, min_sampling_s=0.0, max_sampling_s=0.1, max_warmup_s=0.1)
    (folder / "request.json").write_text(canonical_json(dump(Request(case, protocol, seed=1, threads=1))))
    server.begin(folder, 1)
    ended = server.wait(120.0)
    assert ended is not None
    assert ended.returncode == 0, (folder / "log").read_text()
    reply = json.loads((folder / "reply.json").read_text())
    assert reply["status"] == "ok", reply
    (measured,) = [one for one in reply["measurements"] if one["metric"] == "import_s"]
    return str(measured["note"]), reply


@contextlib.contextmanager
def held_at_its_gate(server: Any, folder: Path, asked: Path) -> Iterator[int]:
    """The trial of `folder`, which does what `asked` says, and cannot end by itself before it is let go."""
    folder.mkdir()
    (folder / "request.json").write_bytes(asked.read_bytes())
    with (folder / GATE).open("w") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield server.begin(folder, 1)


def branch_of(server: Any) -> int:
    (pid,) = server._branches
    return int(pid)


def test_a_run_imports_once_for_a_kind_and_a_lost_branch_is_no_lost_trial(tmp_path: Path) -> None:
    """A real server: two trials alike, a rival's, a trial that is ended from outside, a branch that is killed while its trial runs."""
    layer, rival = linear("nf4_bnb"), linear("plain")
    server = ForkServer(tmp_path / "server.log", server_environment(1, tmp_path / "caches", {}))
    try:
        assert server.start(lambda: False)
        shared = "without what was imported before the fork: bitsandbytes ("
        notes = [run_once(server, tmp_path / f"{number}", case)[0] for number, case in enumerate((layer, layer, rival))]
        assert [note.startswith(shared) for note in notes] == [True, True, False]
        branch = branch_of(server)

        with held_at_its_gate(server, tmp_path / "ended", tmp_path / "0" / "request.json"):
            assert server.end_trial(0.0).returncode == -signal.SIGKILL
        assert run_once(server, tmp_path / "after", layer)[0].startswith(shared)
        assert branch_of(server) == branch, "what ends a trial leaves its branch"

        with held_at_its_gate(server, tmp_path / "lost", tmp_path / "0" / "request.json") as trial:
            os.kill(branch, signal.SIGKILL)
            ended = server.wait(60.0)
        assert ended is not None
        assert ended.returncode == -signal.SIGKILL
        assert (found := look_up(trial)) is None or found.zombie
        assert run_once(server, tmp_path / "last", layer)[0].startswith(shared), "the next one has another"
        assert branch_of(server) != branch
    finally:
        server.close()
    assert look_up(branch) is None
