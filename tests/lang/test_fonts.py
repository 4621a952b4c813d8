"""Fonts for a language are found among what is installed, and nothing is looked for in English."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.lang import language, speaking
from bench.lang.fonts import LATIN, families, family
from tests.lang.conftest import squares

fonts = pytest.importorskip("matplotlib.font_manager")


def test_a_font_that_has_the_characters_comes_after_the_one_for_latin(one_font: Path) -> None:
    assert family("zh-TW") == "Noto Sans TC"
    assert families() == [LATIN]
    with speaking(language("zh-TW")):
        assert families() == [LATIN, "Noto Sans TC"]


def test_a_font_that_was_installed_after_matplotlib_was_first_used_is_found(
    no_font: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "late.ttf"
    squares(path, ["時"], "PingFang TC")
    (tmp_path / "broken.ttf").write_bytes(b"no font")
    monkeypatch.setattr(fonts, "findSystemFonts", lambda: [str(tmp_path / "broken.ttf"), str(path)])
    assert family("zh-TW") == "PingFang TC"


def test_where_there_is_no_font_none_is_found(no_font: None) -> None:
    assert family("zh-TW") is None
    with speaking(language("zh-TW")):
        assert families() == [LATIN]
