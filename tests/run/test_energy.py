"""The energy of a call: told where the calls lasted long enough and filled their time, and otherwise a reason."""

from __future__ import annotations

from typing import Any

from bench.records import Cost, Reply, Status
from bench.run.energy import with_energy
from bench.run.ranks import Answer
from bench.run.traces import Phase
from tests.factories import measurement

EVEN = [(second / 10, second * 60_000) for second in range(60)]
"""600 W, read ten times a second."""


def answer(samples: tuple[float, ...] = (0.5,) * 6, *, sampled_s: float = 3.0, calls: int = 1, **changes: Any) -> Answer:
    phases = (Phase("started", 0.1), Phase("sampling", 1.0), Phase("phases", 1.0 + sampled_s), Phase("replied", 5.0))
    reply = Reply(Status.OK, measurements=(measurement("time_s", samples, calls_per_sample=calls),), cost=Cost(tokens=1000))
    return Answer(Reply(**{**{name: getattr(reply, name) for name in ("status", "measurements", "cost")}, **changes}), None, phases)


def energy(found: Answer, metric: str = "energy_j") -> float | None:
    return next((m.samples[0] for m in found.reply.measurements if m.metric == metric), None)


def test_a_call_gets_its_part_of_the_energy_and_a_token_its_part_of_that() -> None:
    found = with_energy(answer(), EVEN, ranks=1)
    assert energy(found) is not None
    assert round(energy(found) or 0.0, 6) == 300.0
    assert round(energy(found, "energy_per_token_j") or 0.0, 6) == 0.3
    (note,) = {m.note for m in found.reply.measurements if m.metric.startswith("energy")}
    assert note == (
        "of 6 calls in 3 s; wrong by at most 3.3%, since the counter was seen to move every 0.1 s; "
        "what the GPU used between calls is in it (0.0% of the time)"
    )


def test_calls_that_share_a_sample_share_its_energy() -> None:
    found = with_energy(answer((0.05,) * 6, calls=10), EVEN, ranks=1)
    assert round(energy(found) or 0.0, 6) == 30.0


def test_waits_between_short_calls_leave_no_energy_of_a_call() -> None:
    found = with_energy(answer((1e-3,) * 300), EVEN, ranks=1)
    assert energy(found) is None
    assert found.reply.conditions["energy_not_told"].startswith("the timed calls fill only 10% of the time")


def test_a_short_sampling_says_how_to_get_the_energy() -> None:
    found = with_energy(answer((0.1,) * 3, sampled_s=0.3), EVEN, ranks=1)
    assert energy(found) is None
    assert "min_sampling_s" in found.reply.conditions["energy_not_told"]


def test_of_several_gpus_nothing_is_told_together() -> None:
    assert with_energy(answer(), EVEN, ranks=2).reply.conditions["energy_not_told"] == "the energy of 2 GPUs together is not told"


def test_a_call_without_tokens_has_energy_and_none_of_a_token() -> None:
    found = with_energy(answer(cost=None), EVEN, ranks=1)
    assert energy(found) is not None
    assert energy(found, "energy_per_token_j") is None


def test_an_answer_without_a_time_stays_as_it_is() -> None:
    failed = Answer(Reply(Status.OOM, "out of memory"), None, ())
    assert with_energy(failed, EVEN, ranks=1) is failed
