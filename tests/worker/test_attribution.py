"""A peak and its causes, from traces written by hand."""

from __future__ import annotations

import random

import pytest

from bench.worker.attribution import (
    CHECKPOINTS,
    GRADIENTS,
    LOSS,
    PARAMETERS,
    RESIDENT,
    SAVED,
    TEMPORARIES,
    Event,
    Label,
    Phase,
    Trace,
    attribute,
)

STEP = Trace(
    residents=[(1, 100), (2, 30)],
    events=[
        Event(10, 50, 40, "aten::mm"),  # saved
        Event(20, 60, 25, "aten::softmax"),  # the loss's
        Event(30, 60, -25),
        Event(40, 60, 70, "aten::mul"),  # another life of the same address
        Event(45, 70, 100, "aten::mm"),  # a gradient
        Event(50, 60, -70),
        Event(60, 50, -40),
    ],
    labels=[Label(0, 1, PARAMETERS), Label(11, 50, SAVED), Label(12, 1, SAVED), Label(46, 70, GRADIENTS)],
    phases=[Phase(5, "forward"), Phase(18, "loss"), Phase(35, "backward")],
)


def test_the_causes_add_up_to_the_peak_to_the_byte() -> None:
    of = attribute(STEP)
    assert (of.peak, of.phase, of.position) == (100 + 30 + 40 + 70 + 100, "backward", 45)
    assert of.causes == {PARAMETERS: 100, GRADIENTS: 100, SAVED: 40, RESIDENT: 30, TEMPORARIES: 70}
    assert of.temporaries == (("aten::mul", 70),)


def test_a_label_belongs_to_the_life_of_the_address_at_which_it_was_put() -> None:
    late = Trace(STEP.residents, STEP.events, [Label(21, 60, SAVED), Label(41, 60, CHECKPOINTS)], STEP.phases)
    assert attribute(late).causes[CHECKPOINTS] == 70
    assert attribute(late).causes[SAVED] == 40  # what outlives the forward, and nothing of that address
    after_its_death = Trace(STEP.residents, STEP.events, [Label(65, 60, SAVED)], STEP.phases)
    assert attribute(after_its_death).causes == {RESIDENT: 130, SAVED: 40, TEMPORARIES: 170}


def test_what_is_allocated_while_the_loss_is_computed_is_the_losss() -> None:
    until_then = Trace([], STEP.events[:3], [], STEP.phases)
    assert attribute(until_then).causes == {SAVED: 40, LOSS: 25}
    assert attribute(until_then).phase == "loss"


def test_what_outlives_its_forward_until_the_backward_is_saved_and_what_does_not_is_a_temporary() -> None:
    phases = [Phase(1, "forward"), Phase(20, "backward"), Phase(40, "forward"), Phase(60, "backward"), Phase(80, "optimizer")]
    events = [
        Event(2, 5, 8, "kept by no hook"),
        Event(3, 6, 4, "gone before the backward"),
        Event(10, 6, -4),
        Event(25, 5, -8),
        Event(30, 7, 2, "made in the backward"),
        Event(45, 8, 16, "of the second micro-batch"),
    ]
    assert attribute(Trace([], events, [], phases)).causes == {SAVED: 16, TEMPORARIES: 2}
    assert attribute(Trace([], events[:4], [], phases)).causes == {SAVED: 8, TEMPORARIES: 4}
    inference = [Phase(1, "forward")]
    assert attribute(Trace([], events[:1], [], inference)).causes == {TEMPORARIES: 8}


def test_an_early_label_names_what_comes_to_live_there_only_where_nothing_lived_there_before() -> None:
    of = attribute(Trace([], [Event(5, 9, 8, "x")], [Label(1, 9, PARAMETERS)], []))
    assert of.causes == {PARAMETERS: 8}


def test_a_call_without_allocations_has_its_residents_as_peak() -> None:
    of = attribute(Trace([(1, 7)], [], [Label(0, 1, PARAMETERS)], []))
    assert (of.peak, of.causes, of.phase) == (7, {PARAMETERS: 7}, "")
    assert attribute(Trace([], [], [], [])).peak == 0


def test_many_temporaries_are_told_by_operator_and_the_rest_together() -> None:
    of = attribute(Trace([], [Event(n, n, n, f"op{n}") for n in range(1, 31)], [], []))
    assert of.temporaries[0] == ("op30", 30)
    assert of.temporaries[-1] == ("all others", sum(range(1, 19)))
    assert sum(size for _, size in of.temporaries) == of.peak


@pytest.mark.parametrize("seed", range(20))
def test_a_random_trace_is_split_completely_and_its_timeline_passes_the_peak(seed: int) -> None:
    rng = random.Random(seed)
    living: dict[int, int] = {address: rng.randint(1, 50) for address in range(5)}
    residents = list(living.items())
    live = peak = sum(living.values())
    events = []
    for position in range(400):
        if living and rng.random() < 0.5:
            address = rng.choice(list(living))
            live -= living[address]
            events.append(Event(position, address, -living.pop(address)))
        else:
            address = rng.choice([a for a in range(60) if a not in living])
            living[address] = rng.randint(1, 50)
            live += living[address]
            events.append(Event(position, address, living[address], f"op{address % 7}"))
        peak = max(peak, live)
    labels = [Label(rng.randrange(400), rng.randrange(60), rng.choice([PARAMETERS, SAVED, GRADIENTS])) for _ in range(100)]
    of = attribute(Trace(residents, events, labels, [Phase(0, "forward"), Phase(200, "backward")]))
    assert of.peak == peak == sum(of.causes.values())
    assert max(sum(moment.alive.values()) for moment in of.timeline) == peak
