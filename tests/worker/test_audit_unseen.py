"""What the trace of a step does not say by itself: gradients that a script lets go of, phases that allocate nothing."""

from __future__ import annotations

import pytest
import torch

from bench.worker.attribution import Event, Label, Phase, Trace, attribute
from bench.worker.audit.guard import Notes
from bench.worker.audit.marks import Marks
from bench.worker.audit.memory import MemoryStep, _phase_peaks
from bench.worker.audit.scene import find_scene
from bench.worker.audit.unseen import FREED, with_releases
from tests.worker.audit_scripts.bare import Decoder

RESIDENTS = [(100, 8), (200, 4)]


@pytest.mark.parametrize(
    ("events", "marks", "peak"),
    [
        ([Event(5, 300, 6)], [], 18),
        ([Event(5, 300, 6)], [Label(3, 100, FREED)], 12),
        ([Event(5, 300, 6)], [Label(7, 100, FREED)], 18),
        ([Event(5, 100, 6)], [Label(7, 100, FREED)], 12),
        ([Event(5, 300, 6), Event(6, 300, -6)], [Label(3, 300, FREED)], 18),
    ],
    ids=["kept", "gone before", "gone after", "its place was taken", "a mark on what is no resident"],
)
def test_a_resident_is_released_where_it_is_marked_or_its_place_is_taken(
    events: list[Event], marks: list[Label], peak: int
) -> None:
    found = attribute(with_releases(Trace(RESIDENTS, events, [Label(0, 200, "parameters"), *marks], ())))
    assert found.peak == peak
    assert sum(found.causes.values()) == peak


@pytest.mark.parametrize("when", ["before the forward", "before the backward"])
def test_the_update_of_a_real_step_holds_the_gradients_once(when: str) -> None:
    torch.manual_seed(0)
    model = Decoder(sdpa=True, checkpointed=0)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    ids = torch.zeros(1, 4, dtype=torch.long)
    scene = find_scene(model.parameters(), None)
    assert scene is not None
    for number in range(2):
        if number:
            step, marks = MemoryStep(scene, [optimizer], Notes(), checkpoints=False), Marks(scene, Notes(), modules=False)
            step.start()
            marks.start(step.inputs)
        if when == "before the forward":
            optimizer.zero_grad()
        loss = model(ids).sum()
        optimizer.zero_grad()
        loss.backward()
        if number:
            marks.phase("optimizer")
        optimizer.step()
    marks.stop()
    memory = step.stop()
    held = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    causes = {cause.cause: cause.bytes for cause in memory.causes}
    assert memory.phase == "optimizer"
    assert causes["gradients"] == causes["parameters"] == held
    assert sum(causes.values()) == memory.peak_bytes


def test_a_phase_that_allocates_nothing_has_the_peak_that_it_began_with() -> None:
    phases = [Phase(0, "forward"), Phase(20, "backward"), Phase(30, "loss"), Phase(40, "optimizer")]
    counted = [(-1, 10), (5, 30), (10, 25), (35, 20)]
    assert _phase_peaks(Trace((), (), (), phases), counted) == {"forward": 30, "backward": 25, "loss": 25, "optimizer": 20}
