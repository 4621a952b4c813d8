"""The energy of one call and of one token, where the timed calls lasted long enough and filled their time.

The parent reads the GPU's counter beside the trial, so it costs the calls nothing. What is counted is all that the GPU did while it was
sampled, so the flush of the caches and the waits between calls are in it: where those are more than a tenth, nothing is told.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import pairwise

from bench.machine.energy import EnergyUnknownError, energy_between
from bench.metrics import METRICS
from bench.records import Measurement, Reply, Status
from bench.run.ranks import Answer
from bench.run.traces import Phase

LEAST_SHARE = 0.9
"""Of the time of sampling, that the calls themselves must fill."""


def with_energy(answer: Answer, readings: Sequence[tuple[float, int]], *, ranks: int) -> Answer:
    """The answer with its energy, or with the reason in its conditions (`energy_not_told`). `readings` are those of one GPU.

    An answer without a time stays as it is.
    """
    reply = answer.reply
    times = next((m for m in reply.measurements if m.metric == "time_s" and m.scope == "trial"), None)
    if reply.status is not Status.OK or times is None:
        return answer
    try:
        found = _measured(reply, times, readings, answer.phases, ranks)
    except EnergyUnknownError as error:
        reply = dataclasses.replace(reply, conditions={**reply.conditions, "energy_not_told": str(error)})
    else:
        reply = dataclasses.replace(reply, measurements=(*reply.measurements, *found))
    return dataclasses.replace(answer, reply=reply)


def _measured(
    reply: Reply, times: Measurement, readings: Sequence[tuple[float, int]], phases: Sequence[Phase], ranks: int
) -> tuple[Measurement, ...]:
    if ranks > 1:
        raise EnergyUnknownError(f"the energy of {ranks} GPUs together is not told")
    start_s, end_s = _sampling(phases)
    used = energy_between(readings, start_s, end_s)
    calls = len(times.samples) * times.calls_per_sample
    share = sum(times.samples) * times.calls_per_sample / used.duration_s
    if share < LEAST_SHARE:
        raise EnergyUnknownError(
            f"the timed calls fill only {share:.0%} of the time in which they were timed; the rest is between them"
        )
    note = (
        f"of {calls} calls in {used.duration_s:.3g} s; wrong by at most {used.error_share:.1%}, since the counter was seen to move "
        f"every {used.resolution_s:.2g} s; what the GPU used between calls is in it ({max(0.0, 1 - share):.1%} of the time)"
    )
    values = {"energy_j": used.joules / calls}
    if reply.cost is not None and reply.cost.tokens:
        values["energy_per_token_j"] = values["energy_j"] / reply.cost.tokens
    return tuple(Measurement(name, METRICS[name].unit, (value,), note=note) for name, value in values.items())


def _sampling(phases: Sequence[Phase]) -> tuple[float, float]:
    """When sampling began and ended."""
    for phase, following in pairwise(phases):
        if phase.name == "sampling":
            return phase.t, following.t
    raise EnergyUnknownError("the trial does not say when its calls were timed")
