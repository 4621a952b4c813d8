"""Answers without a process what is known beforehand: refused by declaration, or not installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.records import Case, Reply, Status

PREFLIGHT = "preflight"
"""The phase of a row that needed no process."""

if TYPE_CHECKING:
    from bench.catalogue import Catalogue


def preflight(case: Case, catalogue: Catalogue) -> Reply | None:
    """`unsupported` or `unavailable` with the reason; None where the case has to be tried."""
    from bench.catalogue import missing_requirements

    workload = catalogue.workload(case.workload)
    implementations = {slot: catalogue.implementation(slot, name) for slot, name in case.subject.items()}
    for slot, implementation in implementations.items():
        if (refusal := implementation.declared_refusal(workload.seen_by(case, slot))) is not None:
            return Reply(Status.UNSUPPORTED, refusal, phase=PREFLIGHT)
    missing = [words for implementation in implementations.values() for words in missing_requirements(implementation)]
    if missing:
        return Reply(Status.UNAVAILABLE, "; ".join(missing), phase=PREFLIGHT)
    return None
