"""Starts the ranks of one trial through torchrun's own code, and writes down which of them ended how.

torchrun's text output names the failed rank for people only; its exception carries the same as data, so we call its `run` instead
of its command. Runs in a forked child of the server: the ranks themselves are fresh interpreters.
"""

from __future__ import annotations

import json
from pathlib import Path

LAUNCH_FILE = "launch.json"
"""`{"failures": [{"rank": 1, "returncode": -9, "t": seconds since the epoch}, ...]}`, earliest first; absent where none failed."""


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
        failures = sorted(error.failures.items(), key=lambda item: (item[1].timestamp, item[0]))
        data = [{"rank": rank, "returncode": failure.exitcode, "t": failure.timestamp} for rank, failure in failures]
        (directory / LAUNCH_FILE).write_text(json.dumps({"failures": data}))
    except SignalException:
        return  # the parent ends a trial by TERM; torchrun makes an exception of it once its ranks have ended
