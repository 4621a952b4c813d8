"""The JSON Schema of a suite file, for completion and checking in editors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.records import Json
from bench.suite.arms import COMBINED, NAME
from bench.suite.axes import DTYPE_AXIS, MODEL_AXIS, PASS_AXIS, REGIME_AXES, Axis, SizeAxis
from bench.suite.check import OPERATORS
from bench.suite.model import SuiteForm
from bench.suite.overlay import MAPPINGS, WHOLES

SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"

_SCALAR: Json = {"type": ["string", "number", "boolean"]}
_NULL: Json = {"type": "null"}


def json_schema() -> dict[str, Json]:
    """The schema of a suite file."""
    schema = SuiteForm.model_json_schema(by_alias=True)
    schema["$schema"] = SCHEMA_ID
    schema["title"] = "A stepbench suite"
    schema["description"] = "One question: what is compared, over which axes, and how precisely."
    axes = _axes()
    properties: dict[str, Any] = schema["properties"]
    properties |= _arms({key: properties[key]["description"] for key in ("defaults", "subjects", *COMBINED)})
    properties["sweep"] = {
        "type": "object",
        "description": properties["sweep"]["description"],
        "properties": axes,
        "additionalProperties": _one_or_more(_SCALAR),
    }
    properties["search"] = {"description": properties["search"]["description"], "anyOf": [{"$ref": "#/$defs/Search"}, _NULL]}
    properties["exclude"]["items"] = {"type": "object", "minProperties": 1, "additionalProperties": _condition()}
    properties["profiles"]["additionalProperties"] = _profile(properties, axes)
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


def _axes() -> dict[str, Json]:
    """The axes that most workloads have. Names of workloads, slots, models and parameters are free: plug-ins add to them."""
    batch = Axis("batch", int, minimum=1, description="sequences; {tokens: N} means N / seq_len")
    return {axis.name: _axis(axis) for axis in (MODEL_AXIS, batch, DTYPE_AXIS, PASS_AXIS, *REGIME_AXES)}


def _arms(descriptions: Mapping[str, str]) -> dict[str, Json]:
    """The keys that say what is compared."""
    text: Json = {"type": "string"}
    own_name = {NAME: {"type": "string", "minLength": 1}}
    part: dict[str, Json] = {"type": "object", "additionalProperties": text}
    product: dict[str, Json] = {"type": "object", "additionalProperties": _one_or_more(text)}
    arm = {**product, "properties": own_name}
    step = {**part, "properties": own_name}
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


def _profile(properties: dict[str, Any], axes: dict[str, Json]) -> dict[str, Json]:
    """A profile takes the axes and slots directly, and the suite's own keys."""
    own = {key: properties[key] for key in (*MAPPINGS, *WHOLES)}
    own["search"] = {"type": ["object", "null"], "description": properties["search"]["description"]}  # any part of one
    return {"type": "object", "properties": {**axes, **own}, "additionalProperties": _one_or_more(_SCALAR)}
