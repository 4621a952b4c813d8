"""The JSON Schema knows the words of a suite, so that an editor can complete them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from bench.suite import json_schema
from tests.suite.conftest import PLAIN
from tests.suite.test_load import SUITES


def accepts(schema: Any, data: Any, root: Any) -> bool:
    """A checker for just the keywords that this schema uses; any other keyword fails the test."""
    known = {
        "$defs", "$schema", "title", "description", "default", "type", "enum", "const", "properties", "additionalProperties", "items",
        "anyOf", "required", "minItems", "maxLength", "minLength", "minProperties", "minimum", "maximum", "exclusiveMinimum",
        "exclusiveMaximum", "$ref",
    }  # fmt: skip
    if isinstance(schema, bool):
        return schema
    assert set(schema) <= known, set(schema) - known
    if "$ref" in schema:
        return accepts(root["$defs"][schema["$ref"].rsplit("/", 1)[-1]], data, root)
    kinds = {
        "object": dict,
        "array": list,
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "null": type(None),
    }
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(isinstance(data, kinds[kind]) and (kind == "boolean" or not isinstance(data, bool)) for kind in types):  # type: ignore[arg-type]
        return False
    checks = [
        data in schema.get("enum", [data]),
        data == schema.get("const", data),
        not schema.get("anyOf") or any(accepts(form, data, root) for form in schema["anyOf"]),
    ]
    if isinstance(data, int | float) and not isinstance(data, bool):
        checks += [data >= schema.get("minimum", data), data <= schema.get("maximum", data)]
        checks += [data > schema.get("exclusiveMinimum", data - 1), data < schema.get("exclusiveMaximum", data + 1)]
    if isinstance(data, list):
        checks += [len(data) >= schema.get("minItems", 0), *(accepts(schema.get("items", {}), item, root) for item in data)]
    if isinstance(data, dict):
        checks += [len(data) >= schema.get("minProperties", 0)]
        checks += [key in data for key in schema.get("required", ())]
        named, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
        checks += [accepts(named.get(key, rest), value, root) for key, value in data.items()]
    return all(checks)


@pytest.fixture(scope="module")
def schema() -> Any:
    return json_schema()


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_the_suites_of_this_repository_fit(schema: Any, path: Any) -> None:
    assert accepts(schema, yaml.safe_load(path.read_text()), schema)


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": 2},
        {"nme": "x"},
        {"subjects": {}},
        {"threads": "two"},
        {"protocol": {"trial": 3}},
        {"protocol": {"trials": 0}},
        {"sweep": {**PLAIN["sweep"], "dtype": "fp33"}},
        {"sweep": {**PLAIN["sweep"], "pass": ["sideways"]}},
        {"sweep": {**PLAIN["sweep"], "batch": {"token": 3}}},
        {"sweep": {**PLAIN["sweep"], "model": {"heads": 3}}},
        {"exclude": [{"seq_len": {"gtt": 3}}]},
        {"exclude": [{}]},
        {"profiles": {"cpu": {"dtype": "fp33"}}},
    ],
)
def test_a_mistake_does_not_fit(schema: Any, changes: dict[str, Any]) -> None:
    assert accepts(schema, PLAIN, schema)
    assert not accepts(schema, {**PLAIN, **changes}, schema)


ARMS: dict[str, Any] = {
    "subjects": None,
    "defaults": {"attention": "eager"},
    "arms": [{}, {"name": "best", "attention": ["eager", "flex"]}],
    "ladder": [{"attention": "flex"}, {"name": "last", "attention": "eager"}],
    "leave_one_out": {"a": {"attention": "flex"}},
    "pairs": {"a": {"attention": "flex"}, "b": {}},
    "search": {"axis": "batch", "until": "oom", "from": 1, "to": 64},
    "sweep": {**PLAIN["sweep"], "memory_limit": ["16GB", 24, "none"]},
    "profiles": {"cpu": {"search": {"to": 8}, "ladder": None, "arms": [{}]}},
}


def test_arms_searches_and_caps_fit(schema: Any) -> None:
    assert accepts(schema, {**PLAIN, **ARMS}, schema)


@pytest.mark.parametrize(
    "changes",
    [
        {"arms": {"attention": "eager"}},
        {"arms": []},
        {"arms": [{"attention": 3}]},
        {"ladder": [{"attention": ["eager", "flex"]}]},
        {"pairs": {"a": {"attention": ["eager", "flex"]}}},
        {"leave_one_out": [{}]},
        {"search": {"axis": "batch", "until": "oom", "from": 1}},
        {"search": {"axis": "batch", "until": "timeout", "from": 1, "to": 2}},
        {"search": {"axis": "batch", "until": "oom", "from": 1, "to": 2, "by": 2}},
        {"defaults": {"attention": ["eager"]}},
        {"sweep": {**PLAIN["sweep"], "memory_limit": True}},
    ],
)
def test_a_mistake_in_arms_or_a_search_does_not_fit(schema: Any, changes: dict[str, Any]) -> None:
    assert not accepts(schema, {**PLAIN, **ARMS, **changes}, schema)


def test_every_key_is_described(schema: Any) -> None:
    assert all(entry.get("description") for name, entry in schema["properties"].items())
    assert all(entry.get("description") for entry in schema["$defs"]["ProtocolForm"]["properties"].values())
    assert all(entry.get("description") for entry in schema["properties"]["sweep"]["properties"].values() if "anyOf" not in entry)
    assert not re.search("0x[0-9a-f]{8}", json.dumps(schema))
