"""Makes one answer of several ranks' replies: the slowest rank of each call counts, and the rank at fault is named."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.records import METRICS, Measurement, Reply, Status
from bench.run.supervisor import End, Outcome
from bench.run.traces import Phase, RankFailure

_GRAVITY = (
    Status.OOM,
    Status.CRASHED,
    Status.INCORRECT,
    Status.UNAVAILABLE,
    Status.UNSUPPORTED,
    Status.INVALID,
    Status.TIMEOUT,
    Status.FAILED,
)
"""Of replies: the first that occurs decides. FAILED is last: a rank whose peer is gone fails too, by its broken connection."""

_PEER_LOST = "PeerLostError"
"""What a rank says that failed only because another one was gone."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a trial comes to: a reply, the rank that decided it (None below two ranks or where all are well), and its phases."""

    reply: Reply
    rank: int | None
    phases: tuple[Phase, ...]


def combine(replies: Mapping[int, Reply], phases: Mapping[int, Sequence[Phase]]) -> Answer:
    """The answer of ranks that all are well.

    Measurements keep their rank as scope. Beside them, with scope `trial`, stands the worst rank call by call (for metrics that
    have a worse direction): ranks wait for one another, so a call takes as long as its slowest rank.
    """
    measurements: list[Measurement] = []
    per_rank: dict[str, list[Measurement]] = {}
    for rank, reply in sorted(replies.items()):
        for measurement in reply.measurements:
            measurements.append(dataclasses.replace(measurement, scope=f"rank:{rank}"))
            per_rank.setdefault(measurement.metric, []).append(measurement)
    together = []
    for metric, found in per_rank.items():
        better = METRICS[metric].better if metric in METRICS else "lower"
        if len(found) < len(replies) or better == "none":
            continue
        worst = max if better == "lower" else min
        # Ranks agree on the number of calls; zip to the shortest guards against one that stopped early.
        samples = tuple(worst(call) for call in zip(*(m.samples for m in found), strict=False))
        together.append(dataclasses.replace(found[0], samples=samples))
    first = replies[min(replies)]
    reply = dataclasses.replace(
        first,
        measurements=(*together, *measurements),
        checks=tuple(
            dataclasses.replace(check, tensor=f"rank{rank}.{check.tensor}") if rank else check
            for rank, reply in sorted(replies.items())
            for check in reply.checks
        ),
        conditions={**first.conditions, "ranks": {str(rank): dict(reply.conditions) for rank, reply in sorted(replies.items())}},
    )
    return Answer(reply, None, tuple(phases[min(replies)]))


def culprit(
    outcome: Outcome,
    replies: Mapping[int, Reply | None],
    phases: Mapping[int, Sequence[Phase]],
    failures: Sequence[RankFailure],
) -> tuple[int, int]:
    """The rank that decides a trial which did not end well, and its return code.

    First a rank that died without a reply, as the launcher saw it; then the gravest reply, the earliest among equals; then, on a
    time-out, the rank that lags behind: the others wait for it.
    """
    if outcome.end is End.BY_ITSELF:
        for failure in failures:
            if replies.get(failure.rank) is None:
                return failure.rank, failure.returncode
    bad = {rank: reply for rank, reply in replies.items() if reply is not None and reply.status is not Status.OK}
    if bad:

        def gravity(rank: int) -> tuple[bool, int, float]:
            reached = phases[rank]
            victim = (bad[rank].error_type or "").endswith(_PEER_LOST)
            return victim, _GRAVITY.index(bad[rank].status), reached[-1].t if reached else 0.0

        return min(bad, key=gravity), 0
    silent = [rank for rank, reply in replies.items() if reply is None]
    return min(silent, key=lambda rank: (len(phases[rank]), rank)), outcome.ended_as.returncode
