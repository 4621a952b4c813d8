"""How the script ended, where that was not by the probe's hand, and whether it updated anything at all."""

from __future__ import annotations

from collections.abc import Iterator

from bench.audit.finding import Finding, look, wrong
from bench.audit.whole import Audit
from bench.audited import Ended


def find(audit: Audit) -> Iterator[Finding]:
    bad = audit.failed or next((one for one in audit.ranks if one.ended.how == "running"), None)
    if bad is not None:
        rank = f" on rank {bad.rank}" if len(audit.ranks) > 1 else ""
        yield wrong("ending", f"the script {_failed(bad.ended, audit.ended)}{rank}{_said(bad.ended)}", status=audit.status)
    elif audit.status:
        yield wrong("ending", f"the command ended with {audit.ended}", status=audit.status)
    if not audit.trained:
        yield wrong(
            "no_update",
            f"no update of weights was seen: {_why_none(audit)}",
            "audit the command that trains, with at least a few updates",
        )
        return
    steps = audit.steps
    if steps is not None and not steps.timed_s:
        updates = "1 update" if steps.seen == 1 else f"{steps.seen} updates"
        silent = audit.first is not None and audit.first.ended.how == "running"
        yield look(
            "no_timed_step",
            f"the script was last heard of after {updates}, before any was timed"
            if silent
            else f"the script ended after {updates}, before one could be timed undisturbed",
            None if silent else "give it more data or more steps",
            updates=steps.seen,
        )
    if audit.earlier:
        yield look(
            "several_trainings", f"the command made {audit.earlier + 1} trainings; told is the longest", trainings=audit.earlier + 1
        )


def _failed(ended: Ended, command_ended: str) -> str:
    if ended.how == "interrupted":
        return "was interrupted"
    if ended.how == "running":
        return f"died without a word; the command ended with {command_ended}"
    return "ran out of memory" if ended.out_of_memory else "failed by itself"


def _said(ended: Ended) -> str:
    return f" ({ended.error_type}: {ended.message})" if ended.error_type and ended.how == "raised" else ""


def _why_none(audit: Audit) -> str:
    if not audit.ranks:
        return "no Python process with torch was seen"
    precision = audit.ranks[0].precision
    if precision is not None and precision.scaler_asked:
        return f"the scaler left out all {precision.scaler_asked} that it was asked for, since gradients overflow"
    return "no torch optimizer made a step"
