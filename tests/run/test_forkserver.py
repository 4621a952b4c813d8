"""The end of a server that is not needed any more, at whatever it is."""

from __future__ import annotations

import signal
from pathlib import Path

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
