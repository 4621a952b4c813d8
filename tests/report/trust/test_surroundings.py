"""What differs between rows of a run says what that means, and how many devices a trial took is no other machine."""

from __future__ import annotations

from collections.abc import Mapping

from bench.records import Environment, Result, Scalar
from bench.report import render_page
from bench.report.trust.surroundings import surroundings
from tests import factories

NOW = "2026-01-02T04:00:00+00:00"
RUN = factories.run(id="run-1")


def _rows(*hard: Mapping[str, Scalar]) -> list[Result]:
    places = [Environment(own, {}) for own in hard]
    return [factories.result(RUN.id, factories.case(), index=index, environment=place) for index, place in enumerate(places)]


def test_another_number_of_devices_forbids_nothing_and_another_machine_does() -> None:
    one: dict[str, Scalar] = {"count": 1, "gpu_model": "A"}
    found = surroundings(_rows(one, one, {"count": 2, "gpu_model": "A"}, {"count": 1, "gpu_model": "B"})).differences
    assert {difference.name: (difference.forbids, difference.means) for difference in found} == {
        "count": (False, "devices of a trial: those of another number are other cases"),
        "gpu_model": (True, "hard: rows are not comparable"),
    }


def test_a_row_on_several_devices_is_in_no_other_environment_than_most() -> None:
    one = {"count": 1}
    page = render_page([RUN], _rows(one, one, {"count": 2}), now=NOW)
    assert "devices of a trial: those of another number are other cases" in page
    assert "Another environment than most rows" not in page
