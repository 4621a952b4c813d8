"""The tables of what to switch on, and the example of what one gets, are those that the published rows give, in both READMEs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.cli.guide import guide
from tests.docs.pages import ROOT

PAGES = ("README.md", "README.zh-TW.md")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both pages, written anew."""
    folder = tmp_path_factory.mktemp("pages")
    words = ["--published", str(ROOT / "results" / "published")]
    for page in PAGES:
        shutil.copy(ROOT / page, folder / page)
        words += ["--write", str(folder / page)]
    done = CliRunner().invoke(guide, words, standalone_mode=False)
    assert done.exception is None, done.exception
    return folder


@pytest.mark.parametrize("page", PAGES)
def test_what_the_readme_shows_is_what_the_published_rows_give(written: Path, page: str) -> None:
    again = "bench guide --published results/published --write README.md --write README.zh-TW.md"
    assert (ROOT / page).read_text(encoding="utf-8") == (written / page).read_text(encoding="utf-8"), f"written anew by: {again}"
