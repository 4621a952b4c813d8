"""The JSON Schema of a suite file, for completion and checking in editors."""

from __future__ import annotations

from typing import Any

from bench.catalogue import Catalogue
from bench.declare import DTYPES
from bench.records import Json, Pass
from bench.suite.axes import CACHES, TIMERS, Axis, sweep_axes
from bench.suite.check import OPERATORS
from bench.suite.model import SuiteForm

SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"

_SCALAR: Json = {"type": ["string", "number", "boolean"]}


def json_schema(catalogue: Catalogue | None = None) -> dict[str, Json]:
    """The schema of a suite file. With a catalogue, the names of workloads, implementations, models and parameters are in it."""
    schema = SuiteForm.model_json_schema(by_alias=True)
    schema["$schema"] = SCHEMA_ID
    schema["title"] = "A stepbench suite"
    schema["description"] = "One question: what is compared, over which axes, and how precisely."
    axes = _axes(catalogue)
    slots = _slots(catalogue)
    properties: dict[str, Any] = schema["properties"]
    if catalogue is not None:
        properties["workload"]["enum"] = list(catalogue.workloads)
    properties["subjects"] |= {"properties": slots, "additionalProperties": _one_or_more({"type": "string"})}
    properties["sweep"] = {
        "type": "object",
        "description": properties["sweep"]["description"],
        "properties": axes,
        "additionalProperties": _one_or_more(_SCALAR) if catalogue is None else False,
    }
    properties["exclude"]["items"] = {"type": "object", "minProperties": 1, "additionalProperties": _condition()}
    properties["profiles"]["additionalProperties"] = _profile(properties, axes, slots, closed=catalogue is not None)
    properties["under_test"] = _one_or_more({"type": "string"}) | {"description": properties["under_test"]["description"]}
    return schema


def _one_or_more(value: Json) -> dict[str, Json]:
    return {"anyOf": [value, {"type": "array", "items": value, "minItems": 1}]}


def _axis(axis: Axis) -> dict[str, Json]:
    kind = {int: "integer", float: "number", str: "string", bool: "boolean"}[axis.type]
    value: dict[str, Json] = {"type": kind}
    if axis.choices:
        value["enum"] = list(axis.choices)
    if axis.minimum is not None:
        value["minimum"] = axis.minimum
    if axis.below is not None:
        value["exclusiveMaximum"] = axis.below
    forms: list[Json] = [value]
    if axis.name == "batch":
        tokens = _one_or_more({"type": "integer", "minimum": 1})
        forms.append({"type": "object", "properties": {"tokens": tokens}, "required": ["tokens"], "additionalProperties": False})
    if axis.name == "model":
        fields = _one_or_more({"type": ["number", "boolean"]})
        forms.append({"type": "object", "properties": {"from": value}, "required": ["from"], "additionalProperties": fields})
    entry: Json = {"anyOf": forms} if len(forms) > 1 else value
    return {**_one_or_more(entry), "description": axis.description}


def _axes(catalogue: Catalogue | None) -> dict[str, Json]:
    """Each axis once. Where two workloads give one name to different parameters, both forms are taken."""
    found: dict[str, list[Json]] = {}
    for workload in catalogue.workloads.values() if catalogue else ():
        for name, axis in sweep_axes(workload, catalogue).items():  # type: ignore[arg-type]
            form = _axis(axis)
            if form not in found.setdefault(name, []):
                found[name].append(form)
    if catalogue is None:
        timers = tuple(timer for names in TIMERS.values() for timer in names)
        fixed = (
            Axis("model", str, description="a named model shape, which gives the dimensions"),
            Axis("batch", int, minimum=1, description="sequences; {tokens: N} means N / seq_len"),
            Axis("dtype", str, tuple(DTYPES), description="the dtype in which it is computed"),
            Axis("pass", str, tuple(map(str, Pass)), description="which part of the computation is timed"),
            Axis("cache", str, CACHES, description="whether caches are flushed before each sample"),
            Axis("timer", str, timers, description="how time is taken"),
            Axis("world_size", int, minimum=1, description="number of ranks"),
        )
        found = {axis.name: [_axis(axis)] for axis in fixed}
    return {name: forms[0] if len(forms) == 1 else {"anyOf": forms} for name, forms in found.items()}


def _slots(catalogue: Catalogue | None) -> dict[str, Json]:
    if catalogue is None:
        return {}
    return {slot: _one_or_more({"type": "string", "enum": list(catalogue.implementations(slot))}) for slot in catalogue.slots()}


def _condition() -> dict[str, Json]:
    many = {"type": "array", "items": _SCALAR, "minItems": 1}
    operators = {name: many if name == "in" else _SCALAR for name in OPERATORS}
    asked = {"type": "object", "properties": operators, "additionalProperties": False, "minProperties": 1}
    return {"anyOf": [_SCALAR, many, asked]}


def _profile(properties: dict[str, Any], axes: dict[str, Json], slots: dict[str, Json], *, closed: bool) -> dict[str, Json]:
    """A profile takes the axes and slots directly, and the suite's own keys."""
    own = {key: properties[key] for key in ("subjects", "baseline", "sweep", "exclude", "protocol", "threads", "under_test")}
    own["subjects"] = {key: value for key, value in own["subjects"].items() if key != "minProperties"}
    return {
        "type": "object",
        "properties": {**axes, **slots, **own},
        "additionalProperties": False if closed else _one_or_more(_SCALAR),
    }
