"""Reads files of claims: plain YAML, every mistake at once with file, line and key.

A file may have `defaults`, which each of its claims has unless it says otherwise; mappings in them are laid over one another key by key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bench.catalogue.names import listed, nearest
from bench.errors import Problem, SuiteError
from bench.judge.claim_formulas import FORMULAS
from bench.judge.claim_numbers import DERIVED
from bench.judge.claim_records import Claim
from bench.metrics import METRICS
from bench.suite.source import Source, read_file

SCHEMA = 1
_KEYS = ("schema", "name", "about", "defaults", "claims")


def load_claims(folder: Path) -> tuple[Claim, ...]:
    """All claims of the YAML files in `folder`, `founding.yaml` first. Raises SuiteError with every mistake of all files."""
    paths = sorted(folder.glob("*.yaml"), key=lambda path: (path.stem != "founding", path.name))
    if not paths:
        raise SuiteError([Problem("there is no file of claims here; --claims names their folder", str(folder))])
    problems: list[Problem] = []
    claims: dict[str, Claim] = {}
    for path in paths:
        try:
            source = read_file(path)
        except SuiteError as error:
            problems += error.problems
            continue
        for place, claim in _claims(source, problems):
            if claim.id in claims:
                problems.append(source.problem(("claims", place, "id"), f"{claim.id} is the id of another claim already"))
            claims[claim.id] = claim
    if problems:
        raise SuiteError(problems)
    return tuple(claims.values())


def _claims(source: Source, problems: list[Problem]) -> list[tuple[int, Claim]]:
    data = source.data
    if not isinstance(data, dict) or data.get("schema") != SCHEMA or not isinstance(data.get("claims"), list):
        problems.append(Problem(f"must be a mapping with schema: {SCHEMA} and a list of claims", source.file))
        return []
    for key in data:
        if key not in _KEYS:
            problems.append(source.problem((key,), f"unknown key; known: {listed(_KEYS)}", nearest(str(key), _KEYS)))
    defaults = data.get("defaults", {})
    if not isinstance(defaults, dict):
        problems.append(source.problem(("defaults",), "must be a mapping"))
        return []
    found = []
    for place, entry in enumerate(data["claims"]):
        if not isinstance(entry, dict):
            problems.append(source.problem(("claims", place), "must be a mapping"))
            continue
        try:
            claim = Claim.model_validate(_laid_over(_fitting(defaults, entry), entry))
        except ValidationError as error:
            problems += [_problem(source, place, detail) for detail in error.errors(include_url=False)]
            continue
        problems += [source.problem(("claims", place, *key), text, near) for key, text, near in _unknown(claim)]
        found.append((place, claim))
    return found


def _fitting(defaults: Mapping[str, Any], entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The defaults less those of how rows answer, for a claim that is computed or never answered here."""
    other = "computed_by" in entry or ("never_here" in entry and "measured_by" not in entry)
    return {key: value for key, value in defaults.items() if not (other and key == "measured_by")}


def _laid_over(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` above `under`, mappings key by key."""
    laid = dict(under)
    for key, value in over.items():
        below = laid.get(key)
        laid[key] = _laid_over(below, value) if isinstance(below, dict) and isinstance(value, dict) and key != "expected" else value
    return laid


def _problem(source: Source, place: int, detail: Any) -> Problem:
    key = ("claims", place, *(part for part in detail["loc"] if part not in ("float", "Bounds")))
    if detail["type"] == "extra_forbidden":
        known = list(Claim.model_fields)
        return source.problem(key, "unknown key", nearest(str(key[-1]), known) if len(key) == 3 else None)
    if detail["type"] == "missing":
        return source.problem(("claims", place), f"{'.'.join(map(str, key[2:]))} is missing")
    return source.problem(key, str(detail["msg"]).removeprefix("Value error, "))


def _unknown(claim: Claim) -> Sequence[tuple[tuple[str, ...], str, str | None]]:
    """Names in a claim that nothing answers to: key, words, nearest name."""
    if claim.measured_by is not None:
        metric, known = claim.measured_by.metric, (*METRICS, *DERIVED)
        if metric not in known:
            return [(("measured_by", "metric"), f"no metric is called {metric!r}", nearest(metric, known))]
    if claim.computed_by is not None:
        formula = claim.computed_by.formula
        if formula not in FORMULAS:
            return [(("computed_by", "formula"), f"no formula is called {formula!r}; known: {listed(tuple(FORMULAS))}", None)]
        try:
            signature(FORMULAS[formula]).bind(**claim.computed_by.arguments)
        except TypeError as error:
            return [(("computed_by", "arguments"), f"{formula}: {error}", None)]
    return []
