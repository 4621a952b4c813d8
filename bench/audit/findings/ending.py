"""How the script ended, where that was not by the probe's hand, and whether it updated anything at all."""

from __future__ import annotations

from collections.abc import Iterator

from bench.audit.finding import Finding, look, wrong
from bench.audit.whole import Audit
from bench.audited import ENDS


def find(audit: Audit) -> Iterator[Finding]:
    bad = next((one for one in audit.ranks if one.ended.how in ("raised", "interrupted")), None) or next(
        (one for one in audit.ranks if one.ended.how == "running"), None
    )
    if bad is not None:
        what = f"{bad.ended.error_type}: {bad.ended.message}" if bad.ended.error_type else ENDS.get(bad.ended.how, bad.ended.how)
        rank = f" on rank {bad.rank}" if len(audit.ranks) > 1 else ""
        memory = "ran out of memory" if bad.ended.out_of_memory else "failed by itself"
        lead = "the script was interrupted" if bad.ended.how == "interrupted" else f"the script {memory}{rank} ({what})"
        yield wrong("ending", lead, status=audit.status)
    elif audit.status:
        yield wrong("ending", f"the command ended with {audit.ended}", status=audit.status)
    if not audit.trained:
        why = "no Python process with torch was seen" if not audit.ranks else "no torch optimizer made a step"
        yield wrong(
            "no_update", f"no update of weights was seen: {why}", "audit the command that trains, with at least a few updates"
        )
        return
    steps = audit.steps
    if steps is not None and not steps.timed_s:
        yield look(
            "no_timed_step",
            f"the script ended after {steps.seen} updates, before one could be timed undisturbed",
            "give it more data or more steps",
            updates=steps.seen,
        )
    if audit.earlier:
        yield look(
            "several_trainings", f"the command made {audit.earlier + 1} trainings; told is the longest", trainings=audit.earlier + 1
        )
