"""nvbench's JSON: a row for each state and way of timing. A state that was skipped is a row with the tool's reason.

`cold` executions are isolated, with the L2 flushed; `batch` ones are back to back. Both are told as means, so a row's single number is a
mean and its note says of how many.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from bench.records import Json, Scalar, Status
from bench.store.foreign import ForeignRow, Tool, measured, number, scalar, take_in, text
from bench.store.intake import Intake
from bench.store.source import Source

_BEGINNING = re.compile(r"\ufeff?\s*\{\s*\"(meta|devices|benchmarks)\"")
_WAYS = (("cold", "cold"), ("batch", "warm"))
_OTHERS = (("cpu_time_s", "s", "time/cpu/mean"), ("bandwidth_bytes_per_s", "byte/s", "bw/global/bytes_per_second"))


def recognises(head: str) -> bool:
    return _BEGINNING.match(head) is not None and '"nvbench"' in head


def read(source: Source, intake: Intake) -> None:
    data = source.document()
    if not isinstance(data, dict) or not isinstance(data.get("benchmarks"), list):
        source.refuse("no object with a list of `benchmarks`", number=1)
    meta = _mapping(data.get("meta"))
    version = _mapping(_mapping(meta.get("version")).get("nvbench")).get("string")
    argv = meta.get("argv")
    command = shlex.join(map(str, argv)) if isinstance(argv, list) and argv and all(isinstance(one, str) for one in argv) else None
    devices = {str(device.get("id")): device for device in _list(data.get("devices")) if isinstance(device, dict)}
    tool = Tool("nvbench", None if version is None else text(version), "How long do these CUDA kernels take?")
    take_in(source, intake, tool, list(_rows(source, data["benchmarks"], devices, meta, command)))


def _rows(
    source: Source, benchmarks: list[Json], devices: Mapping[str, Mapping[str, Json]], meta: Mapping[str, Json], command: str | None
) -> Iterator[ForeignRow]:
    for number_, benchmark in enumerate(benchmarks):
        if not isinstance(benchmark, dict) or not isinstance(benchmark.get("states"), list):
            source.refuse(f"benchmarks[{number_}] has no list of `states`", number=1)
        for place, state in enumerate(benchmark["states"]):
            if not isinstance(state, dict):
                source.refuse(f"benchmarks[{number_}].states[{place}] is no object", number=1)
            device = devices.get(str(state.get("device")), {})
            where = f"benchmarks[{number_}].states[{place}]"
            yield from _state(where, text(benchmark.get("name")), state, device, meta, command)


def _state(
    where: str, name: str, state: Mapping[str, Json], device: Mapping[str, Json], meta: Mapping[str, Json], command: str | None
) -> Iterator[ForeignRow]:
    summaries = {text(one.get("tag")): _value(one) for one in _list(state.get("summaries")) if isinstance(one, dict)}
    said = {key: state.get(key) for key in ("name", "device", "axis_values", "is_skipped", "skip_reason")}
    found = False
    for way, cache in _WAYS:
        mean_s = number(summaries.get(f"nv/{way}/time/gpu/mean"))
        if mean_s is None:
            continue
        found = True
        yield _row(where, way, cache, name, state, device, meta, command, summaries, said)
    if not found:
        skipped = text(state.get("skip_reason"), "no reason is told") if state.get("is_skipped") is True else None
        failure = (
            (Status.UNSUPPORTED, f"nvbench skipped it: {skipped}") if skipped else (Status.INVALID, "the source tells no time")
        )
        yield ForeignRow(
            place=where,
            said={"benchmark": name, "state": said},
            workload=name,
            subject={"benchmark": name},
            measurements=(),
            params=_params(state),
            device="cuda",
            hard=_hard(device),
            soft=_soft(meta),
            beside={"device": dict(device), "meta": dict(meta)},
            command=command,
            failure=failure,
        )


def _row(
    where: str,
    way: str,
    cache: str,
    name: str,
    state: Mapping[str, Json],
    device: Mapping[str, Json],
    meta: Mapping[str, Json],
    command: str | None,
    summaries: Mapping[str, Json],
    said: Mapping[str, Json],
) -> ForeignRow:
    own = {tag.removeprefix(f"nv/{way}/"): value for tag, value in summaries.items() if tag.startswith(f"nv/{way}/")}
    count = number(own.get("sample_size"))
    noise = number(own.get("time/gpu/stdev/relative"))
    note = f"one number, the mean of {f'{count:.0f}' if count else 'an untold number of'} executions"
    if noise is not None:
        note += f"; standard deviation {noise:.3g} of it"
    # Executions of a batch are timed together.
    calls = int(count) if way == "batch" and count and 1 <= count < 2**53 else 1
    measurements = measured("time_s", "s", [number(own["time/gpu/mean"]) or 0.0], calls=calls, note=note)
    for metric, unit, tag in _OTHERS:
        if (value := number(own.get(tag))) is not None:
            measurements += measured(metric, unit, [value], note="one number, a mean")
    return ForeignRow(
        place=f"{where}, {way}",
        said={"benchmark": name, "state": dict(said), "summaries": own},
        workload=name,
        subject={"benchmark": name},
        measurements=measurements,
        params=_params(state),
        device="cuda",
        cache=cache,
        hard=_hard(device),
        soft=_soft(meta),
        beside={"device": dict(device), "meta": dict(meta)},
        duration_s=number(own.get("walltime")),
        command=command,
        failure=None if measurements else (Status.INVALID, "the source's time cannot be one: it is negative"),
    )


def _params(state: Mapping[str, Json]) -> dict[str, Scalar]:
    params: dict[str, Scalar] = {}
    for axis in _list(state.get("axis_values")):
        if isinstance(axis, dict):
            params[text(axis.get("name"))] = _typed(axis)
    return params


def _value(summary: Mapping[str, Json]) -> Json:
    entries = [one for one in _list(summary.get("data")) if isinstance(one, dict) and one.get("name") == "value"]
    return _typed(entries[0]) if entries else None


def _typed(entry: Mapping[str, Json]) -> Scalar:
    """A value that nvbench spells as text beside its type."""
    value = entry.get("value")
    if entry.get("type") == "int64" and isinstance(value, str):
        try:
            return scalar(int(value))
        except ValueError:
            return value
    if entry.get("type") == "float64" and isinstance(value, str):
        found = number(value)
        return value if found is None else found
    return scalar(value)


def _hard(device: Mapping[str, Json]) -> dict[str, Scalar]:
    names = {"name": "gpu_model", "sm_version": "sm_version", "number_of_sms": "sm_count"}
    known = {ours: scalar(device[theirs]) for theirs, ours in names.items() if theirs in device}
    memory = device.get("global_memory_size")
    if isinstance(memory, int) and 0 < memory < 2**63:
        known["gpu_memory_gib"] = round(memory / 2**30)
    return known


def _soft(meta: Mapping[str, Json]) -> dict[str, Scalar]:
    version = _mapping(meta.get("version")).get("nvbench")
    names = ("string", "git_sha", "git_is_dirty")
    return {f"nvbench:{name}": scalar(version[name]) for name in names if name in version} if isinstance(version, dict) else {}


def _mapping(data: Json) -> Mapping[str, Json]:
    return data if isinstance(data, dict) else {}


def _list(data: Json) -> list[Json]:
    return data if isinstance(data, list) else []
