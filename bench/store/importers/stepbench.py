"""Our own JSON Lines, as `bench db export` writes them: nothing is taken on trust, and nothing unless all is as the manifest says."""

from __future__ import annotations

import hashlib
from typing import TypeVar

from bench import __version__
from bench.records import RECORD_VERSION, Json, Result, Run, load
from bench.store.columns import rows_of
from bench.store.exchange import FORMAT
from bench.store.intake import Intake
from bench.store.source import MAX_DEPTH, Source, deeper_than, parsed, refusal

R = TypeVar("R")
_DEEPEST_COLUMNS = 4 * MAX_DEPTH
"""Each level of a row is three of its columns."""
_ANEW = "take it anew from where it came"


def recognises(head: str) -> bool:
    return head.split("\n", 1)[0].replace(" ", "").startswith('{"kind":"manifest"')


def read(source: Source, intake: Intake) -> None:
    manifest = _manifest(source)
    digest = hashlib.sha256()
    runs = results = 0
    while (line := source.line()) is not None:
        digest.update(line)
        data = _object(source, line)
        where = f"line {source.number}"
        kind = data.pop("kind", None)
        if kind == "run":
            intake.run(_record(source, where, Run, data), where)
            runs += 1
        elif kind == "result":
            intake.result(_record(source, where, Result, data), where, len(line))
            results += 1
        elif kind == "results":
            results += _together(source, intake, data, where)
        else:
            source.refuse(f"a line of the unknown kind {kind!r}")
    intake.finish()
    found = {"runs": runs, "results": results, "sha256": digest.hexdigest()}
    for key, value in found.items():
        if manifest.get(key) != value:
            source.refuse(
                f"the manifest promises {key} {manifest.get(key)!r}, the file has {value!r}: it was changed or cut off, {_ANEW}",
                number=1,
            )


def _together(source: Source, intake: Intake, data: dict[str, Json], where: str) -> int:
    """Takes in all results of a line that has them as columns, and counts them."""
    if deeper_than(data, _DEEPEST_COLUMNS):
        source.refuse(f"nested deeper than {_DEEPEST_COLUMNS}")
    rows = rows_of(data)
    taken = 0
    while True:
        try:
            found = next(rows, None)
        except ValueError as error:
            source.refuse(f"results that cannot be read ({error}): the file was changed, {_ANEW}")
        if found is None:
            return taken
        row, size_bytes = found
        taken += 1
        its = f"{where}, row {taken}"
        _not_too_deep(source, its, row)
        intake.result(_record(source, its, Result, row), its, size_bytes)


def _object(source: Source, line: bytes) -> dict[str, Json]:
    try:
        data = parsed(line, finite=True)
    except ValueError as error:
        # What is nested too deep has no cause.
        cut = error.__cause__ is not None and not line.endswith(b"\n")
        source.refuse(f"{error}: the file is cut off here, {_ANEW}" if cut else str(error))
    if not isinstance(data, dict):
        source.refuse("not a JSON object")
    _not_too_deep(source, f"line {source.number}", data)
    return data


def _not_too_deep(source: Source, where: str, data: dict[str, Json]) -> None:
    # Everywhere else the record itself says how deep it goes.
    if any(deeper_than(data.get(name), MAX_DEPTH) for name in ("conditions", "suite_data", "options")):
        raise refusal(source.path, where, f"nested deeper than {MAX_DEPTH}")


def _record(source: Source, where: str, cls: type[R], data: Json) -> R:
    try:
        return load(cls, data)
    except ValueError as error:
        said = "; ".join(str(error).splitlines()[1:3]).strip() or error
        raise refusal(source.path, where, f"not a valid {cls.__name__.lower()} ({said})") from error


def _manifest(source: Source) -> dict[str, Json]:
    line = source.line()
    if line is None:
        source.refuse("the file is empty", number=1)
    manifest = _object(source, line)
    if manifest.get("kind") != "manifest":
        source.refuse("not a manifest: this is no export of `bench db export`")
    for key, ours in (("format", FORMAT), ("record_version", RECORD_VERSION)):
        theirs = manifest.get(key)
        if not isinstance(theirs, int) or theirs < 1:
            source.refuse(f"the manifest lacks {key}")
        if theirs > ours:
            source.refuse(f"{key} {theirs} is newer than this bench {__version__} knows ({ours}): install a newer bench")
    return manifest
