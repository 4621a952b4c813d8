"""One rank of a trial, started by torchrun as `python -m bench.worker.rank DIRECTORY`."""

from __future__ import annotations

import faulthandler
import fcntl
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

import torch

from bench.records import Request, load_json, trial_folder
from bench.worker.team import ProcessGroupTeam
from bench.worker.trial import run_trial


def main(directory: Path) -> int:
    """Joins the group and runs the trial. What the subject did is in the reply, what it wrote in `log.<rank>`.

    A rank that is ended by TERM, as on a time-out, leaves in `stack.<rank>` where it stood: of ranks that wait for one another that
    tells which one kept the others. For as long as it lives it holds that file locked, so that its going is seen, whatever became of it.
    """
    request = load_json(Request, (directory / trial_folder.REQUEST).read_bytes())
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    log = os.open(directory / trial_folder.log(rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    stack = (directory / trial_folder.stack(rank)).open("w")
    fcntl.lockf(stack, fcntl.LOCK_EX)  # this process's alone: one that it forks does not hold it too
    faulthandler.register(signal.SIGTERM, file=stack, all_threads=True, chain=True)
    faulthandler.enable()
    torch.distributed.init_process_group(
        # Host memory and devices each have their own: what ranks only agree on never waits for a device.
        # NCCL begins with the first collective on a device, when the trial has chosen one.
        "cpu:gloo,cuda:nccl" if request.case.device == "cuda" else "gloo",
        init_method="env://",
        rank=rank,
        world_size=world_size,
        # The parent's time-out is the one that counts; this one only ends a rank that nobody watches any more.
        timeout=timedelta(seconds=request.protocol.timeout_s + 60.0),
    )
    run_trial(directory, ProcessGroupTeam())
    # Waits for nobody: a rank that failed must not hold the others, nor they it.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
