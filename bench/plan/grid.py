"""The configurations on which predictions are held against measurements: forty chosen for development, twenty drawn and left alone.

The drawn ones are made by a seed from axes, and stand in grid.yaml as they were drawn. They are for the verdict only: whoever looks at
their errors while changing formulas spends them, and draws others with a new seed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from bench.plan.predict import peak_bytes
from bench.plan.rounding import needed_bytes
from bench.plan.spec import ModelSpec, PlanError, TrainSpec, model_named

SLOTS = frozenset(
    field.name for field in fields(TrainSpec) if field.type == "str" and field.name not in ("packing", "sharding", "offload")
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """One point of the grid."""

    part: str
    """`development` or `drawn`."""
    model: ModelSpec
    train: TrainSpec
    written: Mapping[str, Any]
    """As it stands in the file."""


def configurations() -> tuple[Configuration, ...]:
    """All of them, as grid.yaml has them."""
    table = _table()
    return tuple(_read(part, entry) for part in ("development", "drawn") for entry in table[part])


def redrawn() -> list[dict[str, Any]]:
    """What the seed of the file draws from its axes: configurations that can be and fit the memory told, none twice."""
    table = _table()
    draw, axes, count = random.Random(table["seed"]), table["axes"], len(table["drawn"])
    found: list[dict[str, Any]] = []
    while len(found) < count:
        entry = {name: draw.choice(values) for name, values in axes.items()}
        if entry not in found and _possible(entry, int(float(table["memory_gib"]) * 2**30)):
            found.append(entry)
    return found


def _possible(entry: Mapping[str, Any], memory_bytes: int) -> bool:
    try:
        configuration = _read("drawn", entry)
        return needed_bytes(peak_bytes(configuration.model, configuration.train)) <= memory_bytes
    except PlanError:
        return False


def _read(part: str, entry: Mapping[str, Any]) -> Configuration:
    changes = {name: value for name, value in entry.items() if name != "model"}
    return Configuration(part, model_named(entry["model"]), TrainSpec(**changes), entry)


def _table() -> dict[str, Any]:
    import yaml

    table: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("grid.yaml").read_text(encoding="utf-8"))
    return table


def suites(grid: Sequence[Configuration]) -> Iterator[tuple[str, str]]:
    """(name, text) of suites that measure them: one for each part, model, context and batch, with an arm for each way to train."""
    groups: dict[tuple[str, str, int, int, int], list[Configuration]] = {}
    for entry in grid:
        train = entry.train
        groups.setdefault((entry.part, entry.model.name, train.seq_len, train.batch, train.accumulation), []).append(entry)
    for (part, model, seq_len, batch, accumulation), entries in groups.items():
        name = f"memory_{part}_{model}_{seq_len}_{batch}_{accumulation}".replace(".", "_").replace("-", "_")
        arms = [
            {"name": f"way-{number}", **{slot: value for slot, value in entry.written.items() if slot in SLOTS}}
            for number, entry in enumerate(entries)
        ]
        suite = {
            "schema": 1,
            "name": name,
            "question": f"Is the peak of {model} at {seq_len} tokens what the memory model predicts?",
            "workload": "train_step",
            "arms": arms,
            "under_test": ["torch", "transformers", "liger-kernel", "bitsandbytes"],
            "sweep": {"model": [model], "seq_len": [seq_len], "batch": [batch], "accumulation": [accumulation], "pass": ["step"]},
            "protocol": {"trials": 1, "timeout_s": 600},
        }
        yield name, json.dumps(suite, indent=1) + "\n"
