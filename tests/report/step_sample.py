"""Training steps of a small decoder: parts of the step, the peak by cause with its timeline, states and errors, and who rounds more."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from bench.records import Case, Check, Cost, Environment, Json, Measurement, Pass, Result, Run
from tests import factories

MIB = 2**20
DEFAULTS = {"attention": "eager", "layers": "eager", "checkpointing": "none", "optimizer": "adamw"}
ARMS: tuple[Mapping[str, str], ...] = (
    {},
    {"attention": "sdpa_flash"},
    {"attention": "sdpa_flash", "layers": "liger"},
    {"checkpointing": "full"},
    {"optimizer": "adamw8bit"},
)
SUITE = {
    "schema": 1,
    "name": "train_step",
    "workload": "train_step",
    "defaults": DEFAULTS,
    "arms": [dict(arm) for arm in ARMS],
    "baseline": DEFAULTS,
    "sweep": {"seq_len": [1024, 2048, 4096]},
}
ENVIRONMENT = Environment({"device": "cuda", "gpu_model": "NVIDIA H200", "mig": None}, {"l2_bytes": 60 * MIB})
RESIDENT = ("parameters", "optimizer_states", "inputs")
TOLERATED = "relative root mean square, against the tolerance that the implementation declares"


def step_case(arm: Mapping[str, str], seq_len: int) -> Case:
    return Case("train_step", 1, {**DEFAULTS, **arm}, Pass.STEP, "bf16", "cuda", "cold", "events",
                {"model": "small", "seq_len": seq_len, "batch": 1})  # fmt: skip


def causes_of(arm: Mapping[str, str], seq_len: int) -> dict[str, float]:
    """Bytes of the peak by cause: states of 8 bits are a quarter, checkpointing keeps inputs instead of activations."""
    kept = seq_len * (0.9 if "attention" in arm else 1.4) * MIB / 4
    checkpointed = arm.get("checkpointing") == "full"
    return {
        "parameters": 240.0 * MIB,
        "gradients": 240.0 * MIB,
        "optimizer_states": (120.0 if arm.get("optimizer") == "adamw8bit" else 480.0) * MIB,
        "inputs": 0.5 * MIB,
        "checkpoints": kept / 8 if checkpointed else 0.0,
        "saved_activations": kept / 6 if checkpointed else kept,
        "loss": seq_len * 0.06 * MIB,
        "temporaries": seq_len * 0.03 * MIB,
        "other_residents": 8.0 * MIB,
        "allocator_slack": 3.0 * MIB,
        "unattributed": 0.0,
    }


def explained_of(causes: Mapping[str, float], moments: int = 60) -> Json:
    """A step in which activations grow, are given back while gradients come, and states are read at the end."""
    timeline = []
    for number in range(moments):
        share = number / (moments - 1)
        phase = "forward" if share < 0.3 else "loss" if share < 0.35 else "backward" if share < 0.85 else "optimizer"
        held = min(share / 0.33, 1.0) if share < 0.35 else max(0.0, (0.85 - share) / 0.5)
        alive = {name: causes[name] for name in ("parameters", "optimizer_states", "inputs", "other_residents")}
        alive |= {name: causes[name] * held for name in ("saved_activations", "checkpoints")}
        alive["gradients"] = causes["gradients"] * min(1.0, max(0.0, (share - 0.35) / 0.5))
        if 0.3 <= share <= 0.4:
            alive |= {name: causes[name] for name in ("loss", "temporaries")}
        timeline.append({"at_s": round(share * 0.08, 6), "phase": phase, "bytes": {k: int(v) for k, v in alive.items() if v}})
    temporaries = [{"where": "aten::mm in modeling_llama.py(95): forward", "bytes": int(causes["temporaries"] * 0.75)},
                   {"where": "all others", "bytes": int(causes["temporaries"] * 0.25)}]  # fmt: skip
    return {"phase": "loss", "peak_bytes": int(sum(causes.values())), "temporaries": temporaries, "timeline": timeline}


def step_result(run_id: str, case: Case, arm: Mapping[str, str], index: int, **changes: Any) -> Result:
    seq_len = int(str(case.params["seq_len"]))
    factor = (0.8 if "attention" in arm else 1.0) * (0.9 if arm.get("layers") == "liger" else 1.0)
    factor *= 1.3 if arm.get("checkpointing") == "full" else 1.0
    time_s = seq_len * 8e-6 * factor * (1 + 0.004 * index)
    causes = causes_of(arm, seq_len)
    total = sum(causes.values())
    tolerated = arm.get("optimizer") == "adamw8bit"
    values = {
        "time_s": time_s, "forward_s": time_s * 0.31, "backward_s": time_s * 0.6, "optimizer_s": time_s * 0.11,
        "peak_bytes": total - sum(causes[name] for name in RESIDENT), "peak_total_bytes": total, "state_bytes": causes["optimizer_states"],
        "update_error": 0.021 if tolerated else 0.0004,
    }  # fmt: skip
    measurements = [factories.measurement(name, (value,) * (30 if name == "time_s" else 1)) for name, value in values.items()]
    measurements += [Measurement(f"peak_{cause}_bytes", "byte", (float(value),)) for cause, value in causes.items()]
    given: dict[str, Any] = {
        "environment": ENVIRONMENT,
        "cost": Cost(flops=seq_len * 30_000_000_00, tokens=seq_len),
        "measurements": tuple(measurements),
        "checks": (Check("update", "small", 0.02, 0.0004, 0.03, True, TOLERATED if tolerated else None),),
        "conditions": {"memory_explained": explained_of(causes)} if index == 0 else {},
        **changes,
    }
    return factories.result(run_id, case, index=index, **given)


def step_run(trials: int = 3, sizes: Sequence[int] = (1024, 2048, 4096)) -> tuple[Run, list[Result]]:
    """A finished run of five arms."""
    run = factories.run(
        id="run-s", suite="train_step", device="cuda", suite_data=SUITE, question="What saves most of a training step?"
    )
    rows = [step_result(run.id, step_case(arm, size), arm, index) for size in sizes for arm in ARMS for index in range(trials)]
    return dataclasses.replace(run, planned_trials=len(rows)), rows


def quantized_run(trials: int = 3) -> tuple[Run, list[Result]]:
    """One linear layer, plain and in formats that err: plain is 0.17 % off, as its dtype is; int8 is fastest, nf4 is smallest."""
    names = {"plain": (1.00, 64, 0.0017), "int8": (0.62, 34, 0.021), "nf4": (1.45, 18, 0.091), "plain_other": (0.97, 66, 0.0018)}
    run = factories.run(id="run-q", suite="quantization", suite_data={"baseline": {"linear": "plain"}, "workload": "linear"},
                        question="How fast, how small and how far off is a linear layer in each quantized format?")  # fmt: skip
    rows = []
    for name, (time_ms, held_mib, error) in names.items():
        case = dataclasses.replace(factories.case(), workload="linear", subject={"linear": name}, params={"tokens": 64})
        for index in range(trials):
            detail = None if name.startswith("plain") else TOLERATED
            measurements = (
                factories.measurement("time_s", (time_ms * 1e-3 * (1 + 0.002 * index),) * 30),
                factories.measurement("peak_bytes", (held_mib * 0.25 * MIB,)),
                factories.measurement("weight_bytes", (float(held_mib * MIB),)),
                *((factories.measurement("output_error", (error,)),) if index == 0 else ()),
            )
            checks = (Check("out", "small", error, 0.0017, 0.1, True, detail),)
            rows.append(factories.result(run.id, case, index=index, measurements=measurements, checks=checks))
    return dataclasses.replace(run, planned_trials=len(rows)), rows
