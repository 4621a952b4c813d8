"""Proves which kernel ran: names that the profiler saw against the patterns that the implementation declares."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch

from bench.declare import Implementation, ProofPatterns
from bench.records import Proof
from bench.worker.timing import Timed

MOST_NAMES = 200
LONGEST_NAME = 300


@dataclass(frozen=True, slots=True)
class Observation:
    """What one call ran: each name once, in order of appearance."""

    ops: tuple[str, ...]
    kernels: tuple[str, ...]
    kernels_per_call: int | None
    """Device kernels that were launched, copies and fills included; None where none can be seen."""


def observe(step: Timed, *, cuda: bool) -> Observation:
    """One call under the profiler.

    A backward's untimed forward is observed as well: kernels are mostly declared by their forward's name.
    """
    activities = [torch.profiler.ProfilerActivity.CPU]
    if cuda:
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities, acc_events=True) as profile:
        step.prepare()
        kept = step()
        if cuda:
            torch.cuda.synchronize()
    del kept
    ops: dict[str, None] = {}
    kernels: dict[str, None] = {}
    launched = 0
    for event in profile.profiler.kineto_results.events():
        name = event.name()
        if name == "[memory]" or name.startswith("autograd::engine"):
            continue
        on_device = event.device_type().name == "CUDA"
        (kernels if on_device else ops)[name] = None
        launched += on_device
    return Observation(tuple(ops), tuple(kernels), launched if kernels else None)


def judge(patterns: ProofPatterns, ops: Iterable[str], kernels: Iterable[str]) -> Proof:
    """`proved` when every positive pattern is met and no forbidden one; `unknown` when nothing was observed at all."""
    ops, kernels = tuple(ops), tuple(kernels)
    if (patterns.kernels and not kernels) or not (ops or kernels):
        return Proof("unknown", _shown(ops), "the profiler reported no device kernels" if ops else "the profiler reported nothing")
    met: list[str] = []
    faults: list[str] = []
    for kind, expressions, names in (("kernel", patterns.kernels, kernels), ("op", patterns.ops, ops)):
        for expression in expressions:
            found = [name for name in names if re.search(expression, name)]
            met.extend(found)
            if not found:
                faults.append(f"no {kind} matches {expression!r}")
    for expression in patterns.not_:
        found = [name for name in (*kernels, *ops) if re.search(expression, name)]
        met.extend(found)
        if found:
            faults.append(f"{_short(found[0])!r} ran, which {expression!r} forbids")
    if faults:
        return Proof("disproved", _shown(kernels or ops), "; ".join(faults))
    return Proof("proved", _shown(dict.fromkeys(met)))


def judge_all(implementations: Mapping[str, Implementation], device: str, ops: Iterable[str], kernels: Iterable[str]) -> Proof:
    """The proof of a whole subject: every slot's patterns hold. `not_declared` where no slot declares any for this device."""
    ops, kernels = tuple(ops), tuple(kernels)
    proofs = [judge(impl.proof[device], ops, kernels) for impl in implementations.values() if device in impl.proof]
    if not proofs:
        return Proof("not_declared", _shown(kernels or ops))
    worst = next((p for verdict in ("disproved", "unknown") for p in proofs if p.verdict == verdict), None)
    return worst or Proof("proved", _shown(dict.fromkeys(name for p in proofs for name in p.observed)))


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 3] + "..."


def _shown(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(_short(name) for name in names)[:MOST_NAMES]
