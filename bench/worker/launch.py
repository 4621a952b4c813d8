"""Starts the ranks of one trial through torchrun's own code, and writes down which of them ended how.

torchrun's text output names the failed rank for people only; its exception carries the same as data, so we call its `run` instead
of its command. Runs in a forked child of the server: the ranks themselves are fresh interpreters.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

from bench.records import trial_folder


def culprits_first(failures: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Earliest first, but those that TERM ended last: torchrun ends the other ranks so once one has failed.

    Those that aborted stand between: NCCL's watchdog aborts a rank whose peer is gone. Times are whole seconds, so they alone do not tell
    which came first.
    """
    late = (-signal.SIGABRT, -signal.SIGTERM)
    return sorted(
        failures,
        key=lambda failure: (
            late.index(failure["returncode"]) + 1 if failure["returncode"] in late else 0,
            failure["t"],
            failure["rank"],
        ),
    )


def launch_ranks(directory: Path, world_size: int) -> None:
    """Returns when all ranks have ended. Failed ranks are written to `launch.json`; they are the subject's fault, no exception."""
    from torch.distributed import run as torchrun
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    options = ["--standalone", "--nproc-per-node", str(world_size), "--max-restarts", "0"]
    arguments = [*options, "-m", "bench.worker.rank", str(directory)]
    try:
        torchrun.run(torchrun.parse_args(arguments))
    except ChildFailedError as error:
        data = [{"rank": rank, "returncode": failure.exitcode, "t": failure.timestamp} for rank, failure in error.failures.items()]
        (directory / trial_folder.LAUNCH).write_text(json.dumps({"failures": culprits_first(data)}))
    except SignalException:
        return  # the parent ends a trial by TERM; torchrun makes an exception of it once its ranks have ended
