"""A run with everything that a page must cope with: three passes, six sizes, every status, spread, doubts, two environments."""

from __future__ import annotations

import dataclasses
import random

from bench.declare import Workload
from bench.records import Check, Pass, Proof, Result, Run, Status
from tests import factories

SPEED = {"eager": 1.0, "sdpa_math": 0.8, "sdpa_flash": 0.3, "flex": 0.55}
SEQ_LENS = (128, 256, 512, 1024, 2048, 4096)
SUITE = {
    "schema": 1,
    "name": "attention",
    "subjects": {"attention": ["eager", "sdpa_math", "sdpa_flash", "flex", "flash_attn2", "other_kernel"]},
    "baseline": {"attention": "sdpa_flash"},
    "sweep": {"seq_len": list(SEQ_LENS), "pass": ["forward", "backward", "forward_backward"]},
    "protocol": {"trials": 5, "timeout_s": 120.0, "min_samples": 30},
}


def _ending(name: str, seq_len: int, pass_: Pass) -> tuple[Status, str] | None:
    if name == "flash_attn2":
        return Status.UNAVAILABLE, "flash-attn>=2.5 is not installed; pip install 'flash-attn>=2.5'"
    if name == "flex" and pass_ is not Pass.FORWARD:
        return Status.UNSUPPORTED, "NotImplementedError: torch.compile on a CPU only supports inference for flex_attention"
    if name == "eager" and seq_len >= 2048 and pass_ is not Pass.FORWARD:
        return Status.OOM, "MemoryError: could not allocate 4294967296 bytes"
    if name == "other_kernel":
        if seq_len < 1024:
            return Status.INCORRECT, "out: error 0.3 is above its limit 2e-07"
        return Status.CRASHED, "SIGSEGV in first_call"
    if name == "sdpa_math" and seq_len == 4096 and pass_ is Pass.BACKWARD:
        return Status.TIMEOUT, "no answer after 120 s, in sampling"
    return None


def everything(trials: int = 5, run: Run | None = None) -> tuple[list[Run], list[Result]]:
    """A run and its results, the same at every call but for ids that the caller may fix."""
    dice = random.Random(7)
    names = [*SPEED, "flash_attn2", "other_kernel"]
    made: list[Result] = []
    the_run = run or factories.run(
        id="run-a", suite_data=SUITE, planned_trials=len(names) * 3 * 6 * trials + 3, revision=(
            dataclasses.replace(factories.run().revision[0], dirty=True),), label="laptop")  # fmt: skip
    for pass_ in Workload.passes:
        for seq_len in SEQ_LENS:
            for name in names:
                case = factories.case(name, seq_len=seq_len, pass_=pass_)
                case = dataclasses.replace(case, params={**case.params, "batch": 4096 // seq_len, "kv_len": seq_len})
                for index in range(trials):
                    made.append(_result(the_run, case, name, index, dice, _ending(name, seq_len, pass_)))
    return [the_run], made


def _result(run: Run, case: object, name: str, index: int, dice: random.Random, ending: tuple[Status, str] | None) -> Result:
    from bench.records import Case

    assert isinstance(case, Case)
    seq_len = int(str(case.params["seq_len"]))
    scale = {Pass.FORWARD: 1.0, Pass.BACKWARD: 2.3, Pass.FORWARD_BACKWARD: 3.3}[case.pass_]
    noise = 1 + dice.random() * (0.3 if seq_len == 128 else 0.04)
    time_s = SPEED.get(name, 1.0) * scale * (8e-6 + 4.1e-9 * seq_len**1.8) * noise
    linear = name in ("sdpa_flash", "flex")
    peak = (seq_len * 2**11 if linear else seq_len**2 * 16) * (1.0 if case.pass_ is Pass.FORWARD else 2.0)
    samples = tuple(time_s * (1 + dice.random() * 0.05) for _ in range(40))
    common = {
        "id": f"0190-{name}-{case.pass_}-{seq_len}-{index}",
        "command": f"bench run suites/attention.yaml --profile cpu --filter attention={name} --filter seq_len={seq_len}"
        f" --filter pass={case.pass_}",
        "conditions": {"load_1min": {"min": 0.4, "median": 0.5 + index / 10, "max": 1.2}, "frequency_hz": 2.1e9,
                       "memory_available_bytes": 2**33, "busy_processes": [], "launch_bound": seq_len == 128},
        "environment": factories.environment(**({"package:triton": "3.7.1"} if name != "flex" else {"package:triton": "3.7.0"})),
    }  # fmt: skip
    if ending:
        status, reason = ending
        error = {"checks": (Check("out", "small", 0.3, 1e-7, 2e-7, False),)} if status is Status.INCORRECT else {}
        return factories.result(run.id, case, index=index, status=status, reason=reason, phase="first_call", **error, **common)
    measurements = (
        factories.measurement("time_s", samples),
        factories.measurement("peak_bytes", (float(peak),), note="what a kernel allocates outside torch is not seen"),
        factories.measurement("saved_bytes", (float(seq_len * 512),)),
        factories.measurement("compile_cold_s", (0.8 + index / 100,)),
        factories.measurement("overhead_s", (0.21 + index / 100,)),
    )
    checks = tuple(Check(t, "small", 1.1e-7, 1.0e-7, 2.4e-7, True) for t in ("out", "grad_q", "grad_k"))
    proof = Proof("proved", ("aten::bmm", "aten::_softmax"))
    if name == "flex":
        proof = Proof("unknown", detail="no profiler works here")
    return factories.result(run.id, case, index=index, measurements=measurements, checks=checks, proof=proof, **common)
