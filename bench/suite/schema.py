"""The JSON Schema of a suite file, for completion and checking in editors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.catalogue import Catalogue
from bench.declare import DTYPES
from bench.records import Json, Pass
from bench.suite.arms import COMBINED, NAME
from bench.suite.axes import CACHES, MEMORY_LIMIT_AXIS, TIMERS, Axis, SizeAxis, sweep_axes
from bench.suite.check import OPERATORS
from bench.suite.model import SuiteForm
from bench.suite.overlay import MAPPINGS, WHOLES

SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"

_SCALAR: Json = {"type": ["string", "number", "boolean"]}
_NULL: Json = {"type": "null"}


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
    properties |= _arms({key: properties[key]["description"] for key in ("defaults", "subjects", *COMBINED)}, catalogue)
    properties["sweep"] = {
        "type": "object",
        "description": properties["sweep"]["description"],
        "properties": axes,
        "additionalProperties": _one_or_more(_SCALAR) if catalogue is None else False,
    }
    properties["search"] = {"description": properties["search"]["description"], "anyOf": [{"$ref": "#/$defs/Search"}, _NULL]}
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
    if isinstance(axis, SizeAxis):
        forms.append({"type": "number", "exclusiveMinimum": 0})
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
            MEMORY_LIMIT_AXIS,
        )
        found = {axis.name: [_axis(axis)] for axis in fixed}
    return {name: forms[0] if len(forms) == 1 else {"anyOf": forms} for name, forms in found.items()}


def _names(catalogue: Catalogue | None) -> dict[str, Json]:
    """What each slot and each shorthand takes. A word that is both, in two workloads, takes either's names."""
    if catalogue is None:
        return {}
    known = {slot: list(catalogue.implementations(slot)) for slot in catalogue.slots()}
    for workload in catalogue.workloads.values():
        for word, group in workload.shorthands.items():
            known[word] = list(dict.fromkeys([*known.get(word, ()), *(name for slot in group for name in known[slot])]))
    return {word: {"type": "string", "enum": names} for word, names in known.items()}


def _slots(catalogue: Catalogue | None) -> dict[str, Json]:
    return {word: _one_or_more(name) for word, name in _names(catalogue).items()}


def _arms(descriptions: Mapping[str, str], catalogue: Catalogue | None) -> dict[str, Json]:
    """The keys that say what is compared."""
    single, many, text = _names(catalogue), _slots(catalogue), {"type": "string"}
    own_name = {NAME: {"type": "string", "minLength": 1}}
    part: dict[str, Json] = {"type": "object", "properties": single, "additionalProperties": text}
    product: dict[str, Json] = {"type": "object", "properties": many, "additionalProperties": _one_or_more(text)}
    arm = {**product, "properties": {**many, **own_name}}
    step = {**part, "properties": {**single, **own_name}}
    parts: Json = {"type": "object", "additionalProperties": part, "minProperties": 1}
    forms: dict[str, Json] = {
        "subjects": {**product, "minProperties": 1},
        "arms": {"type": "array", "items": arm, "minItems": 1},
        "ladder": {"type": "array", "items": step, "minItems": 1},
        "leave_one_out": parts,
        "pairs": parts,
    }
    keys: dict[str, Json] = {key: {"description": descriptions[key], "anyOf": [form, _NULL]} for key, form in forms.items()}
    return {**keys, "defaults": {**part, "description": descriptions["defaults"]}}


def _condition() -> dict[str, Json]:
    many = {"type": "array", "items": _SCALAR, "minItems": 1}
    operators = {name: many if name == "in" else _SCALAR for name in OPERATORS}
    asked = {"type": "object", "properties": operators, "additionalProperties": False, "minProperties": 1}
    return {"anyOf": [_SCALAR, many, asked]}


def _profile(properties: dict[str, Any], axes: dict[str, Json], slots: dict[str, Json], *, closed: bool) -> dict[str, Json]:
    """A profile takes the axes and slots directly, and the suite's own keys."""
    own = {key: properties[key] for key in (*MAPPINGS, *WHOLES)}
    own["search"] = {"type": ["object", "null"], "description": properties["search"]["description"]}  # any part of one
    return {
        "type": "object",
        "properties": {**axes, **slots, **own},
        "additionalProperties": False if closed else _one_or_more(_SCALAR),
    }
