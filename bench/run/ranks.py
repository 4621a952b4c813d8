"""Makes one answer of several ranks' replies: the slowest rank of each call counts, and the rank at fault is named."""

from __future__ import annotations

import dataclasses
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.metrics import METRICS, PEAK_CAUSES
from bench.records import Measurement, Reply, Status, trial_folder
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

_CONNECTION_LOST = re.compile(
    r"Connection (closed by peer|reset by peer|refused)|Broken pipe|Read timeout|remote process (exited|has terminated)"
    r"|NCCL.*(remote error|connection closed)|DistBackendError"
)
"""The same in the words of gloo and NCCL, where it was the subject's own collective that found the other one gone."""

_ENDED_BY_OTHERS = (-signal.SIGABRT, -signal.SIGTERM)
"""How NCCL's watchdog, and the launcher, end a rank whose peer is gone: no fault of its own beside a rank that has a reason."""

_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$')
_WAITS = re.compile(
    r"/torch/distributed/|/deepspeed/comm/|/torch/cuda/(__init__|streams)\.py:\d+ in (synchronize|wait)|/bench/worker/team\.py"
)
"""Code that waits for other ranks: a device is waited for while a collective on it waits for a rank that does not come.

A wait below C++, as in DistributedDataParallel's backward, is not told from computing.
"""


_CAUSES = frozenset(f"peak_{cause}_bytes" for cause, _ in PEAK_CAUSES)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a trial comes to: a reply, the rank that decided it (None below two ranks or where all are well), and its phases."""

    reply: Reply
    rank: int | None
    phases: tuple[Phase, ...]


def combine(replies: Mapping[int, Reply], phases: Mapping[int, Sequence[Phase]]) -> Answer:
    """The answer of ranks that all are well.

    Measurements keep their rank as scope. Beside them, with scope `trial`, stands the worst rank call by call (for metrics that
    have a worse direction): ranks wait for one another, so a call takes as long as its slowest rank. What a peak consists of is told of
    the rank that is fullest, since the largest of each cause would add up to more than any rank had.
    """
    measurements: list[Measurement] = []
    per_rank: dict[str, list[Measurement]] = {}
    for rank, reply in sorted(replies.items()):
        for measurement in reply.measurements:
            measurements.append(dataclasses.replace(measurement, scope=f"rank:{rank}"))
            per_rank.setdefault(measurement.metric, []).append(measurement)
    together = []
    peaks = per_rank.get("peak_total_bytes", ())
    for metric, found in per_rank.items():
        if metric in _CAUSES and len(found) == len(peaks) == len(replies):
            together.append(found[_fullest(peaks)])
            continue
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


def _fullest(peaks: Sequence[Measurement]) -> int:
    """The place of the rank with the highest peak, the first of equals."""
    return max(range(len(peaks)), key=lambda place: max(peaks[place].samples, default=0.0), default=0)


def _lost_another(reply: Reply) -> bool:
    """Whether a rank failed only because another one was gone."""
    told = (reply.error_type or "").endswith(_PEER_LOST) or _CONNECTION_LOST.search(reply.reason or "") is not None
    return told and reply.status is Status.FAILED


def read_stack(directory: Path, rank: int) -> tuple[str, ...]:
    """Where a rank's main thread stood when it was ended by TERM, `file:line in function`, innermost first; nothing where it was not."""
    try:
        text = (directory / trial_folder.stack(rank)).read_text(errors="replace")
    except FileNotFoundError:
        return ()
    frames: list[str] = []
    for line in text.splitlines():
        if line.startswith(("Thread ", "Current thread ")):
            frames = []  # the main thread is told last
        elif found := _FRAME.match(line):
            frames.append(f"{found[1]}:{found[2]} in {found[3]}")
    return tuple(frames)


def _waits(stack: Sequence[str]) -> bool:
    """Whether a rank stood in code that waits for other ranks."""
    return any(_WAITS.search(frame) for frame in stack[:3])


def culprit(
    outcome: Outcome,
    replies: Mapping[int, Reply | None],
    phases: Mapping[int, Sequence[Phase]],
    failures: Sequence[RankFailure],
    stacks: Mapping[int, Sequence[str]] | None = None,
) -> tuple[int, int]:
    """The rank that decides a trial which did not end well, and its return code.

    First a rank that died without a reply, as the launcher saw it; then the gravest reply, the earliest among equals; then one that left
    without a reply and a bad exit status, where all others only lost it or waited for it; then, on a time-out, the rank that lags behind:
    the others wait for it. Of ranks in one phase it is the one that does not stand in a collective.
    """
    silent = [rank for rank, reply in replies.items() if reply is None]
    bad = {rank: reply for rank, reply in replies.items() if reply is not None and reply.status is not Status.OK}
    own = {rank: reply for rank, reply in bad.items() if not _lost_another(reply)}
    if outcome.end is End.BY_ITSELF:
        for failure in failures:
            if replies.get(failure.rank) is None and not (own and failure.returncode in _ENDED_BY_OTHERS):
                return failure.rank, failure.returncode
    left = [rank for rank in silent if outcome.end is End.BY_ITSELF or rank in outcome.gone]
    if own or (bad and not left):

        def gravity(rank: int) -> tuple[bool, int, float]:
            reached = phases[rank]
            return rank not in own, _GRAVITY.index(bad[rank].status), reached[-1].t if reached else 0.0

        return min(bad, key=gravity), 0
    stood = stacks or {}
    # Who was gone before the others were ended for it left by itself; a bad exit status the launcher would have seen.
    returncode = 0 if outcome.end is End.RANK_FAILED and left else outcome.ended_as.returncode
    return min(left or silent, key=lambda rank: (len(phases[rank]), _waits(stood.get(rank, ())), rank)), returncode
