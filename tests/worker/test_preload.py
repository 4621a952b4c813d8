"""Trials of one kind share their imports through a branch of the server; what would poison its children is left to them."""

from __future__ import annotations

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

from bench.processes import look_up
from bench.records import Pass, Protocol, Request, canonical_json, dump
from bench.run.forkserver import ForkServer, server_environment
from bench.worker.branch import NOT_SHARED, Branch, open_branch
from bench.worker.preload import Branches
from bench.worker.subject import IMPORTS_FILE, built_in_imports, import_declarations
from tests import factories
from tests.worker.trials import rms_norm
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
    while mark.exists() and (found := look_up(int(mark.read_text()))) is not None and not found.zombie:
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
    made = Opened("liger_kernel.ops.rope")
    monkeypatch.setattr("bench.worker.preload.open_branch", made)
    yield made
    for one in made.sockets:
        one.close()


def request(case: Any) -> Request:
    return Request(case, Protocol(), seed=1, threads=1)


def told(folder: Path, seconds: float, *names: str) -> Path:
    (folder / IMPORTS_FILE).write_text(canonical_json({"seconds": seconds, "statements": [[name, []] for name in names]}))
    return folder


LLAMA = "transformers.models.llama.modeling_llama"


def test_the_second_trial_that_requires_the_same_packages_has_a_branch(tmp_path: Path, opened: Opened) -> None:
    branches = Branches(fit, waits)
    layer, other, rival = (request(linear(name)) for name in ("nf4_bnb", "int8_bnb", "plain"))
    for one in (layer, rival):
        assert branches.offer(one) is None
    branches.learn(layer, told(tmp_path, 3.0, "bitsandbytes.nn", "torchao.quantization"))
    branches.learn(rival, told(tmp_path, 0.0))
    branch = branches.offer(other)
    assert branch is not None
    assert branches.offer(layer) is branch
    assert branches.offer(rival) is None, "a rival's trial has nothing to do with it"
    assert opened.asked == [("bitsandbytes.nn",)], "and what else was imported is not what they require"


def test_little_is_left_to_the_trials(tmp_path: Path, opened: Opened) -> None:
    branches = Branches(fit, waits)
    layer = request(linear("nf4_bnb"))
    branches.learn(layer, told(tmp_path, 0.1, "bitsandbytes.nn"))
    assert [branches.offer(layer) for _ in range(3)] == [None] * 3


def test_a_trial_that_ended_too_early_teaches_nothing(tmp_path: Path, opened: Opened) -> None:
    branches = Branches(fit, waits)
    layer = request(linear("nf4_bnb"))
    branches.learn(layer, told(tmp_path, 0.0))
    branches.learn(layer, told(tmp_path, 3.0, "bitsandbytes.nn"))
    assert branches.offer(layer) is not None


def test_steps_of_a_family_share_its_import_before_any_has_told_and_liger_makes_another_kind(
    tmp_path: Path, opened: Opened
) -> None:
    branches = Branches(fit, waits)
    assert branches.offer(request(training())) is None
    assert branches.offer(request(training(fills={"optimizer": "sgd"}))) is not None
    liger = request(training(fills={"swiglu": "liger"}))
    assert branches.offer(liger) is not None
    branches.learn(liger, told(tmp_path, 1.0, "transformers", LLAMA, "liger_kernel.ops.swiglu"))
    branches.offer(liger)
    assert opened.asked == [(LLAMA,), (LLAMA, "liger_kernel.ops.swiglu")]


def test_what_makes_a_branch_unfit_is_tried_once_and_the_rest_is_still_shared(tmp_path: Path, opened: Opened) -> None:
    branches = Branches(fit, waits)
    liger = request(training(fills={"rope": "liger"}))
    branches.offer(liger)
    branches.learn(liger, told(tmp_path, 5.0, "transformers", LLAMA, "liger_kernel.ops.rope"))
    assert branches.offer(liger) is None
    assert branches.offer(liger) is not None
    assert opened.asked == [(LLAMA, "liger_kernel.ops.rope"), (LLAMA,)]
    assert list(branches.refused.values()) == ["it has 2 threads"]
    assert NOT_SHARED == ["it has 2 threads"], "its trial tells"
    branches.offer(request(linear("plain")))
    assert NOT_SHARED == []


def test_the_branch_that_was_longest_not_used_makes_room(tmp_path: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.worker.preload.MOST", 2)
    branches = Branches(fit, waits)
    kinds = {
        "bitsandbytes.nn": request(linear("nf4_bnb")),
        "torchao.quantization": request(linear("int8_dynamic_ao")),
        "liger_kernel.ops.rms_norm": request(rms_norm("liger")),
    }
    for name, kind in kinds.items():
        branches.learn(kind, told(tmp_path, 1.0, name))
    one, two, three = kinds.values()
    first, second = branches.offer(one), branches.offer(two)
    assert branches.offer(one) is first
    assert branches.standing() == [second, first]
    third = branches.offer(three)
    assert branches.standing() == [first, third]


def test_a_training_step_names_its_family_and_what_imports_nothing_names_none() -> None:
    assert built_in_imports(training()) == (LLAMA,)
    assert built_in_imports(training(architecture="gemma2")) == ()
    assert built_in_imports(factories.case(pass_=Pass.FORWARD)) == ()
    assert built_in_imports(factories.case(workload="from_outside")) == ()


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


def branch_of(server: Any) -> int:
    (pid,) = server._branches
    return int(pid)


def test_a_run_imports_once_for_a_kind_and_a_lost_branch_is_no_lost_trial(tmp_path: Path) -> None:
    """A real server: two trials alike, a rival's, a trial that is ended from outside, a branch that is killed while its trial runs."""
    layer, rival = linear("nf4_bnb"), linear("plain")
    server = ForkServer(tmp_path / "server.log", server_environment(1, tmp_path / "caches", {}))
    try:
        assert server.start(lambda: False)
        shared = "without what was imported before the fork: bitsandbytes.nn, bitsandbytes.functional"
        notes = [run_once(server, tmp_path / f"{number}", case)[0] for number, case in enumerate((layer, layer, rival))]
        assert notes == ["None", shared, "None"]
        branch = branch_of(server)

        (tmp_path / "ended").mkdir()
        (tmp_path / "ended" / "request.json").write_bytes((tmp_path / "0" / "request.json").read_bytes())
        server.begin(tmp_path / "ended", 1)
        assert server.end_trial(0.0).returncode == -signal.SIGKILL
        assert run_once(server, tmp_path / "after", layer)[0] == shared
        assert branch_of(server) == branch, "what ends a trial leaves its branch"

        (tmp_path / "lost").mkdir()
        (tmp_path / "lost" / "request.json").write_bytes((tmp_path / "0" / "request.json").read_bytes())
        trial = server.begin(tmp_path / "lost", 1)
        os.kill(branch, signal.SIGKILL)
        ended = server.wait(60.0)
        assert ended is not None
        assert ended.returncode == -signal.SIGKILL
        assert (found := look_up(trial)) is None or found.zombie
        assert run_once(server, tmp_path / "last", layer)[0] == shared, "the next one has another"
        assert branch_of(server) != branch
    finally:
        server.close()
    assert look_up(branch) is None
