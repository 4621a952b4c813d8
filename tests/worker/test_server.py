"""The fork server lives to say why torch could not be imported."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path


def test_a_torch_that_does_not_load_is_told_to_the_parent_in_its_own_words(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('libcudart.so.13: cannot open shared object file')")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
        command = [sys.executable, "-P", "-m", "bench.worker.server", "--fd", str(theirs.fileno())]
        server = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE, text=True)
        theirs.close()
        _, log = server.communicate(timeout=60)
        told = json.loads(ours.makefile().readline())

    assert told == {"event": "failed", "message": "ImportError: libcudart.so.13: cannot open shared object file"}
    assert server.returncode == 1
    assert "torch.py" in log
