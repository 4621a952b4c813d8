"""Writes the command that a stranger types: for a whole run, and for one row of it."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bench.machine import scrub
from bench.records import Case
from bench.run.options import RunOptions

if TYPE_CHECKING:
    from bench.suite import Suite

_TRIALS = re.compile(r"--trials \d+")


def run_command(options: RunOptions) -> str:
    """`bench run` with everything that decides what is measured."""
    words = [*_start(options)]
    for text in options.filters:
        words += ["--filter", text]
    if options.trials is not None:
        words += ["--trials", str(options.trials)]
    if options.shard is not None:
        words += ["--shard", "{}/{}".format(*options.shard)]
    if options.gpus is not None:
        words += ["--gpus", options.gpus]
    if options.budget_s is not None:
        words += ["--budget", f"{options.budget_s:g}s"]
    if options.seed is not None:
        words += ["--seed", str(options.seed)]
    return scrub(shlex.join(words))


def case_command(case: Case, suite: Suite, options: RunOptions, *, trials: int, seed: int | None = None) -> str:
    """`bench run` with the filters that leave only this case, on the same kind of device wherever it is typed.

    `seed` is that of the run, for the very same inputs: a trial's own follows from it, the point and the trial's index.
    """
    words = _start(dataclasses.replace(options, device=case.device))
    for text in case_filters(case, suite):
        words += ["--filter", text]
    words += ["--trials", str(trials)]
    return scrub(shlex.join(words if seed is None else [*words, "--seed", str(seed)]))


def with_trials(command: str, trials: int) -> str:
    """The command that measures a row again, with another number of trials."""
    wanted = f"--trials {trials}"
    return _TRIALS.sub(wanted, command) if _TRIALS.search(command) else f"{command} {wanted}"


def case_filters(case: Case, suite: Suite) -> tuple[str, ...]:
    """Filters that leave, of all cases of the suite, only this one: its subject, and its value of every axis that has several.

    A probe of a search is asked for by its value, so that nothing is searched.
    """
    from bench.suite.axes import axis_value
    from bench.suite.filters import spelled

    axes = [*case.subject]
    # A model with a varied shape is one entry of the list and several models; a batch derived from tokens follows from seq_len.
    axes += [
        axis for axis, values in suite.sweep.items() if len(values) > 1 or (axis == "model" and isinstance(values[0], Mapping))
    ]
    axes += [suite.search.axis] if suite.search else []
    values = {axis: axis_value(case, axis) for axis in axes}
    # None: a window is no part of a case with another mask.
    return tuple(f"{axis}={spelled(value)}" for axis, value in values.items() if value is not None)


def _start(options: RunOptions) -> list[str]:
    words = ["bench", "run", options.suite_file or "SUITE"]
    if options.profile is not None:
        words += ["--profile", options.profile]
    for text in options.sets:
        words += ["--set", text]
    for path in options.plugins:
        words += ["--plugin", path]
    if options.weights is not None:
        words += ["--weights", options.weights]
    if options.device != "auto":
        words += ["--device", options.device]
    return words
