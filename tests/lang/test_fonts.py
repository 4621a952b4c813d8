"""Figures in Chinese where a font has its characters, and in English with a warning where none has."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.lang import language, speaking
from bench.lang.fonts import FAMILIES, LATIN, families, family
from bench.plan.figure import draw
from bench.plan.fits import choices
from bench.plan.spec import TrainSpec, model_named

fonts = pytest.importorskip("matplotlib.font_manager")
WEST = 0x2E7F
"""Characters up to here are no business of a font for Chinese."""
MEMORY = 80 * 2**30


@pytest.fixture
def no_font(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without any font for Chinese."""
    there = [font for font in fonts.fontManager.ttflist if font.name not in FAMILIES["zh-TW"]]
    monkeypatch.setattr(fonts.fontManager, "ttflist", there)
    monkeypatch.setattr(fonts, "findSystemFonts", list)


@pytest.fixture
def one_font(no_font: None, tmp_path: Path) -> Path:
    """A font of squares for every character that the catalogue has, named as a well known one."""
    path = tmp_path / "squares.ttf"
    words = "".join(language("zh-TW").messages.values())
    _squares(path, sorted({character for character in words if ord(character) > WEST}), "Noto Sans TC")
    fonts.fontManager.addfont(str(path))
    return path


def _squares(path: Path, characters: list[str], name: str) -> None:
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


def _drawn(path: Path) -> str:
    """The words of a plan's figure: matplotlib notes beside its outlines what they say."""
    model, train = model_named("llama-3-8b"), TrainSpec(seq_len=8192)
    draw(path, model, choices(model, train, MEMORY)[:2], MEMORY, "llama-3-8b, 8192 tokens, batch 1")
    return path.read_text(encoding="utf-8")


def test_where_a_font_has_the_characters_a_figure_is_drawn_in_chinese(one_font: Path, tmp_path: Path) -> None:
    assert family("zh-TW") == "Noto Sans TC"
    with speaking(language("zh-TW")):
        assert families() == [LATIN, "Noto Sans TC"]
        drawn = _drawn(tmp_path / "plan.svg")  # a character that no font had would be a warning, which is an error here
    assert "預測的已配置記憶體峰值（GiB）" in drawn
    assert "最佳化器狀態" in drawn


def test_a_font_that_was_installed_after_matplotlib_was_first_used_is_found(
    no_font: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "late.ttf"
    _squares(path, ["時"], "PingFang TC")
    (tmp_path / "broken.ttf").write_bytes(b"no font")
    monkeypatch.setattr(fonts, "findSystemFonts", lambda: [str(tmp_path / "broken.ttf"), str(path)])
    assert family("zh-TW") == "PingFang TC"


def test_without_a_font_nothing_is_found_and_in_english_nothing_is_looked_for(no_font: None, tmp_path: Path) -> None:
    assert family("zh-TW") is None
    assert families() == [LATIN]
    assert "predicted peak of allocated memory, GiB" in _drawn(tmp_path / "plan.svg")
