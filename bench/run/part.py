"""One GPU's part of a run, in a process of its own: `python -m bench.run.part`, started by bench.run.gpus and by nobody else.

It says what happens on stdout as JSON, a line each; on stderr stands the traceback of a bug. The database is in the
environment and not among the arguments, which every user of the host can read.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import IO, TYPE_CHECKING

from bench.errors import BenchError, HarnessError
from bench.processes import die_with_parent
from bench.records import Json
from bench.run.options import parse_shard
from bench.run.progress import Progress
from bench.run.resume import resume

if TYPE_CHECKING:
    from collections.abc import Sequence

DATABASE_VARIABLE = "BENCH_PART_DB"
SAID, ENDED, FAILED = "said", "ended", "failed"
"""What a line is: progress, the summary, or why there is none."""


def _tell(out: IO[str], kind: str, **facts: Json) -> None:
    print(json.dumps({"kind": kind, **facts}), file=out, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures the part; the exit code is 0 where a summary was told, and 2 where something went wrong."""
    from bench.store import Store

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("share")
    parser.add_argument("device")
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--budget-s", type=float)
    parser.add_argument("--no-wait", action="store_true")
    asked = parser.parse_args(arguments)
    die_with_parent()
    if os.getppid() != asked.parent:
        return 2  # it was gone before we could ask to be told of its end
    with os.fdopen(os.dup(1), "w") as out:
        # What a plug-in prints when it is imported must not come between the lines.
        os.dup2(2, 1)

        def progress(said: Progress) -> None:
            row = said.result.id if said.result else None
            _tell(out, SAID, text=said.text, done=said.done, planned=said.planned, left_s=said.left_s, row=row)

        try:
            # Taken away, for every trial inherits what is left.
            with Store.open(os.environ.pop(DATABASE_VARIABLE), create=False) as store:
                end = resume(
                    asked.run, store, device=asked.device, budget_s=asked.budget_s, wait_for_lock=not asked.no_wait,
                    share=parse_shard(asked.share), progress=progress,
                )  # fmt: skip
        except (BenchError, HarnessError) as error:
            _tell(out, FAILED, text=str(error))
            return 2
        _tell(out, ENDED, state=str(end.state), planned=end.planned)
    return 0


if __name__ == "__main__":
    sys.exit(main())
