"""The guide's two tables for programs: bytes and tokens per second, each number with the command that gives it again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from bench.plan.fits import Choice
from bench.plan.spec import DEFAULTS, TrainSpec
from bench.report.answers.by_length import Cell, Lengths
from bench.report.answers.by_memory import KINDS, Cards, Fit, switched_on
from bench.report.answers.trained import Trained


def guide_data(lengths: Lengths, cards: Cards) -> dict[str, Any]:
    """Both tables; what was not measured, or has no formulas, is null."""
    return {
        "by_length": {
            "model": lengths.model,
            "gpu": lengths.gpu,
            "memory_bytes": lengths.memory_bytes,
            "cells": [_cell(lengths, cell) for _, cells in lengths.rows for cell in cells],
        },
        "by_memory": [
            {
                "model": row.model,
                "gpus": list(row.gpus),
                "seq_len": cards.seq_len,
                "kinds": {
                    kind: _fit(fit, row.model, row.gpus[-1], timed=cards.gpu in row.gpus)
                    for kind, fit in zip(KINDS, row.fits, strict=True)
                },
            }
            for row in cards.rows
        ],
    }


def plan_command(model: str, slots: Mapping[str, Any], gpu: str) -> str:
    """What predicts a way again: `slots` are fields of a TrainSpec, of which those as by default are not told."""
    usual = {**DEFAULTS, "sharding": "none", "offload": "none"}
    words = ["bench", "plan", "--model", model, "--gpu", gpu]
    for name, value in slots.items():
        if name not in usual or usual[name] != value:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join(words)


def _cell(table: Lengths, cell: Cell) -> dict[str, Any]:
    return {
        "way": cell.way.name,
        "slots": dict(cell.way.slots),
        "seq_len": cell.seq_len,
        "fastest": table.fastest.get(cell.seq_len) is cell,
        "not_shown_to_be_slower": any(cell is near for near in table.not_apart.get(cell.seq_len, ())),
        "other_numerics": dict(cell.way.other_numerics),
        "measured": _measured(cell.trained),
        "predicted": None
        if cell.predicted_bytes is None
        else {
            "peak_bytes": cell.predicted_bytes,
            "fits": cell.fits,
            "command": plan_command(table.model, {"seq_len": cell.seq_len, **cell.way.slots}, table.gpu),
        },
    }


def _measured(found: Trained | None, *, timed: bool = True) -> dict[str, Any] | None:
    """`timed`: whether a time is of the GPU that it is told of; memory is told of others too."""
    if found is None:
        return None
    return {
        "status": found.outcome,
        "reason": found.reason,
        "gpu": found.result.environment.hard.get("gpu_model"),
        "tokens_per_s": None if found.tokens_per_s is None or not timed else asdict(found.tokens_per_s),
        "steps": found.steps if timed else None,
        "few_steps": found.few_steps if timed else None,
        "device_may_have_waited": found.waited if timed else None,
        "stable_when_warmup_ended": found.settled if timed else None,
        "peak_bytes": None if found.peak is None else asdict(found.peak),
        "n": found.n,
        "run": found.run.id,
        "method_version": found.result.method_version,
        "harness_version": found.result.harness_version,
        "command": found.result.command,
    }


def _fit(fit: Fit, model: str, gpu: str, *, timed: bool) -> dict[str, Any] | None:
    """Null where nothing fits, in whichever numerics; without `command` and its bytes where only other numerics do."""
    if fit.choice is None and fit.otherwise is None:
        return None
    found = {} if fit.choice is None else _choice(fit.choice, model, gpu)
    otherwise = None if fit.otherwise is None else _choice(fit.otherwise, model, gpu)
    return {**found, "measured": _measured(fit.trained, timed=timed), "in_other_numerics": otherwise}


def _choice(choice: Choice, model: str, gpu: str) -> dict[str, Any]:
    train: TrainSpec = choice.train
    slots = {"seq_len": train.seq_len, **{name: getattr(train, name) for name in (*DEFAULTS, "sharding", "offload")}}
    return {
        "switched_on": list(switched_on(choice)),
        "peak_bytes": choice.peak_bytes,
        "host_bytes": choice.host_bytes,
        "cost": choice.cost,
        "command": plan_command(model, slots, gpu),
    }
