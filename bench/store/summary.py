"""The short form of published results: one object for each row of the matrix, for programs that need no samples."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench import stats
from bench.metrics import METRICS
from bench.records import Json, Result, Status
from bench.store.exchange import replacing


def summary_rows(results: Sequence[Result]) -> list[dict[str, Json]]:
    """One row for each case, arm and hard environment, in the order of first appearance. Excluded results don't count.

    `status` is `ok` where all trials are, else the most frequent of the others (`statuses` has all counts). `medians` are medians over
    the medians of the `ok` trials, in the units of the metrics; none where a trial was incorrect, since wrong numbers have no time.
    """
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        if result.excluded_reason is None:
            groups.setdefault((result.case.key, result.trial.arm, result.environment.hard_hash), []).append(result)
    return [_row(group) for group in groups.values()]


def write_summary(path: Path, results: Sequence[Result]) -> None:
    """Writes `summary_rows` as a gzipped JSON array, one row a line. Raises StoreError where `path` cannot be written."""
    lines = [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in summary_rows(results)]
    with replacing(path) as out:
        out.write(gzip.compress(("[\n" + ",\n".join(lines) + "\n]\n").encode(), mtime=0))


def _row(group: Sequence[Result]) -> dict[str, Json]:
    first = group[0]
    counts = Counter(result.status for result in group)
    others = [status for status in Status if status is not Status.OK and counts[status]]
    status = max(others, key=lambda one: counts[one]) if others else Status.OK
    row: dict[str, Json] = {
        "case": {**first.case.point_data(), "subject": dict(first.case.subject)},
        "status": status.value,
        "statuses": {one.value: counts[one] for one in Status if counts[one]},
        "world_size": first.case.world_size,
        "trials": len(group),
        "medians": {} if counts[Status.INCORRECT] else _medians(group),
        "command": first.command,
    }
    reason = next((result.reason for result in group if result.status is status and result.reason), None)
    if reason:
        row["reason"] = reason
    if first.trial.arm != "-":
        row["arm"] = first.trial.arm
    return row


def _medians(group: Sequence[Result]) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for result in group:
        if result.status is Status.OK:
            for m in result.measurements:
                if m.scope == "trial" and not (m.metric in METRICS and METRICS[m.metric].harness):
                    values.setdefault(m.metric, []).append(stats.median(m.samples))
    return {metric: stats.median(found) for metric, found in values.items()}
