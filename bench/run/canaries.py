"""Canaries: fixed cases without any technique's code, measured in every run on a GPU before everything else.

They answer two questions that a row cannot answer itself. What does this machine reach (the ceilings that shares are taken of)? And,
when many rows have moved since the last run: has the machine moved too? On a CPU there are none: its ceilings depend too much on
what else the machine is doing.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.records import Case, Pass, fingerprint

MATMUL_SIZE = 8192
COPY_ELEMENTS = 2**30
WORKLOADS = ("matmul", "copy")
COPY_DTYPE = "bf16"
MOST_TRIALS = 5
"""More processes of a canary tell no more of the machine, however many the suite's own cases have."""


def canary_cases(cases: Sequence[Case]) -> tuple[Case, ...]:
    """The canaries of a run of `cases`: a large matrix product in each dtype that occurs on CUDA, and one large copy."""
    from bench.catalogue import load_catalogue

    dtypes = dict.fromkeys(case.dtype for case in cases if case.device == "cuda")
    if not dtypes:
        return ()
    known = load_catalogue().workloads
    product = dict.fromkeys(("m", "n", "k"), MATMUL_SIZE)
    wanted = [("matmul", "torch_matmul", dtype, product) for dtype in dtypes]
    wanted.append(("copy", "torch_copy", COPY_DTYPE, {"elements": COPY_ELEMENTS}))
    planned = {case.key for case in cases}
    canaries = [
        Case(
            workload=name,
            workload_version=known[name].version,
            subject={name: implementation},
            pass_=Pass.FORWARD,
            dtype=dtype,
            device="cuda",
            cache="cold",
            timer="events",
            params=params,
        )
        for name, implementation, dtype, params in wanted
    ]
    return tuple(case for case in canaries if case.key not in planned)


def canary_arm(gpu_uuid: str) -> str:
    """The arm of a GPU's canaries where several GPUs measure one run: each measures its own, under a word that tells nobody's UUID."""
    return f"gpu-{fingerprint(gpu_uuid)[:8]}"


def is_canary(case: Case, workload: str) -> bool:
    """Whether a row of a suite on `workload` is there only to show the machine."""
    return case.workload in WORKLOADS and case.workload != workload
