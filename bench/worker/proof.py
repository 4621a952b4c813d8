"""Proves which kernel ran: names that the profiler saw against the patterns that the implementation declares."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from bench.declare import Implementation, ProofPatterns
from bench.records import Proof
from bench.worker.step import PASS_MARK
from bench.worker.timing import Timed

MOST_NAMES = 200
LONGEST_NAME = 300

_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
"""What the device does, in the profiler's words. It also lists waits for events, and our own marks mirrored on the device's time line."""

_GRAPH = re.compile(r"(?<=CompiledFxGraph )\w+")
"""A compiled graph is named by a hash in base 32, in which any short word of a pattern turns up some day: 'fmha5g…' did."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What one call ran: each name once, in order of appearance."""

    ops: tuple[str, ...]
    kernels: tuple[str, ...]
    kernels_per_call: int | None
    """Kernels, copies and fills that the device ran for the timed part alone; None where none can be seen."""


def observe(step: Timed, *, cuda: bool) -> Observation:
    """One call under the profiler.

    A backward's untimed forward is observed as well, since kernels are mostly declared by their forward's name; it is not counted.
    """
    activities = [torch.profiler.ProfilerActivity.CPU]
    if cuda:
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profile:
        step.prepare()
        if cuda:
            torch.cuda.synchronize()  # what the device still did for the forward would be counted
        with torch.profiler.record_function(PASS_MARK):
            kept = step()
        if cuda:
            torch.cuda.synchronize()
    del kept
    return observation(profile.profiler.kineto_results.events())


def observation(events: Iterable[Any]) -> Observation:
    """What the profiler's events say; those of the device count from the mark on."""
    ops: dict[str, None] = {}
    kernels: dict[str, None] = {}
    began: int | None = None
    starts: list[int] = []
    for event in events:
        name = event.name()
        on_device = event.device_type().name == "CUDA"
        if name == PASS_MARK:
            began = began if on_device else event.start_ns()
        elif on_device:
            if _is_work(event):
                kernels[name] = None
                starts.append(event.start_ns())
        elif name != "[memory]" and not name.startswith("autograd::engine"):
            ops[_GRAPH.sub("…", name)] = None
    counted = sum(start >= began for start in starts) if began is not None and starts else None
    return Observation(tuple(ops), tuple(kernels), counted)


def _is_work(event: Any) -> bool:
    """Whether the device computed, copied or filled something. Releases that do not tell kinds are judged by name."""
    kind = getattr(event, "activity_type", None)
    return (
        kind() in _WORK
        if kind is not None
        else not (event.is_user_annotation() or " Sync" in event.name() or "Wait" in event.name())
    )


def judge(patterns: ProofPatterns, ops: Iterable[str], kernels: Iterable[str]) -> Proof:
    """`proved` when every positive pattern is met and no forbidden one.

    Where the profiler shows no device kernels, operators can still disprove; `unknown` is what nothing contradicts.
    """
    ops, kernels = tuple(ops), tuple(kernels)
    if not (ops or kernels):
        return Proof("unknown", (), "the profiler reported nothing")
    unseen = bool(patterns.kernels) and not kernels
    met: list[str] = []
    faults: list[str] = []
    for kind, expressions, names in (("kernel", () if unseen else patterns.kernels, kernels), ("op", patterns.ops, ops)):
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
    if unseen:
        return Proof("unknown", _shown(ops), "the profiler reported no device kernels")
    return Proof("proved", _shown(dict.fromkeys(met)))


def judge_all(
    implementations: Mapping[str, Implementation],
    device: str,
    ops: Iterable[str],
    kernels: Iterable[str],
    states: Mapping[str, Proof] | None = None,
) -> Proof:
    """The proof of a whole subject: every slot's patterns hold, and `states`, what its state says of a slot.

    `not_declared` where there is neither for this device. Where several slots are watched, one may do what another must not: then only
    what must be there is asked for.
    """
    ops, kernels = tuple(ops), tuple(kernels)
    alone = len(implementations) == 1
    declared = {slot: impl.proof[device] for slot, impl in implementations.items() if device in impl.proof}
    if not alone:
        declared = {slot: replace(patterns, not_=()) for slot, patterns in declared.items() if patterns.ops or patterns.kernels}
    proofs = [(slot, judge(patterns, ops, kernels)) for slot, patterns in declared.items()] + list((states or {}).items())
    if not proofs:
        return Proof("not_declared", _shown(kernels or ops))
    for verdict in ("disproved", "unknown"):
        for slot, found in proofs:
            if found.verdict == verdict:
                return found if alone and not states else replace(found, detail=f"{slot}: {found.detail}")
    return Proof("proved", _shown(dict.fromkeys(name for _, found in proofs for name in found.observed)))


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 3] + "..."


def _shown(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(_short(name) for name in names)[:MOST_NAMES]
