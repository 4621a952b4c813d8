"""Plans and measures: the only room that starts workers, and that writes their rows."""

from bench.run.execute import execute
from bench.run.gpus import execute_on_gpus, find_gpus, resume_on_gpus
from bench.run.locks import run_is_alive
from bench.run.options import RunOptions, parse_shard
from bench.run.plan import Plan, make_plan
from bench.run.progress import Progress, RunSummary
from bench.run.rerun import Rerun, rerun
from bench.run.resume import resume
from bench.run.rows import describe

__all__ = [
    "Plan",
    "Progress",
    "Rerun",
    "RunOptions",
    "RunSummary",
    "describe",
    "execute",
    "execute_on_gpus",
    "find_gpus",
    "make_plan",
    "parse_shard",
    "rerun",
    "resume",
    "resume_on_gpus",
    "run_is_alive",
]
