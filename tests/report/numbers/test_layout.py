"""Which axis runs along x, which make panels, which follow."""

from __future__ import annotations

import dataclasses

from bench.declare import Workload
from bench.records import Case, Pass
from bench.report.numbers.layout import sections
from bench.report.numbers.summary import summarize
from tests import factories

RUN = factories.run(id="run-1", suite_data={"baseline": {"attention": "eager"}})


def _sections(cases: list[Case]):  # type: ignore[no-untyped-def]
    return sections(RUN, summarize(RUN, [factories.result("run-1", case) for case in cases]))


def _case(seq_len: int = 128, name: str = "eager", pass_: Pass = Pass.FORWARD, **params: object) -> Case:
    made = factories.case(name, seq_len=seq_len, pass_=pass_)
    return dataclasses.replace(made, params={**made.params, **params})


def test_the_numeric_axis_with_most_values_is_swept_and_the_others_make_panels() -> None:
    (section,) = _sections([_case(s, pass_=p) for s in (128, 256, 512) for p in (Pass.FORWARD, Pass.BACKWARD)])
    assert section.swept == "seq_len"
    assert section.facet_axes == ("pass",)
    assert [facet.title for facet in section.facets] == ["forward", "backward"]
    assert section.facets[0].xs == (128, 256, 512)
    assert section.facets[0].baseline == "eager"


def test_an_axis_that_follows_from_another_is_told_and_makes_no_panel() -> None:
    (section,) = _sections([_case(s, batch=1024 // s, kv_len=s) for s in (128, 256, 512)])
    assert section.swept == "seq_len"
    assert section.facet_axes == ()
    assert section.followers == {"batch": "batch follows seq_len: 128→8, 256→4, 512→2", "kv_len": "kv_len equals seq_len"}


def test_an_axis_that_some_points_lack_follows_in_the_words_of_a_reader() -> None:
    cases = [_case(mask="causal"), _case(mask="document", documents=16), _case(mask="window", documents=0)]
    (section,) = _sections(cases)
    assert section.followers == {"documents": "documents follows mask: causal→not set, document→16, window→0"}


def test_what_follows_from_several_axes_is_told_where_it_differs_within_a_panel() -> None:
    outliers = {(16, Pass.FORWARD): 0.0, (512, Pass.FORWARD): 0.001, (16, Pass.BACKWARD): 0.5, (512, Pass.BACKWARD): 0.5}
    (section,) = _sections([_case(s, pass_=p, outliers=share) for (s, p), share in outliers.items()])
    assert section.followers == {"outliers": "outliers follows from seq_len, pass"}
    assert {facet.title: section.differing_within(facet) for facet in section.facets} == {
        "forward": ("outliers follows seq_len: 16→0.0, 512→0.001",),
        "backward": (),
    }


def test_an_axis_with_a_zero_is_never_swept_since_charts_are_logarithmic() -> None:
    (section,) = _sections([_case(dropout=d) for d in (0.0, 0.1, 0.2)])
    assert section.swept is None
    assert section.facet_axes == ("dropout",)


def test_a_cap_on_memory_makes_panels_that_are_named_as_the_suite_spells_it() -> None:
    caps = {16 * 10**9: (1024,), 24 * 10**9: (1024,), 2**35: (1024,)}
    (section,) = _sections([_case(s, memory_limit_bytes=cap) for cap, values in caps.items() for s in values])
    assert (section.swept, section.facet_axes) == (None, ("memory_limit_bytes",))
    assert [facet.title for facet in section.facets] == ["memory limit 16GB", "memory limit 24GB", "memory limit 32GiB"]


def test_a_searched_axis_is_swept_however_few_its_values_and_no_axis_of_the_sweep_follows_it() -> None:
    suite = {"search": {"axis": "seq_len"}, "sweep": {"batch": [1, 2, 4], "memory_limit": ["16GB", "24GB", "48GB"]}}
    run = factories.run(id="run-1", suite_data=suite)
    ends = {16: (1024, 2048), 24: (4096, 5120), 48: (9216, 10240)}
    cases = [_case(s, memory_limit_bytes=cap * 10**9) for cap, values in ends.items() for s in values]
    (section,) = sections(run, summarize(run, [factories.result("run-1", case) for case in cases]))
    assert (section.swept, section.facet_axes) == ("seq_len", ("memory_limit_bytes",))
    assert [facet.xs for facet in section.facets] == [*ends.values()]
    few = [_case(s, batch=batch) for s, batch in ((1024, 1), (1024, 2), (2048, 4))]
    (section,) = sections(run, summarize(run, [factories.result("run-1", case) for case in few]))
    assert (section.swept, section.facet_axes) == ("seq_len", ("batch",))


def test_a_model_makes_panels_and_its_dimensions_follow() -> None:
    cases = [_case(s, model=m, heads=h) for s in (128, 256, 512) for m, h in (("tiny", 4), ("small", 8))]
    (section,) = _sections(cases)
    assert section.facet_axes == ("model",)
    assert section.followers["heads"] == "heads follows model: small→8, tiny→4"


def test_a_single_point_is_one_panel_without_an_axis() -> None:
    (section,) = _sections([_case(), _case(name="flex")])
    assert section.swept is None
    assert section.facets[0].xs == (None,)
    assert section.facets[0].labels == ("eager", "flex")


def test_each_workload_is_a_section_of_its_own() -> None:
    assert [s.workload for s in _sections([_case(), dataclasses.replace(_case(), workload="rms_norm")])] == [
        "attention",
        "rms_norm",
    ]


def test_every_case_lies_in_exactly_one_cell() -> None:
    cases = [_case(s, n, p, dropout=d) for s in (128, 256) for n in ("eager", "flex") for p in Workload.passes for d in (0.0, 0.1)]
    (section,) = _sections(cases[:-3])
    assert sum(len(facet.cells) for facet in section.facets) == len(cases) - 3
