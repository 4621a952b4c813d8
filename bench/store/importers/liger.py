"""Liger-Kernel's `all_benchmark_data.csv`: a line for each kernel, provider, mode, size and metric, with three quantiles.

Speed (ms) and memory of one kernel at one size become one row. The file's "MB" is bytes over 2^20, the highest of everything allocated on
the device, inputs included, so it is another metric than our peak above what was resident. How many calls the quantiles rest on is not
told. The tool times `forward` with autograd and `no-grad-forward` without; both are named in the parameter `operation_mode`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence

from bench.records import Measurement, Pass, RevisionItem, Scalar, Status
from bench.store.foreign import MAX_ROWS, UNKNOWN, ForeignRow, Tool, measured, moment, number, scalar, take_in, text
from bench.store.intake import Intake
from bench.store.source import Source, parsed

_NEEDED = ("kernel_name", "kernel_provider", "metric_name", "metric_unit", "x_name", "x_value", "y_value_50")
_SAME_CASE = (
    *("kernel_name", "kernel_provider", "kernel_operation_mode", "x_name", "x_value", "extra_benchmark_config_str"),
    *("gpu_name", "liger_version"),
)
_PASSES = {
    "forward": Pass.FORWARD,
    "no-grad-forward": Pass.FORWARD,
    "backward": Pass.BACKWARD,
    "full": Pass.FORWARD_BACKWARD,
}
_DTYPES = {"torch.bfloat16": "bf16", "torch.float16": "fp16", "torch.float32": "fp32", "torch.float64": "fp64"}
_UNITS = {
    ("speed", "s"): ("time_s", "s", 1.0),
    ("speed", "ms"): ("time_s", "s", 1e-3),
    ("speed", "us"): ("time_s", "s", 1e-6),
    ("memory", "KB"): ("max_allocated_bytes", "byte", 2.0**10),
    ("memory", "MB"): ("max_allocated_bytes", "byte", 2.0**20),
    ("memory", "GB"): ("max_allocated_bytes", "byte", 2.0**30),
}

_TIME = "speed"

_Line = tuple[int, Mapping[str, str]]


def recognises(head: str) -> bool:
    columns = head.split("\n", 1)[0].strip().removeprefix("\ufeff").split(",")
    return set(_NEEDED) <= set(columns)


def read(source: Source, intake: Intake) -> None:
    groups: list[dict[str, _Line]] = []
    newest: dict[tuple[str, ...], dict[str, _Line]] = {}
    versions = set()
    for number_, row in _rows(source):
        key = tuple(row.get(column, "") for column in _SAME_CASE)
        metric = row["metric_name"]
        if key not in newest or metric in newest[key]:
            newest[key] = {}
            groups.append(newest[key])
        newest[key][metric] = (number_, row)
        versions.add(row.get("liger_version", ""))
    version = versions.pop() if len(versions) == 1 else None
    tool = Tool("liger", version or None, "How fast are Liger's kernels, and how much memory do they take, beside others?")
    take_in(source, intake, tool, [_row(group) for group in groups])


def _rows(source: Source) -> Iterator[_Line]:
    reader = csv.reader(source.text_lines(), strict=True)
    try:
        names = next(reader, [])
        missing = [name for name in _NEEDED if name not in names]
        if missing:
            source.refuse(f"no line of column names: {', '.join(missing)} is missing", number=1)
        for row in reader:
            if len(row) != len(names):
                source.refuse(f"{len(row)} fields where the first line names {len(names)} columns")
            if reader.line_num > MAX_ROWS:
                source.refuse(f"the file holds more than {MAX_ROWS} lines: split it")
            yield reader.line_num, dict(zip(names, row, strict=True))
    except csv.Error as error:
        source.refuse(f"not valid CSV ({error})")


def _row(group: Mapping[str, _Line]) -> ForeignRow:
    lines = [number_ for number_, _ in group.values()]
    said = [dict(row) for _, row in group.values()]
    first = said[0]
    mode = first.get("kernel_operation_mode", "")
    measurements = tuple(found for row in said for found in _measurements(row))
    config = _config(first.get("extra_benchmark_config_str", ""))
    dtype = config.pop("dtype", None)
    gpu = first.get("gpu_name", "")
    version = first.get("liger_version", "")
    times = sorted(time for row in said if (time := moment(row.get("timestamp"))) is not None)
    return ForeignRow(
        place=f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}",
        said={"lines": said},
        workload=text(first["kernel_name"]),
        subject={text(first["kernel_name"]): text(first["kernel_provider"])},
        measurements=measurements,
        params={**config, text(first["x_name"]): _value(first["x_value"]), **({"operation_mode": mode} if mode else {})},
        pass_=_PASSES.get(mode),
        dtype=_DTYPES.get(str(dtype), text(scalar(dtype))),
        device="cuda" if gpu.startswith("NVIDIA") else UNKNOWN,
        hard={"gpu_model": gpu} if gpu else {},
        revision=(RevisionItem("liger-kernel", "package", version),) if version else (),
        started_at=times[0] if times else None,
        failure=_failure(said, measurements),
    )


def _measurements(row: Mapping[str, str]) -> tuple[Measurement, ...]:
    metric, unit = row["metric_name"], row["metric_unit"]
    name, ours, factor = _UNITS.get((metric, unit), (f"liger:{metric}", unit, 1.0))
    middle = number(row["y_value_50"])
    if middle is None:
        return ()
    low, high = number(row.get("y_value_20")), number(row.get("y_value_80"))
    if low is None or high is None:
        spread = "the spread is not told"
    elif low == middle == high:
        spread = "its 20 % and 80 % are the same number: one sample, or samples without spread"
    else:
        spread = f"20 % {low * factor:.6g}, 80 % {high * factor:.6g}"
        if not low <= middle <= high:
            spread += ", between which its median is not: the source contradicts itself"
    note = f"one number, the median of calls whose count is not told; {spread}"
    if name == "max_allocated_bytes":
        note += "; everything allocated on the device, inputs included"
    return measured(name, ours, [middle * factor], note=note)


def _config(told: str) -> dict[str, Scalar]:
    if not told:
        return {}
    try:
        data = parsed(told.encode("utf-8", "surrogatepass"), finite=True)
    except ValueError:
        data = told
    if not isinstance(data, dict):
        return {} if data is None else {"extra_benchmark_config": scalar(data)}
    return {name: scalar(value) for name, value in data.items()}


def _value(told: str) -> Scalar:
    """A size as the number that it spells, else its text."""
    try:
        return scalar(int(told))
    except ValueError:
        found = number(told)
        return told if found is None else found


def _failure(said: Sequence[Mapping[str, str]], measurements: Sequence[Measurement]) -> tuple[Status, str] | None:
    """Why a row whose lines tell no time that is known is not ok; None leaves the word to what is said of all tools' rows."""
    if not measurements:
        return Status.INVALID, _no_number(said)
    strange = [row for row in said if row["metric_name"] == _TIME and (_TIME, row["metric_unit"]) not in _UNITS]
    if not strange or any(one.metric == "time_s" for one in measurements):
        return None
    known = ", ".join(unit for metric, unit in _UNITS if metric == _TIME)
    return Status.INVALID, f"its {_TIME} is in {strange[0]['metric_unit'][:40]!r}, which is no time that is known here: {known}"


def _no_number(said: Sequence[Mapping[str, str]]) -> str:
    told = "; ".join(f"of {row['metric_name']}: {row['y_value_50']!r}" for row in said)
    return f"the source holds no number that can be one {told}"[:500]
