"""What an axis may hold: its name, type and limits, and the words for a value that does not fit."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from bench.catalogue import Catalogue, ModelShape, names, nearest
from bench.catalogue.names import listed, shown
from bench.declare import DTYPES, Param, Workload
from bench.records import DEVICES, MEMORY_LIMIT_PARAM, Case, Pass, Scalar
from bench.suite.sizes import parse_size, spell_size

CACHES = ("warm", "cold")
TIMERS: Mapping[str, tuple[str, ...]] = {"cpu": ("wall",), "cuda": ("events", "cuda_graph", "wall")}
"""Kind of device to the timers that work on it, the default one first."""
MEMORY_LIMIT = "memory_limit"
"""The axis that caps what a trial may allocate on its device."""
WHOLE = "none"
"""The value of `memory_limit` that sets no cap."""
LARGEST_LIMIT_BYTES = 10**15
MAX_WORLD_SIZE = 4096
MAX_TEXT = 300

_VARIED = re.compile(r"(?P<name>[^()]+)\((?P<changes>[^()]+)\)")


class BadValue(ValueError):
    """A value that an axis cannot hold; the text says why, `suggestion` is the nearest one that it can."""

    def __init__(self, message: str, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.suggestion = suggestion


def unknown_word(kind: str, word: str, known: Sequence[str]) -> BadValue:
    """The complaint about a word that is not among the known ones, with the nearest one apart."""
    return BadValue(names.unknown(kind, word, known, hint=False), nearest(word, known))


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a workload's sweep."""

    name: str
    type: type[int] | type[float] | type[str] | type[bool]
    choices: tuple[Scalar, ...] = ()
    minimum: float | None = None
    below: float | None = None
    default: Scalar = None
    required: bool = False
    description: str = ""

    def convert(self, value: Any) -> Scalar:
        """`value` in the axis' type. Raises BadValue; a float axis takes 0, but an int axis takes neither 1.0 nor true."""
        if self.type is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not self.type:
            words = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
            hint = f"; known: {listed(self.choices)}" if self.choices else ""
            raise BadValue(f"{self.name} must be {words[self.type]}, not {shown(value)}{hint}")
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, float) and not math.isfinite(value):
            raise BadValue(f"{self.name} must be finite")
        if self.choices and value not in self.choices:
            raise BadValue(f"{self.name} must be one of {listed(self.choices)}, not {shown(value)}")
        if self.minimum is not None and value < self.minimum:
            raise BadValue(f"{self.name} must be at least {self.minimum:g}, not {shown(value)}")
        if self.below is not None and value >= self.below:
            raise BadValue(f"{self.name} must be below {self.below:g}, not {shown(value)}")
        return value

    def _text(self, value: str) -> str:
        if self.choices and value not in self.choices:
            varied = _VARIED.fullmatch(value) if self.name == "model" else None
            if not (varied and varied["name"] in self.choices):
                raise unknown_word(self.name, value, [str(choice) for choice in self.choices])
        if not value or len(value) > MAX_TEXT:
            raise BadValue(f"{self.name} must have 1 to {MAX_TEXT} characters")
        return value

    def parse(self, text: str) -> Scalar:
        """The value that a command line's `text` stands for. Raises BadValue."""
        if self.type is str:
            return self.convert(text)
        try:
            value = {"true": True, "false": False}[text.lower()] if self.type is bool else self.type(text)
        except (ValueError, KeyError):
            value = text
        return self.convert(value)


@dataclass(frozen=True, slots=True)
class SizeAxis(Axis):
    """An axis of sizes. Its values are texts that `parse_size` reads, each size in one spelling, and `none`."""

    def convert(self, value: Any) -> Scalar:
        """`16GB` for `16GB`, `16 GB`, `16e9 B` and 16. Raises BadValue."""
        if value == WHOLE:
            return WHOLE
        try:
            size_bytes = parse_size(value)
        except ValueError as error:
            raise BadValue(f"{error}, or {WHOLE} for all that the device has") from error
        if size_bytes >= LARGEST_LIMIT_BYTES:
            raise BadValue(f"{self.name} must be below {spell_size(LARGEST_LIMIT_BYTES)}, not {shown(value)}")
        return spell_size(size_bytes)


MODEL_AXIS = Axis("model", str, required=True, description="a named model shape, which gives the dimensions")
DTYPE_AXIS = Axis("dtype", str, tuple(DTYPES), required=True, description="the dtype in which it is computed")
PASS_AXIS = Axis("pass", str, tuple(map(str, Pass)), required=True, description="which part of the computation is timed")
REGIME_AXES = (
    Axis("cache", str, CACHES, description="whether caches are flushed before each sample (CPU: warm, CUDA: cold)"),
    Axis("timer", str, tuple(timer for kind in TIMERS.values() for timer in kind), description="how time is taken"),
    Axis("world_size", int, minimum=1, below=MAX_WORLD_SIZE + 1, default=1, description="number of ranks"),
    SizeAxis(
        MEMORY_LIMIT,
        str,
        description="cap on what a trial may hold on its device once it is built, such as 24GB; none: all that there is",
    ),
)
"""Axes that mean the same to every workload."""


def axis_value(case: Case, axis: str) -> Scalar:
    """The case's value of an axis as suites and filters name it; None where the axis has no meaning in it."""
    if axis == MEMORY_LIMIT:
        limit = case.params.get(MEMORY_LIMIT_PARAM)
        return spell_size(limit) if isinstance(limit, int) else WHOLE
    return case.axis_or_none(axis)


def spelled_axis(axis: str, value: Scalar) -> tuple[str, Scalar]:
    """A case's parameter as suites name and spell it: `memory_limit` and `24GB` for bytes under the name that rows have."""
    if axis != MEMORY_LIMIT_PARAM:
        return axis, value
    return MEMORY_LIMIT, spell_size(value) if isinstance(value, int) else value


def sweep_axes(workload: Workload, catalogue: Catalogue) -> dict[str, Axis]:
    """The axes that a suite of this workload may sweep, by name."""
    axes: dict[str, Axis] = {}
    if workload.dims:
        axes["model"] = replace(MODEL_AXIS, choices=tuple(catalogue.models))
    for param in workload.params:
        axes[param.name] = _param_axis(param)
    if workload.dtype_slot is None:
        axes["dtype"] = DTYPE_AXIS
    axes["pass"] = replace(PASS_AXIS, choices=tuple(map(str, workload.passes)))
    axes |= {axis.name: axis for axis in REGIME_AXES}
    return axes


def selection_axes(workload: Workload, catalogue: Catalogue) -> dict[str, Axis]:
    """The axes that rules and filters may name: those of the sweep, the slots, the model's dimensions, dtype and device."""
    axes = sweep_axes(workload, catalogue)
    for slot in workload.slots:
        axes[slot] = Axis(slot, str, tuple(catalogue.implementations(slot)), description=f"the implementation in the slot {slot}")
    for name in workload.dims:
        axes[name] = dimension_axis(name)
    axes["dtype"] = DTYPE_AXIS
    axes["device"] = Axis("device", str, DEVICES, description="the device")
    return axes


def dimension_axis(name: str) -> Axis:
    """The axis of one field of a model shape."""
    kinds = {entry.name: str(entry.type) for entry in fields(ModelShape)}
    kind = kinds.get(name, "int").removesuffix(" | None")
    if kind == "str":
        return Axis(name, str)
    if kind == "bool":
        return Axis(name, bool)
    if kind == "float":
        return Axis(name, float, minimum=0.0)
    return Axis(name, int, minimum=1)


def _param_axis(param: Param) -> Axis:
    return Axis(
        param.name,
        param.type,
        param.choices,
        param.minimum,
        param.below,
        default=param.default,
        required=param.default is None,
        description=param.description,
    )
