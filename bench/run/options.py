"""What a person asked of one run, apart from the suite: kept in the database so that `--resume` needs nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from bench.errors import Problem, SuiteError
from bench.records import MANUAL, Json


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Texts are as typed; paths of plug-ins and of weights are absolute."""

    suite_file: str | None = None
    """As typed: it becomes part of each row's command."""
    profile: str | None = None
    sets: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    trials: int | None = None
    """None: the suite's protocol says it."""
    shard: tuple[int, int] | None = None
    """(I, N): the I-th of N parts, from 1; parts are whole blocks."""
    budget_s: float | None = None
    """Stops between blocks once this is spent."""
    label: str | None = None
    device: str = "auto"
    plugins: tuple[str, ...] = ()
    seed: int | None = None
    """None: a new one is drawn."""
    wait_for_lock: bool = True
    reason: str = MANUAL
    parent_run_id: str | None = None
    suite_folder: str | None = None
    """Absolute folder in which `suite_file` was typed, so that a run can be resumed from another one."""
    canaries: bool = True
    """Whether the machine's own cases are measured as well, on a GPU."""
    weights: str | None = None
    """The folder of real weights; `sets` hold the name of its content."""
    gpus: str | None = None
    """GPUs that measure the run at the same time: `all`, or numbers with commas between; None: the one that `device` names."""

    @property
    def suite_path(self) -> Path | None:
        """The suite file from wherever we stand now; as typed where the folder of then is gone."""
        if self.suite_file is None:
            return None
        there = Path(self.suite_folder or ".") / self.suite_file
        return there if there.exists() else Path(self.suite_file)

    def __post_init__(self) -> None:
        if self.trials is not None and self.trials < 1:
            raise SuiteError([Problem("must be at least 1", key="--trials")])
        if self.budget_s is not None and self.budget_s <= 0:
            raise SuiteError([Problem("must be longer than nothing", key="--budget")])

    def over_budget(self, spent_s: float) -> bool:
        """Whether there was a budget, and so much time is more than it."""
        return self.budget_s is not None and spent_s > self.budget_s

    def to_data(self) -> dict[str, Json]:
        """JSON-ready data for `Run.options`."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_data(cls, data: Mapping[str, Json]) -> RunOptions:
        """What `to_data` gave; keys that this version does not know are left out."""
        known = {field.name for field in fields(cls)}
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in data.items() if name in known
        }
        return cls(**given)


def parse_shard(text: str) -> tuple[int, int]:
    """`I/N` with 1 <= I <= N; raises SuiteError otherwise."""
    match = re.fullmatch(r"(\d+)/(\d+)", text.strip())
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise SuiteError([Problem(f"takes I/N with I from 1 to N, such as 2/4, not {text!r}", key="--shard")])
    return int(match[1]), int(match[2])
