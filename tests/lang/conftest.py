"""A machine without any font for Chinese, and one with a font of nothing but squares."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.lang import language
from bench.lang.fonts import FAMILIES

WEST = 0x2E7F
"""Characters up to here are no business of a font for Chinese."""


@pytest.fixture
def no_font(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without any font for Chinese."""
    font_manager = pytest.importorskip("matplotlib.font_manager")
    there = [font for font in font_manager.fontManager.ttflist if font.name not in FAMILIES["zh-TW"]]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", there)
    monkeypatch.setattr(font_manager, "findSystemFonts", list)


@pytest.fixture
def one_font(no_font: None, tmp_path: Path) -> Path:
    """A font of squares for every character that the catalogue has, named as a well known one."""
    from matplotlib import font_manager

    path = tmp_path / "squares.ttf"
    words = "".join(language("zh-TW", plan=True).messages.values())
    squares(path, sorted({character for character in words if ord(character) > WEST}), "Noto Sans TC")
    font_manager.fontManager.addfont(str(path))
    return path


def squares(path: Path, characters: list[str], name: str) -> None:
    """Writes a font of that name."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen

    pen = TTGlyphPen(None)
    pen.moveTo((100, 0))
    for corner in ((900, 0), (900, 800), (100, 800)):
        pen.lineTo(corner)
    pen.closePath()
    square = pen.glyph()
    builder = FontBuilder(1000, isTTF=True)
    names = [".notdef", *(f"uni{ord(character):04X}" for character in characters)]
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({ord(character): f"uni{ord(character):04X}" for character in characters})
    builder.setupGlyf(dict.fromkeys(names, square))
    builder.setupHorizontalMetrics(dict.fromkeys(names, (1000, 100)))
    builder.setupHorizontalHeader(ascent=880, descent=-120)
    builder.setupNameTable({"familyName": name, "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(path)
