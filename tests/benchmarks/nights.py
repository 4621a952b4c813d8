"""Databases like those of a nightly job: runs of 500 results with 22 metrics and some hundred samples each."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

from bench.metrics import METRICS
from bench.records import Measurement, Result, Run
from bench.store import new_id
from tests import factories

RESULTS = 500
METRICS_EACH = 22


def run_of_night(night: int) -> Run:
    return factories.run(
        id=new_id(), started_at=f"2026-{1 + night // 28:02d}-{1 + night % 28:02d}T00:00:00+00:00", planned_trials=RESULTS
    )


def results_of(run: Run, count: int = RESULTS) -> Iterator[Result]:
    """Five trials of a hundred cases, and so on; numbers are drawn from the night, levels of cases from its place among them."""
    draw = random.Random(run.started_at)
    names = [name for name in METRICS if name != "time_s"][: METRICS_EACH - 1]
    environment = factories.environment()
    cases = [
        factories.case(subject, seq_len=2**power, params=dict(factories.case().params) | {"seq_len": 2**power, "batch": batch})
        for subject in ("eager", "sdpa_math", "sdpa_flash", "flex", "flash_attn2")
        for power in range(7, 12)
        for batch in (1, 2, 4, 8)
    ]
    for number in range(count):
        time_s = 1e-5 * (1 + number % len(cases)) * draw.uniform(1, 1.02)
        measured = [Measurement("time_s", "s", tuple(time_s * draw.uniform(1, 1.1) for _ in range(60)))]
        for name in names:
            samples = tuple(draw.uniform(1, 2) for _ in range(60 if name in ("sm_clock_hz", "cycles") else 1))
            measured.append(Measurement(name, METRICS[name].unit, samples))
        case = cases[number % len(cases)]
        made = factories.result(run.id, case, index=number // len(cases), environment=environment, measurements=tuple(measured))
        yield dataclasses.replace(made, id=new_id())
