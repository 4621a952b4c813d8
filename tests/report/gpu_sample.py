"""A run on a GPU that reaches 700 TFLOP/s and 4 TB/s, with its canaries, and three attention kernels beside them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from bench.records import Case, Cost, Environment, Result, Run
from bench.run.canaries import COPY_ELEMENTS, MATMUL_SIZE, canary_cases
from tests import factories

SUITE = {
    "schema": 1,
    "name": "attention",
    "workload": "attention",
    "subjects": {"attention": ["eager", "sdpa_flash", "flex"]},
    "baseline": {"attention": "sdpa_flash"},
    "sweep": {"seq_len": [1024, 2048, 4096]},
}
ENVIRONMENT = Environment(
    {"device": "cuda", "gpu_model": "NVIDIA H200", "mig": None}, {"l2_bytes": 60 * 2**20, "package:torch": "2.11.0"}
)
TFLOPS = {"eager": 20.0, "sdpa_flash": 350.0, "flex": 420.0}
CLOCK_HZ = 1.8e9


def gpu_case(subject: str, seq_len: int, **changes: Any) -> Case:
    made = factories.case(subject, seq_len=seq_len)
    return dataclasses.replace(made, device="cuda", dtype="bf16", cache="cold", timer="events", **changes)


def gpu_result(
    run_id: str, case: Case, index: int, time_s: float, cost: Cost, *, cycles: float | None = None, **changes: Any
) -> Result:
    peak = float(case.params["seq_len"]) ** (2 if case.subject_label == "eager" else 1) * 4096 if "seq_len" in case.params else 0.0
    clock = time_s * CLOCK_HZ if cycles is None else cycles
    measurements = (
        factories.measurement("time_s", (time_s,) * 30),
        factories.measurement("cycles", (clock,) * 30),
        factories.measurement("peak_bytes", (peak,)),
        factories.measurement("kernels_per_call", (3.0,)),
    )
    given: Mapping[str, Any] = {"environment": ENVIRONMENT, "cost": cost, "measurements": measurements, "conditions": {}, **changes}
    return factories.result(run_id, case, index=index, **given)


def gpu_run(
    trials: int = 3, sizes: Sequence[int] = (1024, 2048, 4096), subjects: Sequence[str] = tuple(TFLOPS)
) -> tuple[Run, list[Result]]:
    """A finished run; the clock moves by 2 % from trial to trial, and cycles are what they are."""
    results: list[Result] = []
    run = factories.run(id="run-g", device="cuda", suite_data=SUITE)
    for case in canary_cases([gpu_case("eager", 1024)]):
        cost = Cost(2 * MATMUL_SIZE**3, 400 * 2**20) if case.workload == "matmul" else Cost(0, 4 * COPY_ELEMENTS)
        seconds = (cost.flops or 0) / 700e12 if case.workload == "matmul" else (cost.bytes or 0) / 4e12
        results += [gpu_result(run.id, case, index, seconds, cost) for index in range(trials)]
    for size in sizes:
        for name in subjects:
            cost = Cost(size**2 * 100_000, 600 * 2**20, 16384)
            seconds = (cost.flops or 0) / (TFLOPS[name] * 1e12)
            results += [
                gpu_result(run.id, gpu_case(name, size), i, seconds * (1 + 0.02 * i), cost, cycles=seconds * CLOCK_HZ)
                for i in range(trials)
            ]
    return dataclasses.replace(run, planned_trials=len(results)), results
