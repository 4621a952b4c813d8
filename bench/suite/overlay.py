"""Lays a profile, and `--set` after it, over what a file says; every value keeps the place where it was written."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from bench.catalogue import nearest
from bench.errors import Problem, SuiteError
from bench.suite.model import ProtocolForm
from bench.suite.source import SETTING, Key, Place, Source, dotted, read_text

MAPPINGS = ("protocol", "defaults", "subjects", "baseline", "sweep", "search")
"""Keys whose values are laid over key by key."""
WHOLES = ("threads", "exclude", "under_test", "arms", "ladder", "leave_one_out", "pairs")
"""Keys that are replaced."""
FIXED = ("schema", "name", "question", "workload", "profiles")
"""Keys that say which suite it is."""


def with_profile(source: Source, profile: str, slots: Collection[str]) -> tuple[Source, list[Problem]]:
    """The source with one of its profiles laid over it, and what is wrong with the profile's own form."""
    profiles = source.data.get("profiles")
    known = list(profiles) if isinstance(profiles, dict) else []
    if profile not in known:
        message = f"there is no profile {profile!r}; known: {', '.join(known) or 'none'}"
        return source, [source.problem(("profiles",), message, nearest(profile, known))]
    changes = profiles[profile]
    if not isinstance(changes, dict):
        return source, []
    layered = Source(copy.deepcopy(source.data), dict(source.places), source.file)
    problems = []
    for key in changes:
        origin: Key = ("profiles", profile, key)
        if key in FIXED:
            problems.append(source.problem(origin, f"a profile cannot change {key}"))
            continue
        for target, rest in _targets((key,), changes[key], slots):
            where = (*origin, *rest)
            _put(layered, target, _at(source.data, where), source, where)
    return layered, problems


def with_settings(source: Source, sets: Sequence[str], slots: Collection[str]) -> tuple[Source, list[Problem]]:
    """The source with each `key=value` of `sets` laid over it; values are YAML, and commas separate the values of an axis."""
    layered = Source(copy.deepcopy(source.data), dict(source.places), source.file)
    problems = []
    for text in sets:
        name, equals, value_text = text.partition("=")
        path = tuple(name.strip().split("."))
        place = Place(SETTING, None, name.strip()[:200])
        if not equals or not all(path):
            problems.append(Problem(f"write key=value, not {text[:80]!r}", SETTING))
            continue
        mistake = _unsettable(path)
        if mistake:
            problems.append(Problem(mistake[0], place.file, None, place.key, mistake[1]))
            continue
        try:
            value = _setting(value_text, split=path[0] not in ("protocol", "threads", "search", "exclude"))
        except SuiteError as error:
            problems += [Problem(problem.message, place.file, None, place.key) for problem in error.problems]
            continue
        for target, rest in _targets(path, value, slots):
            _put(layered, target, _at(value, rest), Source(value, {(): place}), rest)
    return layered, problems


def _unsettable(path: Sequence[str]) -> tuple[str, str | None] | None:
    if path[0] in FIXED:
        return f"{path[0]} says which suite it is and cannot be set", None
    if len(path) == 1 and path[0] in ProtocolForm.model_fields:
        return f"{path[0]} belongs to the protocol", f"protocol.{path[0]}"
    return None


def _setting(text: str, *, split: bool) -> Any:
    value = read_text(text, None).data
    if split and isinstance(value, str) and "," in value:
        return [read_text(part, None).data for part in split_list(value)]
    return value


def split_list(text: str) -> list[str]:
    """The parts of `a,b(c=1,d=2)` between commas that stand outside parentheses, without surrounding spaces."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def _targets(path: Key, value: Any, slots: Collection[str]) -> Iterator[tuple[Key, Key]]:
    """Where a profile's or a setting's value goes in the suite, each with the part of the value that goes there."""
    first = path[0]
    if first in MAPPINGS:
        if len(path) == 1 and isinstance(value, dict):
            yield from (((first, key), (key,)) for key in value)
        else:
            yield path, ()
    elif first in WHOLES:
        yield path, ()
    elif first in slots:
        yield ("subjects", *path), ()
    else:
        yield ("sweep", *path), ()


def _at(data: Any, key: Key) -> Any:
    for part in key:
        data = data[part]
    return data


def _put(layered: Source, target: Key, value: Any, origin: Source, where: Key) -> None:
    """Writes `value`, found in `origin` at `where`, to `target`, with the places of all that is in it."""
    places = layered.places
    assert isinstance(places, dict)
    own = origin.places.get(where) or origin.places.get((), Place(origin.file, None, dotted(where)))
    parent = layered.data
    for depth, part in enumerate(target[:-1], start=1):
        if not isinstance(parent.get(part), dict):
            parent[part] = {}
            places[target[:depth]] = own
        parent = parent[part]
    parent[target[-1]] = copy.deepcopy(value)
    for key in [key for key in places if key[: len(target)] == target]:
        del places[key]
    for key, place in origin.places.items():
        if key[: len(where)] == where:
            places[(*target, *key[len(where) :])] = place
    places[target] = own
