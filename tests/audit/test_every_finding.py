"""No finding without tests: each name and gravity in the sources has a case that makes it appear, and each name one without it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from bench.audit import findings
from bench.audit.finding import Severity
from tests.audit.test_findings import CASES, ONLY_WHERE_SOMETHING_IS, QUIET, RANKED, UNTRAINED

GRAVITIES = {str(severity) for severity in Severity}


def declared() -> set[tuple[str, str]]:
    """(name, gravity) of each call that makes a finding; of a name that is put together the fixed beginning and `*`."""
    sources = [ast.parse(path.read_text()) for folder in findings.__path__ for path in sorted(Path(folder).glob("*.py"))]
    functions = [node for source in sources for node in ast.walk(source) if isinstance(node, ast.FunctionDef)]
    return {one for function in functions for one in _made_in(function)}


def _made_in(function: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    names = {
        node.targets[0].id: _pattern(node.value)
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
        made = {part.id for part in ast.walk(call.func) if isinstance(part, ast.Name)} & GRAVITIES
        if made and call.args:
            first = call.args[0]
            name = names.get(first.id) if isinstance(first, ast.Name) else _pattern(first)
            assert name is not None, f"{function.name} makes a finding whose name cannot be read from its source"
            yield from ((name, gravity) for gravity in made)


def _pattern(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "*" for part in node.values)  # type: ignore[misc]
    return None


APPEARING = (
    {(name, str(severity)) for name, _, severity, _ in CASES.values()}
    | {(name, str(severity)) for name, (severity, *_) in RANKED.items()}
    | {(name, str(severity)) for name, (severity, *_) in UNTRAINED.items()}
)
ABSENT = {*ONLY_WHERE_SOMETHING_IS, *QUIET, *RANKED, *UNTRAINED}


@pytest.mark.parametrize(("name", "gravity"), sorted(declared()))
def test_each_finding_of_each_gravity_has_a_case_that_makes_it_appear(name: str, gravity: str) -> None:
    assert any(fnmatch(known, name) and gravity == its for known, its in APPEARING)


@pytest.mark.parametrize("name", sorted({name for name, _ in declared()}))
def test_each_finding_has_a_case_without_it(name: str) -> None:
    assert any(fnmatch(known, name) for known in ABSENT)


def test_cases_are_of_findings_that_there_are() -> None:
    names = {name for name, _ in declared()}
    assert {known for known, _ in APPEARING if not any(fnmatch(known, name) for name in names)} == set()
    assert len(names) > 30
