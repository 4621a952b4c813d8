"""Literal records for tests: a case, a result, a run, each with every field that can be overridden by keyword."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

from bench.metrics import METRICS
from bench.records import (
    Case,
    Check,
    Cost,
    Environment,
    Measurement,
    Pass,
    Proof,
    Result,
    RevisionItem,
    Run,
    RunState,
    Status,
    Trial,
)

_ids = itertools.count(1)


def fresh_id(prefix: str) -> str:
    return f"{prefix}-{next(_ids):06d}"


def case(subject: str = "eager", *, seq_len: int = 128, **changes: Any) -> Case:
    made = Case(
        workload="attention",
        workload_version=1,
        subject={"attention": subject},
        pass_=Pass.FORWARD,
        dtype="fp32",
        device="cpu",
        cache="warm",
        timer="wall",
        params={
            "model": "tiny", "heads": 4, "kv_heads": 2, "head_dim": 32, "seq_len": seq_len, "batch": 1, "mask": "causal", "dropout": 0.0,
        },
    )  # fmt: skip
    return dataclasses.replace(made, **changes)


def environment(**soft: Any) -> Environment:
    return Environment(
        hard={"device": "cpu", "cpu_model": "Test CPU", "threads": 1},
        soft={"python": "3.11.7", "package:torch": "2.13.0+cpu", **soft},
    )


def measurement(metric: str = "time_s", samples: tuple[float, ...] = (1.0e-3, 1.1e-3, 1.2e-3), **changes: Any) -> Measurement:
    return dataclasses.replace(Measurement(metric, METRICS[metric].unit, samples), **changes)


def result(
    run_id: str = "run-1", of: Case | None = None, *, index: int = 0, time_s: float = 1e-3, peak: float = 2**20, **changes: Any
) -> Result:
    status = changes.get("status", Status.OK)
    measured = status is Status.OK
    made = Result(
        id=fresh_id("result"),
        run_id=run_id,
        trial=Trial(of or case(), index=index, block=0, position=index),
        status=status,
        reason=None if measured else f"because it is {status}",
        environment=environment(),
        started_at="2026-01-02T03:04:05+00:00",
        duration_s=0.5,
        seed=7,
        command="bench run suites/attention.yaml --profile cpu",
        measurements=(
            measurement("time_s", (time_s, time_s * 1.01, time_s * 1.02)),
            measurement("peak_bytes", (float(peak),)),
        )
        if measured
        else (),
        checks=(Check("out", "small", 1e-7, 1e-7, 2e-7, True),) if measured else (),
        proof=Proof("proved", ("aten::bmm",)) if measured else None,
        cost=Cost(flops=1_000_000, bytes=4096, tokens=128),
        conditions={"load_1min": 0.5},
        log="hello from the trial\n",
        harness_version="0.1.0",
    )
    return dataclasses.replace(made, **changes)


def run(**changes: Any) -> Run:
    made = Run(
        id=fresh_id("run"),
        suite="attention",
        suite_file="suites/attention.yaml",
        suite_data={"schema": 1, "name": "attention"},
        options={},
        question="Which attention kernel should a decoder use at each context length?",
        seed=7,
        command="bench run suites/attention.yaml",
        device="cpu",
        started_at="2026-01-02T03:04:00+00:00",
        state=RunState.FINISHED,
        planned_trials=1,
        revision=(RevisionItem("stepbench", "path", "0.1.0", "0" * 40, False),),
        finished_at="2026-01-02T03:05:00+00:00",
        harness_version="0.1.0",
    )
    return dataclasses.replace(made, **changes)
