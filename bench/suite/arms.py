"""The subjects that a suite compares, from the ways to write them: a product, arms, a ladder, leave-one-out, pairs.

    subjects: {attention: [eager, sdpa_flash]}      every combination of the lists
    arms: [{}, {attention: sdpa_flash}]             each entry over the defaults; a list in it is multiplied within the entry
    ladder: [{attention: sdpa_flash}, {layers: liger}]   the defaults, the first, the first two, ...; a name given to a step names its arm
    leave_one_out: {flash: {...}, liger: {...}}     all parts together, and all but each
    pairs: {flash: {...}, liger: {...}}             the defaults, each part alone, and every two that fill no slot in two ways

All work on the plain data that a run stores of its suite (`Suite.to_data`), so a report needs no catalogue: `arms_of` says of each subject
where the suite names it, `label_of` what to call it. Equal subjects are one arm with several places.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

COMBINED = ("arms", "ladder", "leave_one_out", "pairs")
"""The keys that may stand together, and not beside `subjects`."""
MAX_ARMS = 100_000
NAME = "name"
"""The key of an entry that is no slot."""
DEFAULTS_LABEL = "defaults"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the suite names an arm."""

    key: str
    """`subjects`, `arms`, `ladder`, `leave_one_out` or `pairs`."""
    position: int
    """In `arms` the entry; in `ladder` the number of steps taken; else the order in which the arms are listed, from 0."""
    parts: tuple[str, ...] = ()
    """Names of the parts of a ladder, of leave-one-out or of pairs that are on, in the suite's order."""
    left_out: str | None = None
    """The part of leave-one-out that is off."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One subject: slot to implementation, what to call it, and where the suite names it."""

    subject: Mapping[str, str]
    label: str
    places: tuple[Place, ...]


Slots = dict[str, str]


def arms_of(data: Mapping[str, Any]) -> tuple[Arm, ...]:
    """The arms of a suite, given as `Suite.to_data` has it, each once, in the order in which they are written.

    A subject lacks the slots that neither it nor the defaults fill. Data of another form (of an imported run) names no arm. Past
    `MAX_ARMS` places, no more are looked at.
    """
    data = _formed(data)
    defaults: Slots = data["defaults"]
    found: dict[tuple[tuple[str, str], ...], tuple[Slots, list[str], list[Place]]] = {}
    for slots, place, name in itertools.islice(_written(data), MAX_ARMS + 1):
        subject = {**defaults, **slots}
        _, names, places = found.setdefault(tuple(sorted(subject.items())), (subject, [], []))
        names += [name] if name is not None else []
        places.append(place)
    return tuple(
        Arm(subject, names[0] if names else composed(subject, data), tuple(places)) for subject, names, places in found.values()
    )


def _formed(data: Mapping[str, Any]) -> dict[str, Any]:
    """What of `data` has the form of a suite: entries of words to names; anything else is left out."""

    def entry(value: Any) -> dict[str, Any]:
        return {word: names for word, names in value.items() if _names(names)} if isinstance(value, Mapping) else {}

    def single(value: Any) -> Slots:
        return {word: name for word, name in entry(value).items() if isinstance(name, str)}

    def many(value: Any) -> list[Any]:
        return [part for part in value if isinstance(part, Mapping)] if isinstance(value, list | tuple) else []

    def mapping(value: Any) -> Mapping[str, Any]:
        return value if isinstance(value, Mapping) else {}

    return {
        "defaults": single(data.get("defaults")),
        "shorthands": {word: single(filled) for word, filled in mapping(data.get("shorthands")).items()},
        "subjects": entry(data.get("subjects")),
        "arms": [entry(arm) for arm in many(data.get("arms"))],
        "ladder": [single(step) for step in many(data.get("ladder"))],
        "leave_one_out": {name: single(part) for name, part in mapping(data.get("leave_one_out")).items()},
        "pairs": {name: single(part) for name, part in mapping(data.get("pairs")).items()},
    }


def _names(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list | tuple) and all(isinstance(name, str) for name in value))


def label_of(data: Mapping[str, Any]) -> Callable[[Mapping[str, str]], str]:
    """Names subjects as the suite `data` does: by the own name of the arm or of its step (`2: + name`), else by what differs from the
    defaults.
    """
    data = _formed(data)
    named = {tuple(sorted(arm.subject.items())): arm.label for arm in arms_of(data)} if data["arms"] or data["ladder"] else {}

    def label(subject: Mapping[str, str]) -> str:
        return named.get(tuple(sorted(subject.items()))) or composed(subject, data)

    return label


def composed(subject: Mapping[str, str], data: Mapping[str, Any]) -> str:
    """`attention=flex layers=liger`: what differs from the suite's defaults, shorthands where all of one holds, or `defaults`.

    The implementation alone where there is one slot; every slot where the suite has no defaults. What `subjects` compares is always
    said, for there no subject is more the default than another.
    """
    if len(subject) == 1:
        return next(iter(subject.values()))
    defaults: Mapping[str, str] = data.get("defaults") or {}
    asked = data.get("subjects") or {}
    differs = {slot: name for slot, name in subject.items() if defaults.get(slot) != name or slot in asked}
    if not differs:
        return DEFAULTS_LABEL
    ranks = {slot: rank for rank, slot in enumerate(defaults)}
    words = []
    shorthands: Mapping[str, Mapping[str, str]] = data.get("shorthands") or {}
    for word, filled in sorted(shorthands.items(), key=lambda item: (-len(item[1]), item[0])):
        if len(filled) > 1 and all(differs.get(slot) == name for slot, name in filled.items()):
            words.append((min(ranks.get(slot, -1) for slot in filled), word))
            differs = {slot: name for slot, name in differs.items() if slot not in filled}
    words += [(ranks.get(slot, -1), f"{slot}={name}") for slot, name in differs.items()]
    return " ".join(word for _, word in sorted(words))


def clashes(parts: Mapping[str, Mapping[str, str]], data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Every two parts of leave-one-out or pairs that fill one slot in two ways, so that they cannot be on together."""
    filled = {name: _filled(part, data) for name, part in parts.items()}
    return [(one, two) for one, two in itertools.combinations(filled, 2) if _clash(filled[one], filled[two])]


def _clash(one: Slots, two: Slots) -> bool:
    return any(two.get(slot, name) != name for slot, name in one.items())


def _filled(part: Mapping[str, str], data: Mapping[str, Any]) -> Slots:
    """The slots that a part fills. What a slot's own name says goes before what a shorthand says of it."""
    shorthands: Mapping[str, Mapping[str, str]] = data.get("shorthands") or {}
    meant = {word: shorthands.get(f"{word}={name}") for word, name in part.items() if word != NAME}
    slots = {slot: name for filled in meant.values() if filled is not None for slot, name in filled.items()}
    return slots | {word: part[word] for word, filled in meant.items() if filled is None}


def _products(entry: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Every combination of an entry's lists."""
    lists = {word: [names] if isinstance(names, str) else names for word, names in entry.items() if word != NAME}
    for names in itertools.product(*lists.values()):
        yield dict(zip(lists, names, strict=True))


def _written(data: Mapping[str, Any]) -> Iterator[tuple[Slots, Place, str | None]]:
    """Slots, place and own name of all that the suite lists."""
    if data.get("subjects"):
        for position, chosen in enumerate(_products(data["subjects"])):
            yield _filled(chosen, data), Place("subjects", position), None
    for position, entry in enumerate(data.get("arms") or ()):
        varies = [word for word, names in entry.items() if not isinstance(names, str) and len(names) > 1]
        for chosen in _products(entry):
            name = entry.get(NAME)
            if name is not None and varies:
                name = f"{name} ({' '.join(f'{word}={chosen[word]}' for word in varies)})"
            yield _filled(chosen, data), Place("arms", position), name
    yield from _ladder(data)
    yield from _leave_one_out(data)
    yield from _pairs(data)


def part_name(part: Mapping[str, str]) -> str:
    """What a step of a ladder is called: its name, or the words that it consists of."""
    return part.get(NAME) or " ".join(f"{word}={name}" for word, name in part.items())


def _ladder(data: Mapping[str, Any]) -> Iterator[tuple[Slots, Place, str | None]]:
    steps = data.get("ladder") or ()
    names = tuple(part_name(step) for step in steps)
    slots: Slots = {}
    for position in range(len(steps) + 1 if steps else 0):
        name = None
        if position:
            step = steps[position - 1]
            slots = slots | _filled(step, data)
            name = f"{position}: + {step[NAME]}" if step.get(NAME) else None
        yield slots, Place("ladder", position, names[:position]), name


def _leave_one_out(data: Mapping[str, Any]) -> Iterator[tuple[Slots, Place, None]]:
    parts = data.get("leave_one_out") or {}
    for position, absent in enumerate((None, *parts) if parts else ()):
        slots: Slots = {}
        for name, part in parts.items():
            if name != absent:
                slots |= _filled(part, data)
        yield slots, Place("leave_one_out", position, tuple(name for name in parts if name != absent), absent), None


def _pairs(data: Mapping[str, Any]) -> Iterator[tuple[Slots, Place, None]]:
    parts = {name: _filled(part, data) for name, part in (data.get("pairs") or {}).items()}
    chosen = (names for count in range(3 if parts else 0) for names in itertools.combinations(parts, count))
    possible = (names for names in chosen if len(names) < 2 or not _clash(parts[names[0]], parts[names[1]]))
    for position, names in enumerate(possible):
        slots: Slots = {}
        for name in names:
            slots |= parts[name]
        yield slots, Place("pairs", position, names), None
