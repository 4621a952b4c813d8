"""Which shards of a fleet lack rows: printed as a list for `sbatch --array`, with a line for each on stderr. See slurm/array.sh.

Run it when the array has left the queue: a shard that is being measured counts as lacking. Exit code 0 either way; 2 where a database
cannot be read.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from bench.errors import BenchError
from bench.records import RunState
from bench.store import Store


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fleet", help="FLEET of slurm/array.sh: the array's job id unless it was named")
    parser.add_argument("shards", type=int, help="how many there are in all")
    parser.add_argument(
        "--db", default=os.environ.get("BENCH_DB"), help="one database for all (default: BENCH_DB, else shards/FLEET/*.db)"
    )
    asked = parser.parse_args()
    lacking = []
    for shard in range(1, asked.shards + 1):
        database = asked.db or f"shards/{asked.fleet}/{shard}.db"
        try:
            found = told(database, f"{asked.fleet}-{shard}-of-{asked.shards}", alone=asked.db is None)
        except BenchError as error:
            print(error, file=sys.stderr)
            return 2
        if found is not None:
            lacking.append(str(shard))
            print(f"shard {shard}: {found}", file=sys.stderr)
    print(",".join(lacking))
    return 0


def told(database: str, label: str, *, alone: bool) -> str | None:
    """What the shard with this label lacks, or None where it is finished. `alone`: each shard has a file of its own."""
    if alone and not Path(database).exists():
        return "never began"
    with Store.open(database, create=False, read_only=True) as store:
        runs = [run for run in store.runs() if run.label == label]
        if not runs:
            return "never began"
        run = runs[0]
        rows = len(store.done(run.id))
        if run.state is RunState.FINISHED:
            return None
        return f"{run.state}, {rows} of {run.planned_trials} trials have a row"


if __name__ == "__main__":
    sys.exit(main())
