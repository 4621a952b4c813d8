"""What many trials import alike the server imports once, after a child has tried it; what would poison its children it leaves to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.processes import look_up
from bench.records import Pass
from bench.worker.preload import FEWEST, Preloads, rehearse
from bench.worker.subject import built_in_imports
from tests import factories
from tests.workloads.training import training


def threads() -> str | None:
    count = len(os.listdir("/proc/self/task"))
    return None if count == 1 else f"{count} threads"


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path of this process, for modules that do something when they are imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "quiet_one.py").write_text("LOADED = 1\n")
    thread = "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    (tmp_path / "threaded_one.py").write_text(f"import threading, time\n{thread}\n")
    (tmp_path / "broken_one.py").write_text("raise RuntimeError('no licence')\n")
    (tmp_path / "dying_one.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("quiet_one", None),
        ("broken_one", "RuntimeError: no licence"),
        ("dying_one", "a child that imported them was ended by SIGKILL"),
        ("nowhere_to_be_found", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
    ],
)
def test_a_child_finds_out_what_importing_does(modules: Path, name: str, reason: str | None) -> None:
    assert rehearse([name], lambda: None, None) == reason
    assert name not in sys.modules


def test_modules_that_start_a_thread_are_left_to_the_trials(modules: Path) -> None:
    # In a process of its own, as the server is: this one may have threads already.
    code = f"""
import json, os, sys
sys.path.insert(0, {str(modules)!r})
from bench.worker.preload import FEWEST, Preloads
count = lambda: None if len(os.listdir('/proc/self/task')) == 1 else 'too many threads'
preloads = Preloads(count)
for _ in range(FEWEST):
    preloads.offer(('threaded_one',), None)
    preloads.offer(('quiet_one',), None)
print(json.dumps([preloads.refused[('threaded_one',)], 'threaded_one' in sys.modules, 'quiet_one' in sys.modules, count()]))
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert json.loads(said.splitlines()[-1]) == ["too many threads", False, True, None]


def test_nothing_is_imported_for_a_few_trials(modules: Path) -> None:
    preloads = Preloads(lambda: None)
    for _ in range(FEWEST - 1):
        preloads.offer(("quiet_one",), None)
    assert "quiet_one" not in sys.modules
    preloads.offer(("quiet_one",), None)
    assert sys.modules.pop("quiet_one").LOADED == 1


def test_a_rehearsal_that_hangs_is_given_up(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (modules / "endless_one.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr("bench.worker.preload.REHEARSAL_LIMIT_S", 1)
    start = time.monotonic()
    assert rehearse(["endless_one"], lambda: None, None) == "a child that imported them was ended by SIGALRM"
    assert time.monotonic() - start < 50


def test_a_rehearsal_is_given_up_too_where_its_child_hangs_on_the_device(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = modules / "pid"

    def hang(*_: object, **__: object) -> None:
        mark.write_text(str(os.getpid()))
        time.sleep(60)

    monkeypatch.setattr("torch.ones", hang)
    monkeypatch.setattr("bench.worker.preload.REHEARSAL_LIMIT_S", 1)
    start = time.monotonic()
    assert rehearse(["quiet_one"], lambda: None, 0) == "a child that imported them was ended by SIGALRM"
    assert time.monotonic() - start < 50
    while (found := look_up(int(mark.read_text()))) is not None and not found.zombie:
        assert time.monotonic() - start < 50, "the child of the child lives on"
        time.sleep(0.05)


def test_a_training_step_names_its_family_and_what_imports_nothing_names_none() -> None:
    assert built_in_imports(training()) == ("transformers.models.llama.modeling_llama",)
    assert built_in_imports(training(architecture="gemma2")) == ()
    assert built_in_imports(factories.case(pass_=Pass.FORWARD)) == ()
    assert built_in_imports(factories.case(workload="from_outside")) == ()
