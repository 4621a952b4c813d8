"""Steps that are shared out among ranks, as an H200 might have measured them: the memory model's peaks, a little off, rank by rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import cache
from typing import Any

from bench.metrics import PEAK_CAUSES
from bench.plan.predict import predict
from bench.plan.spec import model_named
from bench.plan.stored import PREDICTED, foretold_of
from bench.plan.terms import Prediction
from bench.records import Case, Cost, Json, Measurement, Pass, Result, Run, Status
from bench.report.numbers.predicted import MEASURED_AS
from tests import factories
from tests.report.step_sample import ENVIRONMENT

SLOTS = {
    "attention": "sdpa_flash", "rms_norm": "eager", "rope": "eager", "swiglu": "eager", "linear_cross_entropy": "eager",
    "linear": "plain", "optimizer": "adamw_fused", "compile": "none", "checkpointing": "none", "precision": "bf16_master",
    "adaptation": "full", "qat": "none", "offloading": "none", "sharding": "none",
}  # fmt: skip
HIGHER = 1.02
"""Measured over predicted."""
SLOWER = {"none": 1.0, "ddp": 1.05, "zero1": 1.10, "zero2": 1.12, "zero3": 1.30, "fsdp2": 1.20}
"""A step beside plain PyTorch's on one rank; on several it takes a tenth longer for each further one."""
TOKENS = 4096
Made = tuple[Run, list[Result]]


def shared_case(sharding: str, ranks: int, *, model: str = "llama-3.2-1b", layers: int | None = None, **params: Any) -> Case:
    """A step of a published model, or of one with so many of its layers."""
    sizes = asdict(model_named(model))
    del sizes["name"]
    sizes["layers"] = layers or sizes["layers"]
    given = {**sizes, "model": model, "seq_len": 2048, "batch": 2, "accumulation": 1, "clip_norm": 1.0, "zero_options": "defaults"}
    case = Case("train_step", 1, {**SLOTS, "sharding": sharding}, Pass.STEP, "bf16", "cuda", "cold", "wall", {**given, **params})
    return replace(case, world_size=ranks)


@cache
def _foretold(sharding: str, ranks: int, model: str, layers: int | None) -> Prediction:
    case = shared_case(sharding, ranks, model=model, layers=layers)
    return predict({**case.params, "world_size": ranks}, case.subject)


def shared_run(
    shardings: Sequence[str] = ("ddp", "zero1", "zero2", "zero3"),
    ranks: Sequence[int] = (1, 2),
    layers: Sequence[int | None] = (None,),
    *,
    model: str = "llama-3.2-1b",
    trials: int = 3,
    with_phases: bool = True,
) -> Made:
    """All of these. `with_phases`: whether rows keep what was foretold of each phase, as those of older versions do not."""
    data = {
        "schema": 1, "name": "shared", "workload": "train_step", "defaults": SLOTS, "subjects": {"sharding": list(shardings)},
        "baseline": {**SLOTS, "sharding": shardings[0]},
    }  # fmt: skip
    run = factories.run(id="run-shared", suite="shared", device="cuda", question="What does each stage save?", suite_data=data)
    rows = []
    for sharding in shardings:
        for count in ranks if sharding != "none" else (1,):
            for depth in layers:
                case = shared_case(sharding, count, model=model, layers=depth)
                foretold = _foretold(sharding, count, model, depth)
                rows += [_row(run, case, foretold, index, with_phases) for index in range(trials)]
    return replace(run, planned_trials=len(rows)), rows


def _row(run: Run, case: Case, foretold: Prediction, index: int, with_phases: bool) -> Result:
    kept: dict[str, Json] = foretold_of(case)
    if not with_phases:
        kept = {PREDICTED: {name: value for name, value in kept[PREDICTED].items() if name != "phases"}}
    measurements = tuple(_measured(case, foretold, 1 + 0.002 * index))
    return factories.result(
        run.id, case, index=index, environment=ENVIRONMENT, measurements=measurements, log="", cost=Cost(flops=10**13, tokens=TOKENS),
        conditions={**kept, "shared_out": "states", "kept_whole": "weights"},
    )  # fmt: skip


def _measured(case: Case, foretold: Prediction, factor: float) -> Iterator[Measurement]:
    """Of the last rank, which holds most and is the slowest, as of the trial; other ranks hold an eighth less."""
    ranks = case.world_size
    time_s = 0.1 * SLOWER[case.subject["sharding"]] * (1 + 0.1 * (ranks - 1)) * factor
    phases = foretold.by_phase()
    sizes = {
        "peak_total_bytes": HIGHER * foretold.peak_bytes,
        "peak_bytes": 0.4 * foretold.peak_bytes,
        **{f"{name}_peak_bytes": HIGHER * max(phases[part] for part in parts) for name, parts in MEASURED_AS.items()},
        **{f"peak_{cause}_bytes": HIGHER * foretold.peak.by_category().get(cause, 0) for cause, _ in PEAK_CAUSES},
    }
    yield factories.measurement("time_s", tuple(time_s * (1 + 0.001 * n) for n in range(30)))
    yield from (Measurement(name, "byte", (float(size),)) for name, size in sizes.items())
    sent = {"all_gather_bytes": 2e9, "communicated_bytes": 2e9 * (ranks - 1) / ranks}
    yield from (Measurement(name, "byte", (size,)) for name, size in sent.items())
    yield Measurement("exposed_communication_share", "ratio", (0.04 * (ranks - 1) * SLOWER[case.subject["sharding"]],))
    for rank in range(ranks) if ranks > 1 else ():
        share = 1.0 if rank == ranks - 1 else 0.875
        yield factories.measurement("time_s", (time_s * share,) * 3, scope=f"rank:{rank}")
        yield from (Measurement(name, "byte", (size * share,), scope=f"rank:{rank}") for name, size in sizes.items())


def longer(made: Made, seq_lens: Sequence[int]) -> Made:
    """The same at each of these lengths; what was foretold and measured is not what it would be there."""
    run, rows = made
    copies = [_at(row, seq_len) for seq_len in seq_lens for row in rows]
    data = {**run.suite_data, "sweep": {"seq_len": list(seq_lens), "world_size": [1, 2]}}
    return replace(run, suite_data=data, planned_trials=len(copies)), copies


def _at(row: Result, seq_len: int) -> Result:
    case = replace(row.case, params={**row.case.params, "seq_len": seq_len})
    return replace(row, id=f"{row.id}-{seq_len}", trial=replace(row.trial, case=case))


def out_of_memory(made: Made, sharding: str, ranks: int, **params: int) -> Made:
    """The same where these cases did not fit."""
    run, rows = made

    def fits(case: Case) -> bool:
        there = all(case.params[name] == value for name, value in params.items())
        return not (case.subject["sharding"] == sharding and case.world_size == ranks and there)

    return run, [
        row if fits(row.case) else replace(row, status=Status.OOM, reason="out of memory", measurements=(), cost=None)
        for row in rows
    ]
