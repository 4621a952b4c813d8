"""Runs as one of several ranks: takes the trial of each folder, one after the other, since an import costs more than a trial.

torchrun --nproc-per-node 2 -m tests.workloads.rank_trials FOLDER...
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import torch.distributed as dist

from bench.worker.team import ProcessGroupTeam
from bench.worker.trial import run_trial


def main(folders: Sequence[Path]) -> None:
    dist.init_process_group("gloo")
    team = ProcessGroupTeam()
    for folder in folders:
        run_trial(folder, team)


if __name__ == "__main__":
    main([Path(folder) for folder in sys.argv[1:]])
