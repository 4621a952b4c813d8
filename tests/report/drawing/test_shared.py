"""Looks that repeat are said once on the page, and marks are drawn from one definition; what is seen stays."""

from __future__ import annotations

import re

from bench.report.drawing.shared import LEAST, shared

HEAD = "<style>b{}</style><svg><defs><g></g></defs></svg>"
MARK = '<defs><path id="{0}-0" d="M0 0V3" style="stroke:red"/></defs><use href="#{0}-0" x="1" y="2" style="fill:red"/>'


def _page(*bodies: str) -> str:
    drawings = "".join(f'<svg viewBox="0 0 9 9" aria-label="a > b">{body}</svg>' for body in bodies)
    return shared(HEAD + drawings + '<b style="fill:red">style="fill:red"</b>', style_end="</style>", marks_end="</defs>")


def test_a_look_that_repeats_is_a_class_and_a_rare_one_stays() -> None:
    made = _page(*['<text style="fill:red">style="fill:red"</text>'] * (LEAST + 1), '<text style="fill:blue">x</text>')
    name = re.search(r"\.(z\w+)\{fill:red\}</style>", made)
    assert name
    assert made.count(f'<text class="{name[1]}">style="fill:red"</text>') == LEAST + 1
    assert '<text style="fill:blue">x</text>' in made
    assert made.endswith('<b style="fill:red">style="fill:red"</b>')


def test_equal_marks_of_several_drawings_are_defined_once_and_every_use_leads_there() -> None:
    made = _page(MARK.format("a"), MARK.format("b"), MARK.format("c").replace("red", "blue"))
    defined = re.findall(r'<path id="(\w+)" d="M0 0V3"', made)
    assert len(defined) == 2
    used = re.findall(r'<use href="#(\w+)"', made)
    assert used == [defined[0], defined[0], defined[1]]
