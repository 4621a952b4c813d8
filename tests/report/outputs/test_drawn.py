"""Figures as files of their own: complete, in real colours, and always the same."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from bench.records import Result, Run
from bench.report import render_page
from bench.report.outputs.drawn import Drawing, collected, figure_files, light_colours
from tests.report.step_sample import step_run

NOW = "2026-01-02T04:00:00+00:00"


@pytest.fixture(scope="module")
def once() -> tuple[Run, list[Result], list[Drawing], str]:
    run, results = step_run()
    with collected() as found:
        page = render_page([run], results, now=NOW)
    return run, results, found, page


def test_every_figure_of_the_page_is_an_svg_and_a_png_that_are_named_by_suite_workload_and_what_they_show(
    once: tuple[Run, list[Result], list[Drawing], str],
) -> None:
    run, results, found, page = once
    assert len(found) == page.count('<svg viewBox="0 0 331')
    made = figure_files(found, [run, run], results)
    assert len(made) == 2 * len(found)
    assert {path.parent for path in made} == {Path("train-step/train-step")}
    assert any(path.name.startswith("peak-by-cause-at-seq-len-4096") for path in made)
    for path, content in made.items():
        assert content.startswith(b"\x89PNG" if path.suffix == ".png" else b"<?xml")


def test_a_figure_stands_alone_with_title_legend_and_the_colours_of_the_page(
    once: tuple[Run, list[Result], list[Drawing], str],
) -> None:
    found = once[2]
    lines, bars = found[0], next(drawing for drawing in found if drawing.label.startswith("peak by cause"))
    for drawing in (lines, bars):
        assert "var(" not in drawing.svg
        assert not re.search(r"#5e5[0-2]", drawing.svg)
        assert light_colours()["ink"] in drawing.svg
    assert ">Time per call against seq_len, one panel</text>" in lines.svg
    assert all(f">{label}</text>" in lines.svg for label in ("defaults", "checkpointing=full"))
    assert "<pattern" in bars.svg


def test_a_png_has_no_colour_that_stands_for_another(once: tuple[Run, list[Result], list[Drawing], str]) -> None:
    from PIL import Image

    image = Image.open(io.BytesIO(once[2][0].png)).convert("RGB")
    seen = {f"#{r:02x}{g:02x}{b:02x}" for _, (r, g, b) in image.getcolors(1 << 20) or []}  # type: ignore[misc]
    assert light_colours()["s0"] in seen
    assert not any(colour.startswith("#5e5") for colour in seen)


def test_the_page_is_the_same_whether_its_figures_are_collected_or_not_and_so_are_they(
    once: tuple[Run, list[Result], list[Drawing], str],
) -> None:
    run, results, found, page = once
    assert page == render_page([run], results, now=NOW)
    with collected() as again:
        render_page([run], results, now=NOW)
    assert again == found
