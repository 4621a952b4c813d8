"""Charts: ticks that read well, words for what is missing, and SVG that belongs to the page."""

from __future__ import annotations

import dataclasses
import itertools
import re
import xml.etree.ElementTree as ElementTree

import pytest

from bench.report.drawing import figures
from bench.report.drawing.callouts import BOTTOM, LABEL_GAP, TOP, _placed, cut
from bench.report.drawing.dots import dots
from bench.report.drawing.figures import spaced
from bench.report.drawing.roofline import Roof, rooflines
from bench.report.numbers.layout import Facet, Section, sections
from bench.report.numbers.summary import PEAK, TIME, summarize
from tests.report.gpu_sample import gpu_run
from tests.report.sample import everything


def _section() -> Section:
    runs, results = everything(trials=2)
    (section,) = sections(runs[0], summarize(runs[0], results))
    return section


def _svg(facet: Facet, metric: str = TIME) -> str:
    svg = figures.panel(facet, facet.labels, metric, swept="seq_len", chosen=figures.styles(facet.labels), prefix="p1")
    assert svg is not None
    return svg


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize(("low", "high"), [(0.9, 4.2), (1.1, 4.5), (3e-6, 5.0), (0.0011, 0.0098), (1e3, 1e9)])
def test_an_axis_has_between_two_and_eight_ticks_inside_its_limits(low: float, high: float, binary: bool) -> None:
    ticks = figures.nice_ticks(low, high, binary)
    assert 2 <= len(ticks) <= 8
    assert all(low <= tick <= high for tick in ticks)


def test_a_panel_is_well_formed_keeps_text_as_text_and_takes_all_colours_from_the_page() -> None:
    svg = _svg(_section().facets[0])
    root = ElementTree.fromstring(svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))
    texts = ["".join(element.itertext()).strip() for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"128", "4096", "seq len", "1 ms"} <= set(texts)
    assert not re.findall(r"#[0-9a-f]{6}", svg)
    assert "var(--s2)" in svg
    assert "DejaVu" not in svg


def test_missing_points_are_words() -> None:
    backward = _section().facets[1]
    svg = _svg(backward)
    assert ">OOM<" in svg
    assert ">timeout<" in svg


def test_ids_are_unique_over_panels() -> None:
    section = _section()
    ids: list[str] = []
    for number, facet in enumerate(section.facets):
        for metric in (TIME, PEAK):
            svg = figures.panel(
                facet, facet.labels, metric, swept="seq_len", chosen=figures.styles(facet.labels), prefix=f"{metric}{number}"
            )
            assert svg is not None
            own = re.findall(r'\bid="([^"]+)"', svg)
            assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg)) <= set(own)
            ids += own
    assert len(ids) == len(set(ids))


def test_the_same_data_draws_the_same_bytes() -> None:
    assert _svg(_section().facets[0]) == _svg(_section().facets[0])


def test_subjects_keep_their_style_whoever_else_is_there_and_no_two_share_one() -> None:
    few, many = figures.styles(["eager", "flex"]), figures.styles(["a", "eager", "flex", *(f"x{i}" for i in range(20))])
    assert few["eager"] == many["eager"]
    assert few["flex"] == many["flex"]
    looks = {(style.colour, style.marker, style.dash) for style in many.values()}
    assert len(looks) == len(many)


def test_lines_that_lie_on_each_other_are_named() -> None:
    facet = _section().facets[0]
    assert figures.coinciding(facet, facet.labels, PEAK) == [["eager", "sdpa_math"], ["sdpa_flash", "flex"]]


def test_a_panel_without_a_value_is_no_empty_chart() -> None:
    facet = _section().facets[0]
    assert figures.panel(facet, ["flash_attn2"], TIME, swept="seq_len", chosen=figures.styles(facet.labels), prefix="p") is None


def test_subjects_that_miss_the_same_share_a_line_of_the_strip() -> None:
    facet = _section().facets[0]
    cells = {key: cell for key, cell in facet.cells.items() if not (key[1] == 128 and key[0] in ("eager", "sdpa_math", "flex"))}
    svg = _svg(dataclasses.replace(facet, cells=cells))
    assert svg.count(">not run<") == 1


def _few(sizes: tuple[int, ...]) -> Facet:
    facet = _section().facets[1]
    return dataclasses.replace(facet, xs=sizes, cells={key: cell for key, cell in facet.cells.items() if key[1] in sizes})


def test_two_sizes_are_dots_with_their_numbers_and_statuses_as_words() -> None:
    facet = _few((1024, 4096))
    svg = dots(facet, ["eager", "sdpa_flash"], TIME, swept="seq_len", chosen=figures.styles(facet.labels), prefix="d1")
    assert svg is not None
    root = ElementTree.fromstring(svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))
    texts = ["".join(element.itertext()).strip() for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"eager", "sdpa_flash"} <= set(texts)
    assert any(re.fullmatch(r"[\d.]+ [mµ]s → OOM", text) for text in texts)
    assert not re.findall(r"#[0-9a-f]{6}", svg)


def test_one_value_alone_is_no_chart() -> None:
    facet = _few((1024,))
    assert dots(facet, ["sdpa_flash"], TIME, swept=None, chosen=figures.styles(facet.labels), prefix="d") is None


def test_a_roof_is_the_lower_of_memory_and_arithmetic() -> None:
    roof = Roof(bytes_per_s=4e12, flops_per_s=800e12)
    assert roof.ridge == 200.0
    assert roof.at(100.0) == 400e12
    assert roof.at(1000.0) == 800e12


def test_a_roofline_names_its_subjects_and_where_its_roofs_come_from() -> None:
    run, results = gpu_run()
    (section,) = sections(run, summarize(run, results))
    (figure,) = rooflines(section, figures.styles(section.labels), "s1")
    assert figure.dtype == "bf16"
    assert "copy of this run" in figure.sources
    assert "H200 SXM data sheet" in figure.sources
    for name in ("eager", "sdpa_flash", "flex", "1000 TFLOP/s"):
        assert f">{name}<" in figure.svg
    ids = re.findall(r'\bid="([^"]+)"', figure.svg)
    assert len(ids) == len(set(ids))


def test_a_slot_that_all_names_begin_with_is_left_out_of_charts() -> None:
    names = ["precision=fp32", "precision=bf16_pure"]
    assert [cut(name, names, 22) for name in names] == ["fp32", "bf16_pure"]
    assert cut("precision=fp32", [*names, "defaults"], 22) == "precision=fp32"
    assert cut("precision=fp32", names[:1], 22) == "precision=fp32"


def test_names_of_sizes_that_lie_close_together_are_thinned_out_and_the_largest_stays() -> None:
    assert spaced([512, 1024, 2048]) == [512, 1024, 2048]
    assert spaced([4096, 8192, 16384, 18432, 32768, 65536]) == [4096, 8192, 18432, 32768, 65536]
    many = spaced([float(2**n) for n in range(20)])
    assert len(many) <= 10
    assert many[-1] == 2.0**19


def test_names_beside_marks_keep_their_distance_and_stay_within_the_axes() -> None:
    for wanted in ([0.0, 0.01, 0.5], [0.9, 0.95, 0.97, 0.99], [0.02, 0.97, 0.98, 0.99], [0.5]):
        placed = _placed(wanted, LABEL_GAP)
        assert all(after - before >= LABEL_GAP - 1e-9 for before, after in itertools.pairwise(placed))
        assert placed[0] >= BOTTOM
        assert placed[-1] <= TOP
    assert _placed([0.1, 0.98, 0.99], LABEL_GAP)[0] == 0.1
