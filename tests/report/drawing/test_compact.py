"""What is taken out of matplotlib's SVG is what nobody sees; what is drawn stays where it was."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from bench.report.drawing.compact import compact

SVG = """<svg viewBox="0 0 10 10" role="img">
<defs>
<style type="text/css">*{stroke-linejoin: round; stroke-linecap: butt}</style>
</defs>
<g>
<g>
<path d="M 0 10
L 10 10
z
" style="fill: none"/>
</g>
<g />
<g clip-path="url(#a-p795e045bd6)">
<defs>
<path id="a-m3295f933a3" d="M 0 0
L 0.125 -3.1
" style="stroke: var(--muted); stroke-width: 0.8"/>
</defs>
<use xlink:href="#a-m3295f933a3" x="63.68" y="-0.04" style="fill: var(--s1); stroke: var(--muted); stroke-width: 0.8"/>
</g>
<text style="font-size: 7.6px;  text-anchor: middle; fill: var(--muted)" x="63.68" y="9.39" transform="rotate(-0 63 9)">16 ms</text>
<text style="font-size: 9.9px" x="1.00" y="2.00" transform="rotate(-90 1 2)">two words</text>
</g>
</svg>"""


def test_groups_spaces_and_invisible_paths_go_and_marks_words_and_turns_stay() -> None:
    made = compact(SVG, 7.6)
    root = ElementTree.fromstring(made)
    assert [child.tag for child in root] == ["g", "text", "text"]
    assert made.count("<path") == 1
    assert "style type" not in made
    assert re.search(r'd="M0 0L\.?0?\.?12 ?-3\.1"', made)
    assert '<use href="#a-0" x="63.7" y="0" style="fill:var(--s1)"/>' in made
    assert '<path id="a-0"' in made
    assert "text-anchor:middle;fill:var(--muted)" in made
    assert ">two words<" in made
    assert 'transform="rotate(-90 1 2)"' in made
    assert 'font-size="9.9"' in made
    assert 'font-size="7.6"' in made


def test_a_second_time_nothing_is_left_to_take_out() -> None:
    once = compact(SVG, 7.6)
    again = compact(once, 7.6)
    assert re.sub(r' font-size="7\.6" stroke-linejoin="round"', "", again) == re.sub(
        r' font-size="7\.6" stroke-linejoin="round"', "", once
    )


def _drawn(body: str) -> str:
    return compact(f'<svg viewBox="0 0 10 10" role="img">{body}</svg>', 7.6)


CLIP = '<defs><clipPath id="a-p795e045bd6"><rect x="10" y="10" width="80" height="80"/></clipPath></defs>'


def test_what_lies_within_its_borders_is_not_cut_off_and_what_reaches_beyond_stays_cut_off() -> None:
    within = _drawn(f'<path d="M 20 20 L 50.5 40.5" clip-path="url(#a-p795e045bd6)" style="stroke: red"/>{CLIP}')
    assert "clip" not in within
    beyond = _drawn(f'<path d="M 20 20 L 120.5 40.5" clip-path="url(#a-p795e045bd6)" style="stroke: red"/>{CLIP}')
    assert 'clip-path="url(#a-0)"' in beyond
    assert '<clipPath id="a-0">' in beyond
    mark = '<g clip-path="url(#a-p795e045bd6)"><use href="#m" x="20" y="20"/><use href="#m" x="20" y="{}"/></g>'
    assert "clip" not in _drawn(mark.format(30) + CLIP)
    assert "clip-path" in _drawn(mark.format(300) + CLIP)


def test_lines_of_a_grid_become_one_path_and_boxes_of_one_look_too_but_nothing_of_another_look() -> None:
    grid = '<path d="M 0 {0} L 90 {0}" style="fill: none; stroke: var(--grid); stroke-opacity: 0.9"/>'
    box = '<path d="M {0} 0 L {1} 0 L {1} 20 L {0} 20 z" style="fill: {2}"/>'
    boxes = "".join(box.format(*one) for one in ((0, 30, "a"), (30, 60, "a"), (60, 90, "b")))
    made = _drawn(f"{grid.format(20)}<text>one</text>{grid.format(40)}{boxes}")
    assert made.count("<path") == 3
    assert 'd="M0 20H90M0 40H90"' in made
    assert 'd="M0 0H30V20H0zM30 0H60V20H30z" style="fill:a"' in made
