"""Where a stored run can be measured again: its suite, device, options and what is under test, as far as they are still here."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import BenchError
from bench.machine import environment, find_device
from bench.machine.revision import UnderTest, things_under_test
from bench.records import RevisionItem, Run
from bench.run import RunOptions
from bench.run.resume import demand_measured_here

if TYPE_CHECKING:
    from bench.catalogue import Catalogue
    from bench.machine import Device
    from bench.suite import Suite


class CannotConfirm(BenchError):
    """A run cannot be measured again here. The text is one sentence that says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """All that is needed to measure cases of a stored run again, where it was measured."""

    suite: Suite
    device: Device
    catalogue: Catalogue
    options: RunOptions
    now: tuple[UnderTest, ...]

    @property
    def revision(self) -> tuple[RevisionItem, ...]:
        """What lies here."""
        return tuple(found.item for found in self.now)

    def has(self, hard_hash: str, world_size: int) -> bool:
        """Whether this is the hardware of a series."""
        return environment(self.device, threads=self.suite.threads, world_size=world_size).hard_hash == hard_hash


def place_of(run: Run, *, reason: str, trials: int, wait: bool) -> Place:
    """Where `run` can be measured again, for a run of that reason. Raises CannotConfirm."""
    from bench.catalogue import load_catalogue
    from bench.suite import suite_from_data

    try:
        demand_measured_here(run)
        before = RunOptions.from_data(run.options)
        catalogue = load_catalogue([Path(path) for path in before.plugins])
        try:
            suite = suite_from_data(run.suite_data, catalogue)
        except BenchError as error:
            raise CannotConfirm(f"its suite does not fit this version of bench: {error}") from error
        device = find_device(before.device if before.device != "auto" else run.device)
        now = things_under_test(suite.under_test, plugins=[Path(path) for path in before.plugins], root=before.suite_path)
    except BenchError as error:
        raise CannotConfirm(str(error)) from error
    if device.kind != run.device:
        raise CannotConfirm(f"it was measured on {run.device}, and {before.device} is {device.kind} here")
    options = dataclasses.replace(
        before, reason=reason, parent_run_id=run.id, trials=trials, shard=None, budget_s=None, label=None, seed=None, canaries=False,
        gpus=None, wait_for_lock=wait,
    )  # fmt: skip
    return Place(suite, device, catalogue, options, now)
