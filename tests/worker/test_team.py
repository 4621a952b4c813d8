"""What ranks tell one another without waiting: who has come out of a pass."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

RANK = """
import json, sys
import torch.distributed as dist
from bench.worker import team
from bench.worker.team import ProcessGroupTeam
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
ours = ProcessGroupTeam()
if rank == 1:
    ours.leave("one")
    said = [ours.all_leave("two")]
else:
    said = [ours.all_leave("one"), ours.all_leave("two")]
    team.PATIENCE_S = 0.5
    said.append(ours.all_leave("three"))
ours.barrier()
print(json.dumps(said))
"""


def test_a_rank_learns_whether_the_others_have_come_out_of_a_pass(tmp_path: Path) -> None:
    ranks = [
        subprocess.Popen([sys.executable, "-c", RANK, str(rank), str(tmp_path / "meet")], stdout=subprocess.PIPE, text=True)
        for rank in (0, 1)
    ]
    said = [json.loads(rank.communicate(timeout=120)[0]) for rank in ranks]
    assert said == [[True, True, False], [True]]
