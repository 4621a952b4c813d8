"""Ranks against each other: one that all others wait for, one that is fuller, one that said nothing."""

from __future__ import annotations

from collections.abc import Iterator

from bench.audit.finding import Finding, look, wrong
from bench.audit.whole import Audit
from bench.report.numbers import units

FULLER = 0.10


def find(audit: Audit) -> Iterator[Finding]:
    if audit.silent_ranks:
        missing = ", ".join(map(str, audit.silent_ranks))
        yield wrong("silent_ranks", f"ranks {missing} left no report", "their process ended otherwise, or runs on another machine")
    peaks = {one.rank: one.memory.peak_bytes for one in audit.ranks if one.memory is not None}
    if len(peaks) > 1:
        full, empty = max(peaks, key=lambda rank: peaks[rank]), min(peaks, key=lambda rank: peaks[rank])
        if peaks[full] > (1 + FULLER) * peaks[empty]:
            yield look(
                "uneven_ranks",
                f"rank {full} needs {units.size(peaks[full])}, rank {empty} {units.size(peaks[empty])}: the fullest decides what fits",
                peak_bytes=peaks[full],
                lowest_peak_bytes=peaks[empty],
            )
    waits = {one.rank: one.data.wait_share for one in audit.ranks if one.data is not None and one.data.wait_share is not None}
    if len(waits) > 1:
        slow = max(waits, key=lambda rank: waits[rank])
        if waits[slow] - min(waits.values()) > FULLER:
            yield look(
                "uneven_data", f"rank {slow} waits for data {units.percent(waits[slow])} of the time, and all others wait for it",
                waiting_share=waits[slow], lowest_waiting_share=min(waits.values()),
            )  # fmt: skip
