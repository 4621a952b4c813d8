"""Two audits: which switches differ, the step's time with an interval that says what it rests on, the peak, and doubts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.audit.compared import PROCESSES, STEPS, compare, find_side, median_bounds
from bench.audit.stored import store_audit
from bench.audit.told import compared_data, compared_lines
from bench.audit.whole import put_together
from bench.audited import Ended
from bench.errors import SelectionError
from bench.records import utc_now
from bench.store import Store
from tests.audit import seen
from tests.audit.seen import GIB, MEMORY, attention, audit, report


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "audits.db") as opened:
        yield opened


def keep(store: Store, label: str, *, faster: float = 1.0, **changes: Any) -> None:
    steps = dataclasses.replace(seen.STEPS, timed_s=tuple(value * faster for value in seen.STEPS.timed_s))
    store_audit(
        audit(report(steps=steps, **changes)), store, label=label, started_at=utc_now(), finished_at=utc_now(), duration_s=1.0
    )


def test_one_audit_a_side_says_what_differs_and_that_its_interval_is_of_steps(store: Store) -> None:
    keep(store, "before")
    keep(store, "after", faster=0.8, attention=(attention("sdpa_flash"),), memory=dataclasses.replace(MEMORY, peak_bytes=15 * GIB))
    found = compare(find_side(store, "before"), find_side(store, "after"))
    assert [(one.switch, one.first, one.second) for one in found.differences] == [("attention", "eager", "sdpa_flash")]
    assert found.rests_on == STEPS
    assert found.time is not None
    assert found.time.interval is not None
    assert found.time.interval.low < 0.8 < found.time.interval.high
    assert found.peak == pytest.approx(0.5)
    words = "\n".join(compared_lines(found))
    assert "1.25× faster" in words
    assert "steps of one process each" in words
    assert "30.0 GiB → 15.0 GiB" in words
    data = compared_data(found)
    assert data["time_ratio"]["value"] == pytest.approx(0.8)


def test_a_later_audit_that_trained_nothing_hides_no_switch_and_peaks_are_medians(store: Store) -> None:
    for peak in (30, 10, 20):
        keep(store, "before", memory=dataclasses.replace(MEMORY, peak_bytes=peak * GIB))
    keep(store, "before", ended=Ended("raised", "ValueError", "no"), memory=None)
    before = find_side(store, "before")
    store_audit(
        put_together([], command="true", status=1, ended="exit status 1", steps_asked=20),
        store, label="before", started_at=utc_now(), finished_at=utc_now(), duration_s=1.0,
    )  # fmt: skip
    keep(store, "after", memory=dataclasses.replace(MEMORY, peak_bytes=10 * GIB))
    found = compare(find_side(store, "before"), find_side(store, "after"))
    assert len(found.first.runs) == len(before.runs) + 1
    assert found.differences == ()
    assert found.peak == 0.5
    assert "20.0 GiB → 10.0 GiB" in "\n".join(compared_lines(found))


def test_three_audits_of_a_label_give_an_interval_of_processes(store: Store) -> None:
    for number in range(3):
        keep(store, "before", faster=1 + 0.01 * number)
        keep(store, "after", faster=0.8 + 0.01 * number)
    found = compare(find_side(store, "before"), find_side(store, "after"))
    assert found.rests_on == PROCESSES
    assert len(found.first.runs) == len(found.second.runs) == 3
    assert found.time is not None
    assert found.time.interval is not None
    assert found.time.interval.high < 1


def test_two_audits_of_a_label_are_too_few_for_an_interval(store: Store) -> None:
    for _ in range(2):
        keep(store, "before")
    keep(store, "after")
    found = compare(find_side(store, "before"), find_side(store, "after"))
    assert found.time is not None
    assert found.time.interval is None
    assert "too few to give an interval" in "\n".join(compared_lines(found))


def test_equal_audits_differ_in_nothing(store: Store) -> None:
    keep(store, "before")
    keep(store, "after")
    found = compare(find_side(store, "before"), find_side(store, "after"))
    assert (found.differences, found.doubts) == ((), ())
    assert "No switch differs that was seen" in compared_lines(found)


def test_another_gpu_script_or_model_is_a_doubt_and_another_version_a_difference(store: Store) -> None:
    keep(store, "before")
    other = dataclasses.replace(seen.WELL.device or seen.report().device, name="NVIDIA A100")
    model = dataclasses.replace(seen.MODEL, class_name="Qwen2ForCausalLM")
    keep(store, "after", device=other, script="tune.py", model=model, versions={"python": "3.11.7", "torch": "2.14.0"})
    found = compare(find_side(store, "before"), find_side(store, "after"))
    doubts = " ".join(found.doubts)
    assert all(word in doubts for word in ("two scripts", "gpu_model NVIDIA H200 and NVIDIA A100", "not of one class"))
    assert ("version of torch", "2.13.0", "2.14.0") in [(one.switch, one.first, one.second) for one in found.differences]


def test_without_timed_steps_no_time_is_compared(store: Store) -> None:
    keep(store, "before")
    store_audit(
        audit(report(steps=dataclasses.replace(seen.STEPS, timed_s=()))), store, label="after", started_at=utc_now(),
        finished_at=utc_now(), duration_s=1.0,
    )  # fmt: skip
    found = compare(find_side(store, "before"), find_side(store, "after"))
    assert found.time is None
    assert "not both sides have a timed step" in "\n".join(compared_lines(found))


def test_one_very_long_step_makes_no_difference(store: Store) -> None:
    keep(store, "before")
    steps = dataclasses.replace(seen.STEPS, timed_s=(*seen.STEPS.timed_s[:-1], 50.0))
    store_audit(audit(report(steps=steps)), store, label="after", started_at=utc_now(), finished_at=utc_now(), duration_s=1.0)
    found = compare(find_side(store, "before"), find_side(store, "after"))
    assert found.time is not None
    assert found.time.interval is not None
    assert found.time.interval.high < 1.1
    assert "A step is not shown to differ" in "\n".join(compared_lines(found))


def test_bounds_of_a_median_hold_as_often_as_they_say() -> None:
    # Nine values: the lowest and the highest leave out 2/2^9 = 0.4 %; eight leave out 0.8 %.
    assert median_bounds([float(value) for value in range(9)], 0.995) == (0.0, 8.0)
    assert median_bounds([float(value) for value in range(8)], 0.995) is None
    # Fifteen: the second of each end leave out 2 * 16/2^15 = 0.1 %, the third 2 * 121/2^15 = 0.7 %.
    assert median_bounds([float(value) for value in range(15)], 0.995) == (1.0, 13.0)
    assert median_bounds([float(value) for value in range(15)], 0.99) == (2.0, 12.0)


def test_an_audit_is_not_compared_with_itself(store: Store) -> None:
    keep(store, "before")
    with pytest.raises(SelectionError, match="compared with another one"):
        compare(find_side(store, "before"), find_side(store, "latest"))
