"""The fonts that matplotlib needs for a language: found among what is installed, never downloaded."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from bench.lang.spoken import spoken

LATIN = "DejaVu Sans"
"""Comes with matplotlib."""
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "zh-TW": (
        "Noto Sans TC", "Noto Sans CJK TC", "Source Han Sans TC", "Source Han Sans TW", "PingFang TC", "Heiti TC",
        "Microsoft JhengHei", "AR PL UMing TW", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Noto Sans CJK JP", "Noto Sans CJK SC",
        "Droid Sans Fallback",
    ),
}  # fmt: skip
"""Language to the families that have its characters, the best first. Of a collection matplotlib sees the first face alone, which has
all characters too."""


def family(name: str) -> str | None:
    """The first family for a language that is installed; None where there is none. Imports matplotlib."""
    from matplotlib import font_manager

    def best() -> str | None:
        there = {font.name for font in font_manager.fontManager.ttflist}
        return next((wanted for wanted in FAMILIES[name] if wanted in there), None)

    found = best()
    if found is None:
        # matplotlib remembers which fonts there were when it was first used.
        known = {font.fname for font in font_manager.fontManager.ttflist}
        for path in sorted(set(font_manager.findSystemFonts()) - known):
            with contextlib.suppress(OSError, RuntimeError):  # a file that is no font, or a broken one
                font_manager.fontManager.addfont(path)
        found = best()
    return found


def families() -> list[str]:
    """What a text of a figure is to be drawn with, glyph by glyph the first that has it, in the language that is spoken."""
    own = spoken()
    found = None if own is None else family(own.name)
    return [LATIN] if found is None else [LATIN, found]
