"""pytest-benchmark's JSON (`--benchmark-json`, `.benchmarks/`): a row for each benchmark, with its rounds where they were saved.

A round is the mean of `iterations` calls. Without the rounds (the tool leaves them out unless asked) the median is one number, and the
other statistics stand in its note.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from bench.records import Json, Measurement, RevisionItem, Scalar, Status
from bench.stats import median
from bench.store.foreign import ForeignRow, Tool, measured, moment, number, scalar, take_in, text
from bench.store.intake import Intake
from bench.store.source import Source

_BEGINNING = re.compile(r"\ufeff?\s*\{\s*\"(machine_info|commit_info|benchmarks|datetime|version)\"")
_STATISTICS = ("min", "max", "mean", "stddev", "q1", "q3")
_HARD = ("machine", "processor", "system")
_MOST_ROUNDS = 1_000_000
_SAME_MEDIAN = 1e-6


def recognises(head: str) -> bool:
    return _BEGINNING.match(head) is not None and ('"machine_info"' in head or '"iqr_outliers"' in head)


def read(source: Source, intake: Intake) -> None:
    data = source.document()
    if not isinstance(data, dict) or not isinstance(data.get("benchmarks"), list):
        source.refuse("no object with a list of `benchmarks`", number=1)
    for place, entry in enumerate(data["benchmarks"]):
        if not isinstance(entry, dict) or not isinstance(entry.get("stats"), dict):
            source.refuse(f"benchmarks[{place}] has no `stats`", number=1)
    version = data.get("version")
    tool = Tool("pytest-benchmark", None if version is None else text(version), "How long do these test functions take?")
    whole = {name: data.get(name) for name in ("machine_info", "commit_info", "datetime", "version")}
    take_in(source, intake, tool, [_row(whole, place, entry) for place, entry in enumerate(data["benchmarks"])])


def _row(whole: Mapping[str, Json], place: int, entry: Mapping[str, Json]) -> ForeignRow:
    stats = entry["stats"]
    machine = _mapping(whole["machine_info"])
    name = text(entry.get("fullname"), text(entry.get("name")))
    params = {text(key): scalar(value) for key, value in _mapping(entry.get("params")).items()}
    measurements = _time(stats)
    return ForeignRow(
        place=f"benchmarks[{place}]",
        said={**entry, "stats": {key: value for key, value in stats.items() if key != "data"}},
        workload=name.partition("[")[0],
        subject={"test": text(entry.get("name"), name).partition("[")[0]},
        measurements=measurements,
        params=params or ({"param": scalar(entry["param"])} if entry.get("param") is not None else {}),
        device="cpu" if machine else "unknown",
        hard={**{key: scalar(machine[key]) for key in _HARD if key in machine}, **_cpu(machine)},
        soft=_soft(machine),
        revision=_revision(_mapping(whole["commit_info"])),
        beside=whole,
        duration_s=_total(stats),
        started_at=moment(whole["datetime"]),
        failure=None if measurements else (Status.INVALID, "the source holds neither rounds nor a median that can be a time"),
    )


def _time(stats: Mapping[str, Json]) -> tuple[Measurement, ...]:
    calls = stats.get("iterations")
    calls = calls if isinstance(calls, int) and 0 < calls < 2**63 else 1
    data = stats.get("data")
    if isinstance(data, list) and 0 < len(data) <= _MOST_ROUNDS:
        rounds = [found for one in data if (found := number(one)) is not None]
        if len(rounds) == len(data):
            return measured("time_s", "s", rounds, calls=calls, note=_contradiction(rounds, number(stats.get("median"))))
    middle = number(stats.get("median"))
    if middle is None:
        return ()
    told = ", ".join(f"{name} {found:.6g}" for name in _STATISTICS if (found := number(stats.get(name))) is not None)
    return measured(
        "time_s", "s", [middle], calls=calls, note=f"one number, the median of {_rounds(stats)}; the rounds are not told: {told}"
    )


def _contradiction(rounds: list[float], told: float | None) -> str | None:
    """What to say where the median beside the rounds is not theirs."""
    middle = median(sorted(rounds))
    if told is None or math.isclose(told, middle, rel_tol=_SAME_MEDIAN):
        return None
    return f"the source contradicts itself: these are its rounds, and beside them it tells another: median {told:.6g}"


def _rounds(stats: Mapping[str, Json]) -> str:
    rounds = stats.get("rounds")
    return f"{rounds} rounds" if isinstance(rounds, int) and 0 < rounds < 2**63 else "rounds whose count is not told"


def _total(stats: Mapping[str, Json]) -> float | None:
    """Seconds in all rounds, where they are told: the tool's `total` is one iteration of each."""
    total, iterations = number(stats.get("total")), number(stats.get("iterations"))
    return total * iterations if total is not None and iterations is not None and total >= 0 and iterations > 0 else None


def _revision(commit: Mapping[str, Json]) -> tuple[RevisionItem, ...]:
    found = commit.get("id")
    if not isinstance(found, str) or found == "unversioned":
        return ()
    dirty = commit.get("dirty")
    return (
        RevisionItem(text(commit.get("project"), "repository"), "path", None, found, dirty if isinstance(dirty, bool) else None),
    )


def _cpu(machine: Mapping[str, Json]) -> dict[str, Scalar]:
    cpu = _mapping(machine.get("cpu"))
    found = {"cpu_model": cpu.get("brand_raw", cpu.get("brand")), "cpu_count": cpu.get("count")}
    return {name: scalar(value) for name, value in found.items() if value is not None}


def _soft(machine: Mapping[str, Json]) -> dict[str, Scalar]:
    names = {"python_version": "python", "python_implementation": "python_implementation", "release": "kernel"}
    return {ours: scalar(machine[theirs]) for theirs, ours in names.items() if theirs in machine}


def _mapping(data: Json) -> Mapping[str, Json]:
    return data if isinstance(data, dict) else {}
