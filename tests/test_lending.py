"""A lent server is one and the same for all who borrow it, gives each trial its own run's environment, and never outlives a doubt."""

from __future__ import annotations

import json
from pathlib import Path

from bench.processes import look_up
from bench.records import Protocol, Request, dump
from bench.run.forkserver import server_environment
from tests.factories import case
from tests.lending import Lender

SAYS = """
from bench.declare import implementation

@implementation(workload="attention")
def says(spec):
    import os
    raise ValueError(os.environ["TMPDIR"])
"""


def test_runs_share_a_server_until_one_leaves_it_in_the_middle_of_a_trial(tmp_path: Path) -> None:
    lender = Lender(tmp_path)
    (tmp_path / "says.py").write_text(SAYS)
    request = Request(case("says"), Protocol(), seed=1, threads=1, plugins=(str(tmp_path / "says.py"),))
    pids = set()
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "request.json").write_text(json.dumps(dump(request)))
        run = lender.borrow(folder / "log", server_environment(1, folder / "caches", {"TMPDIR": str(folder)}))
        assert not run.start(lambda: True)
        assert run.start(lambda: False)
        pids.add(run.pid)
        run.begin(folder, 1)
        if name == "first":
            ended = run.wait(60.0)
            assert ended is not None
            assert json.loads((folder / "reply.json").read_text())["reason"] == f"ValueError: {folder}"
        run.close()
    (pid,) = pids
    assert look_up(pid) is None
    lender.close()
