"""The end of a server that is not needed any more, at whatever it is."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import bench
from bench.errors import BenchError
from bench.processes import look_up
from bench.run.forkserver import ForkServer, server_environment


def test_who_is_asked_to_stop_while_torch_is_imported_does_not_wait_for_it(tmp_path: Path) -> None:
    """The server would hear that nobody wants it only when its imports are done."""
    server = ForkServer(tmp_path / "server.log", server_environment(1, tmp_path / "caches", {}))
    asked: list[bool] = []

    def stop() -> bool:
        asked.append(True)
        return len(asked) > 1

    assert not server.start(stop)
    assert server._process.returncode == -signal.SIGKILL
    assert look_up(server.pid) is None
    server.close()


_PARENT = """
import os, sys
from pathlib import Path
from bench.run.forkserver import ForkServer, server_environment
folder = Path(sys.argv[1])
path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
server = ForkServer(folder / "server.log", server_environment(1, folder / "caches", {"PYTHONPATH": path}))
while not (folder / "importing").exists():
    pass
print(server.pid, flush=True)
os._exit(1)
"""


def test_a_server_that_imports_torch_ends_with_its_parent_however_that_ends(tmp_path: Path) -> None:
    """It would not hear of it before its imports are done; these here last for ever."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(
        f"import pathlib, time\npathlib.Path({str(tmp_path / 'importing')!r}).touch()\ntime.sleep(600)\n"
    )
    parent = subprocess.run([sys.executable, "-c", _PARENT, str(tmp_path)], capture_output=True, text=True, check=False)
    pid = int(parent.stdout)
    deadline = time.monotonic() + 60
    while (left := look_up(pid)) is not None and not left.zombie and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left is None or left.zombie


def test_a_server_of_another_copy_of_the_code_is_refused(tmp_path: Path) -> None:
    """It is what is installed that a trial runs, wherever the command was started from."""
    shutil.copytree(Path(bench.__file__).parent, tmp_path / "bench", ignore=shutil.ignore_patterns("__pycache__"))
    log = tmp_path / "server.log"
    server = ForkServer(log, server_environment(1, tmp_path / "caches", {"PYTHONPATH": str(tmp_path)}))
    with pytest.raises(BenchError, match=re.escape(f"trials would run the code in {tmp_path / 'bench'}")):
        server.start(lambda: False)
    server.close()
