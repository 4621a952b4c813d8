"""Rows fit to be shown to everybody: the same numbers and ids, without what tells the machine's owner, folders or neighbours.

What goes: folders of the run's options, absolute paths in texts (their last two parts stay), logs of rows whose reason says all,
names of other processes, and the vendor's suffix of the kernel's release. A GPU's UUID becomes a word that is the same for the same
GPU, because it is a blocking factor: rows of one GPU can still be told from those of another.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from bench.records import Environment, Result, Run, Scalar, Status, fingerprint

if TYPE_CHECKING:
    from bench.records import Json

_SPEAK_FOR_THEMSELVES = (Status.OK, Status.UNAVAILABLE, Status.UNSUPPORTED)
_PATH = re.compile(r"(?<![\w.:/])/(?:[^\s/:'\"]+/)+[^\s/:'\"]*")
_RELEASE = re.compile(r"\d+(?:\.\d+)*")


def short_paths(text: str) -> str:
    """Absolute paths cut to their last two parts: `/home/me/site/flash_attn/x.py` becomes `flash_attn/x.py`."""
    return _PATH.sub(lambda found: "/".join(PurePath(found.group()).parts[-2:]), text)


def anonymous_run(run: Run) -> Run:
    """The run without folders: plug-ins by file name, the suite by its own path where that is relative."""
    options = {key: value for key, value in run.options.items() if key != "suite_folder"}
    options["plugins"] = [PurePath(path).name for path in options.get("plugins", ())]
    suite_file = short_paths(run.suite_file) if run.suite_file else run.suite_file
    return dataclasses.replace(run, options=_texts(options), suite_file=suite_file, command=short_paths(run.command))


def anonymous_result(result: Result) -> Result:
    """The row with the same id and numbers."""
    conditions = dict(result.conditions)
    if (uuid := conditions.get("gpu_uuid")) is not None:
        conditions["gpu_uuid"] = f"gpu-{fingerprint(uuid)[:12]}"
    for name in ("busy_processes", "other_compute_processes"):
        if name in conditions:
            conditions[name] = [_nameless(entry) for entry in conditions[name]]
    return dataclasses.replace(
        result,
        environment=Environment(dict(result.environment.hard), _soft(result.environment.soft)),
        conditions=_texts(conditions),
        command=short_paths(result.command),
        reason=short_paths(result.reason) if result.reason else result.reason,
        log="" if result.status in _SPEAK_FOR_THEMSELVES else short_paths(result.log),
    )


def _soft(soft: Mapping[str, Scalar]) -> dict[str, Scalar]:
    facts = {name: short_paths(value) if isinstance(value, str) else value for name, value in soft.items()}
    release = _RELEASE.match(str(facts.get("kernel", "")))
    return facts | ({"kernel": release.group()} if release else {})


def _nameless(entry: Json) -> Json:
    return {**entry, "name": "other"} if isinstance(entry, Mapping) else "other"


def _texts(data: Any) -> Any:
    """The same data with the paths in its texts cut."""
    if isinstance(data, str):
        return short_paths(data)
    if isinstance(data, Mapping):
        return {key: _texts(value) for key, value in data.items()}
    return [_texts(value) for value in data] if isinstance(data, (list, tuple)) else data
