"""The configurations on which predictions are held against measurements: forty chosen for development, twenty drawn and left alone.

The drawn ones are made by a seed from axes, and stand in grid.yaml as they were drawn. They are for the verdict only: whoever looks at
their errors while changing formulas spends them, and draws others with a new seed (`redrawn` says which).
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.catalogue.shipped import read_shipped
from bench.plan.predict import peak_bytes
from bench.plan.rounding import needed_bytes
from bench.plan.spec import DEFAULTS, ModelSpec, PlanError, TrainSpec, model_named
from bench.plan.weights import parameters

SLOTS = tuple(DEFAULTS)
PROTOCOL = {
    "trials": 1,
    "timeout_s": 600,
    "min_samples": 1,
    "max_samples": 1,
    "min_sampling_s": 0,
    "max_sampling_s": 0.1,
    "max_warmup_s": 0.1,
}
"""Memory is asked for, and it is the same in every step but the first."""

PLACES = ("seq_len", "batch", "accumulation")
"""What a suite sweeps."""
FP32_SLOWER = 10
PARTS = ("development", "drawn")
PREFIX = "memory_"
"""Suites are called by it, their part and their model."""


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
    return tuple(_read(part, entry) for part in PARTS for entry in table[part])


def part_of(suite: str) -> str | None:
    """The part of the grid that a suite of this name measures."""
    return next((part for part in PARTS if suite.startswith(f"{PREFIX}{part}_")), None)


def redrawn() -> list[dict[str, Any]]:
    """What the seed of the file draws from its axes: configurations that can be, fit the memory and take seconds; none twice."""
    table = _table()
    draw, axes, count = random.Random(table["seed"]), table["axes"], len(table["drawn"])
    memory_bytes, most_work = int(float(table["memory_gib"]) * 2**30), float(table["most_work_flop"])
    found: list[dict[str, Any]] = []
    while len(found) < count:
        entry = {name: draw.choice(values) for name, values in axes.items()}
        if entry not in found and _possible(entry, memory_bytes, most_work):
            found.append(entry)
    return found


def _possible(entry: Mapping[str, Any], memory_bytes: int, most_work: float) -> bool:
    try:
        configuration = _read("drawn", entry)
        configuration.train.demand_kernels_of_cuda()
    except PlanError:
        return False
    if _work(configuration) > most_work:
        return False
    return needed_bytes(peak_bytes(configuration.model, configuration.train)) <= memory_bytes


def _work(configuration: Configuration) -> float:
    """FLOPs of a step, roughly, in units that a GPU does equally fast."""
    train = configuration.train
    tokens = train.seq_len * train.batch * train.accumulation
    return 8.0 * parameters(configuration.model) * tokens * (FP32_SLOWER if train.compute_bytes == 4 else 1)


def _read(part: str, entry: Mapping[str, Any]) -> Configuration:
    changes = {name: value for name, value in entry.items() if name != "model"}
    return Configuration(part, model_named(entry["model"]), TrainSpec(**changes), entry)


def _table() -> dict[str, Any]:
    return read_shipped(Path(__file__).with_name("grid.yaml"))


def suites(grid: Sequence[Configuration]) -> Iterator[tuple[str, str]]:
    """(name, text) of suites that measure them: one for each part and model, with an arm for each way to train.

    Few suites, because what starts a run is paid once each; rules exclude what of the product of places and arms is not asked for.
    """
    groups: dict[tuple[str, str], list[Configuration]] = {}
    for entry in grid:
        groups.setdefault((entry.part, entry.model.name), []).append(entry)
    for (part, model), entries in groups.items():
        name = f"{PREFIX}{part}_{model}".replace(".", "_").replace("-", "_")
        wanted: dict[tuple[str, ...], list[tuple[int, ...]]] = {}
        for entry in entries:
            way = tuple(getattr(entry.train, slot) for slot in SLOTS)
            wanted.setdefault(way, []).append(tuple(getattr(entry.train, place) for place in PLACES))
        sweep = {place: sorted({getattr(entry.train, place) for entry in entries}) for place in PLACES}
        ways = [dict(zip(SLOTS, way, strict=True)) for way in wanted]
        varied = [slot for slot in SLOTS if len({way[slot] for way in ways}) > 1]
        suite = {
            "schema": 1,
            "name": name,
            "question": f"Is the peak of {model} what the memory model predicts?",
            "workload": "train_step",
            "arms": [
                {"name": f"way-{number}", **{slot: value for slot, value in way.items() if value != DEFAULTS[slot]}}
                for number, way in enumerate(ways)
            ],
            "under_test": ["torch", "transformers", "liger-kernel", "bitsandbytes"],
            "sweep": {"model": [model], **sweep, "pass": ["step"]},
            "exclude": [
                rule
                for way, places in zip(ways, wanted.values(), strict=True)
                for rule in _unwanted({slot: way[slot] for slot in varied}, list(sweep.items()), places)
            ],
            "protocol": PROTOCOL,
        }
        yield name, json.dumps({key: value for key, value in suite.items() if value != []}, indent=1) + "\n"


def _unwanted(
    rule: Mapping[str, Any], axes: Sequence[tuple[str, Sequence[int]]], wanted: Collection[tuple[int, ...]]
) -> Iterator[dict[str, Any]]:
    """Rules that leave of the product of the axes the wanted places, where all of `rule` holds."""
    (name, values), *others = axes
    there = {place[0] for place in wanted}
    if absent := [value for value in values if value not in there]:
        yield {**rule, name: absent}
    for value in sorted(there) if others else ():
        yield from _unwanted({**rule, name: value}, others, [place[1:] for place in wanted if place[0] == value])
