"""Time against memory: who is beaten by nobody, and who takes no part."""

from __future__ import annotations

import re

from bench.records import Check, Measurement, Result
from bench.report import render_page
from bench.report.drawing.figures import styles
from bench.report.numbers.layout import Facet, sections
from bench.report.numbers.summary import PEAK, TIME, summarize
from bench.report.views.pareto import front_of, front_words, near_words, pareto, unbeaten
from tests import factories
from tests.report.step_sample import TOLERATED

RUN = factories.run(id="run-1")


def _row(name: str, time_s: float, peak: float, *, tolerated: bool = False, seq_len: int = 128) -> Result:
    return factories.result(
        "run-1",
        factories.case(name, seq_len=seq_len),
        measurements=(Measurement(TIME, "s", (time_s,) * 30), Measurement(PEAK, "byte", (peak,))),
        checks=(Check("out", "small", 0.01, 0.001, 0.05, True, TOLERATED if tolerated else None),),
    )


def _facet(rows: list[Result]) -> Facet:
    (section,) = sections(RUN, summarize(RUN, rows))
    (facet,) = section.facets
    return facet


FIVE = [_row("a", 1.0, 8.0), _row("b", 2.0, 4.0), _row("c", 3.0, 4.0), _row("d", 4.0, 1.0), _row("e", 4.0, 9.0)]


def test_a_subject_is_beaten_by_one_that_is_as_good_in_both_and_better_in_one() -> None:
    assert [case.label for case in unbeaten(summarize(RUN, FIVE), PEAK)] == ["a", "b", "d"]


def test_twins_are_both_unbeaten() -> None:
    assert [case.label for case in unbeaten(summarize(RUN, [_row("a", 1.0, 8.0), _row("b", 1.0, 8.0)]), PEAK)] == ["a", "b"]


def test_the_front_is_named_in_words() -> None:
    facet = _facet(FIVE)
    front = front_of(facet)
    assert front is not None
    assert front_words(front, facet, None) == (
        "Unbeaten: a (1.00 s, 8 B), b (2.00 s, 4 B), d (4.00 s, 1 B); "
        "for each of the other 2 one of these is at least as fast and as small."
    )


def test_of_unbeaten_ones_whose_memory_prints_the_same_it_is_said_by_how_much_it_differs() -> None:
    size = 128 * 2**20
    rows = [_row("a", 1.0, size + 2**16), _row("b", 2.0, size), _row("c", 2.5, 2 * size), _row("d", 3.0, size / 2)]
    front = front_of(_facet(rows))
    assert front is not None
    assert near_words(front, PEAK) == ("The memory of a, b lies within 64.0 KiB.",)
    twins = front_of(_facet([_row("a", 1.0, size), _row("b", 1.0, size), *rows[2:]]))
    assert twins is not None
    assert near_words(twins, PEAK) == ()


def test_who_computes_something_else_on_purpose_beats_nobody() -> None:
    facet = _facet([*FIVE, _row("int8", 0.5, 0.5, tolerated=True)])
    front = front_of(facet)
    assert front is not None
    assert [case.label for case in front.best] == ["a", "b", "d"]
    assert front_words(front, facet, None).endswith("; int8 computes something else on purpose.")


def test_the_front_stands_at_the_largest_size_with_enough_subjects() -> None:
    larger = [_row(name, 1.0, 1.0, seq_len=256) for name in ("a", "b", "c")]
    front = front_of(_facet([*FIVE, *larger]))
    assert front is not None
    assert front.x == 128


def test_fewer_than_four_subjects_and_memory_of_nothing_have_no_front() -> None:
    assert front_of(_facet(FIVE[:3])) is None
    assert front_of(_facet([_row(name, 1.0, 0.0) for name in "abcde"])) is None


def test_the_chart_names_every_subject_and_a_page_has_it() -> None:
    facet = _facet(FIVE)
    front = front_of(facet)
    assert front is not None
    svg = pareto(front, facet, styles(facet.labels), "p1")
    assert svg is not None
    assert all(f">{name}<" in svg for name in "abcde")
    assert not re.findall(r"#5e5|#[0-9a-f]{6}", svg)
    assert ">Time against memory</b>" in render_page([RUN], FIVE, now="2026-01-02T04:00:00+00:00")


def test_a_value_that_no_axis_carries_costs_the_chart_and_not_the_page() -> None:
    page = render_page([RUN], [*FIVE, _row("f", 1e300, 1.0)], now="2026-01-02T04:00:00+00:00")
    assert ">Time against memory</b>" not in page
