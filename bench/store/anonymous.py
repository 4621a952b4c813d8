"""Rows fit to be shown to everybody: the same numbers and ids, without what tells the machine's owner, folders or neighbours.

A record is dumped, every text in it is scrubbed, and it is loaded again. What goes: secrets, the names of user, home and host, folders
(public_text.py), labels, logs of rows whose reason says all, names of other processes, and the vendor's suffix of the kernel's release.
What stays as it is: ids, units, times, and what a case is, since its key depends on it. A GPU's UUID becomes a word that is the same
for the same GPU, because it is a blocking factor: rows of one GPU can still be told from those of another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from bench.machine import scrub
from bench.machine.named_processes import BUSY, ON_GPU, OTHER, UNKNOWN, process_names
from bench.records import Json, Result, Run, Status, dump, fingerprint, load
from bench.store.public_text import Owner, path_name, short_command, short_paths

_SPEAK_FOR_THEMSELVES = (Status.OK, Status.UNAVAILABLE, Status.UNSUPPORTED)
_RELEASE = re.compile(r"\d+(?:\.\d+)*")
_UUID = re.compile(r"\b(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)
_GPU_WORD = re.compile(r"gpu-[0-9a-f]{12}")
IDLE = "idle"
"""What the name of a process on the GPU becomes that was not busy; of all others it is `OTHER`."""

_EXACT_RUN = ("id", "seed", "device", "started_at", "finished_at", "state", "planned_trials", "parent_run_id", "harness_version")
_EXACT_RESULT = (
    *("id", "run_id", "status", "started_at", "duration_s", "seed", "phase", "rank", "cost"),
    *("method_version", "harness_version"),
)
_EXACT_MEASUREMENT = ("metric", "unit", "samples", "scope", "calls_per_sample")


def anonymous_run(run: Run) -> Run:
    """The run without label and folders: plug-ins and what is under test by their last part."""
    data = dump(run)
    text = _cleaner(data)
    shown = {key: value if key in _EXACT_RUN else _texts(value, text) for key, value in data.items()}
    # Written to be read by others; only paths in it can say who wrote it.
    for key in ("suite", "question"):
        shown[key] = _without_paths(data[key])
    shown["suite_data"] = _texts(data["suite_data"], _without_paths)
    if "under_test" in shown["suite_data"]:
        shown["suite_data"]["under_test"] = _last_parts(data["suite_data"]["under_test"], text)
    shown["options"] = {key: value for key, value in shown["options"].items() if key not in ("suite_folder", "label")}
    if "plugins" in shown["options"]:
        shown["options"]["plugins"] = _last_parts(data["options"]["plugins"], text)
    if isinstance(folder := data["options"].get("weights"), str):
        shown["options"]["weights"] = _last_part(folder)
    for owner, key in ((shown, "suite_file"), (shown["options"], "suite_file")):
        if isinstance(file := owner.get(key), str):
            owner[key] = path_name(file)
    shown["command"] = short_command(data["command"], text)
    for item in shown["revision"]:
        if item["kind"] == "path":
            item["name"] = _last_part(item["name"])
    return load(Run, {**shown, "label": None})


def anonymous_result(result: Result) -> Result:
    """The row with the same id and numbers."""
    data = dump(result)
    text = _cleaner(data)
    shown = {key: value if key in _EXACT_RESULT else _texts(value, text) for key, value in data.items()}
    shown["trial"] = {**data["trial"], "case": _texts(data["trial"]["case"], short_paths)}
    shown["environment"] = {"hard": data["environment"]["hard"], "soft": _soft(shown["environment"]["soft"])}
    shown["measurements"] = [
        {key: value if key in _EXACT_MEASUREMENT else _texts(value, text) for key, value in one.items()}
        for one in data["measurements"]
    ]
    shown["conditions"] = _conditions(data["conditions"], shown["conditions"])
    shown["command"] = short_command(data["command"], text)
    if result.status in _SPEAK_FOR_THEMSELVES:
        shown["log"] = ""
    return load(Result, shown)


def same_once_anonymous(ours: Run | Result, theirs: Run | Result) -> bool:
    """Whether one of two records (of one type) is the published form of the other; what cannot be published is not."""
    if ours == theirs:
        return True
    anonymous: Callable[[Any], Any] = anonymous_run if isinstance(ours, Run) else anonymous_result
    try:
        return _alike(anonymous(ours), theirs) or _alike(ours, anonymous(theirs))
    except ValueError:
        return False


def _alike(one: Any, other: Any) -> bool:
    return bool(one == other or (isinstance(one, Result) and _one_word(one) == _one_word(other)))


def _one_word(row: Result) -> Result:
    """With one word for all processes, as rows were published before those that were idle had another."""
    names = row.conditions.get(ON_GPU)
    told = [OTHER if name == IDLE else name for name in names] if isinstance(names, list) else names
    return replace(row, conditions={**row.conditions, ON_GPU: told})


def _cleaner(data: Json) -> Callable[[str], str]:
    """What cleans the texts of this record, which may itself tell who its owner is."""
    owner = Owner.of(data)
    return lambda text: _gpus(short_paths(owner.nameless(scrub(text))))


def _without_paths(text: str) -> str:
    return short_paths(scrub(text))


def _gpus(text: str) -> str:
    return _UUID.sub(lambda found: _gpu_word(found.group()), text)


def _gpu_word(uuid: str) -> str:
    return uuid if _GPU_WORD.fullmatch(uuid) else f"gpu-{fingerprint(uuid)[:12]}"


def _last_part(text: str) -> str:
    return PurePath(path_name(text)).name or text


def _last_parts(entries: Json, text: Callable[[str], str]) -> Json:
    if not isinstance(entries, list):
        return _texts(entries, text)
    return [text(_last_part(entry)) if isinstance(entry, str) else _texts(entry, text) for entry in entries]


def _soft(soft: dict[str, Json]) -> dict[str, Json]:
    release = _RELEASE.match(str(soft.get("kernel", "")))
    return soft | ({"kernel": release.group()} if release else {})


def _conditions(before: Mapping[str, Json], shown: dict[str, Json]) -> dict[str, Json]:
    if isinstance(uuid := before.get("gpu_uuid"), str):
        shown["gpu_uuid"] = _gpu_word(uuid)
    return shown | nameless_processes(before)


def nameless_processes(conditions: Mapping[str, Json]) -> dict[str, Json]:
    """The processes of others in a row's conditions, without their names.

    Whether one of those on the GPU was busy decides about times, and is told by equal names: so one that was not has another word.
    """
    shown: dict[str, Json] = {}
    for name in (BUSY, ON_GPU):
        if name in conditions:
            entries = conditions[name]
            shown[name] = [_nameless(entry) for entry in entries] if isinstance(entries, list) else _nameless(entries)
    busy = {*process_names(conditions.get(BUSY))}
    if busy and isinstance(on_gpu := conditions.get(ON_GPU), list):
        shown[ON_GPU] = [IDLE if isinstance(name, str) and name not in busy | {UNKNOWN} else _nameless(name) for name in on_gpu]
    return shown


def _nameless(entry: Json) -> Json:
    if isinstance(entry, Mapping):
        return {"name": OTHER, **{key: value for key, value in entry.items() if key != "name" and _is_number(value)}}
    return entry if _is_number(entry) else OTHER


def _is_number(value: Json) -> bool:
    return value is None or isinstance(value, (bool, int, float))


def _texts(data: Json, text: Callable[[str], str]) -> Json:
    """The same data with every text in it cleaned, keys included."""
    if isinstance(data, str):
        return text(data)
    if isinstance(data, Mapping):
        return {text(key): _texts(value, text) for key, value in data.items()}
    return [_texts(value, text) for value in data] if isinstance(data, list) else data
