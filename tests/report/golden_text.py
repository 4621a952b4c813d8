"""What a page says of its run, as plain text for a golden file: all text outside drawings, an element of the page a line.

`python -m tests.report.golden_text` writes the golden files anew; look at their difference before it is committed.
"""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.records import Result, Run
from bench.report import render_page
from tests.report.views_sample import crossing_run, pairs_run

FOLDER = Path(__file__).parent / "golden"
NOW = "2026-01-02T04:00:00+00:00"


def _numbered(made: tuple[Run, list[Result]]) -> tuple[Run, list[Result]]:
    """The rows with ids that do not depend on what was made before."""
    return made[0], [dataclasses.replace(row, id=f"result-{place:03d}") for place, row in enumerate(made[1])]


GOLDEN: Mapping[str, Callable[[], tuple[Run, list[Result]]]] = {
    "crossing": lambda: _numbered(crossing_run(trials=3)),
    "compat": lambda: _numbered(pairs_run()),
}


def page_text(name: str) -> str:
    """The text of a sample's page."""
    run, rows = GOLDEN[name]()
    page = render_page([run], rows, now=NOW)
    body = page[page.index("<main") : page.index('<section class="method"')]
    body = re.sub(r"<svg\b.*?</svg>", "", body, flags=re.S)
    body = re.sub(r"<(?=h\d|p\b|li|dt|dd|t[dhr]|caption|summary|section|details)", "\n<", body)
    text = html.unescape(re.sub(r"<[^>]+>", "", body))
    lines = (" ".join(line.split()) for line in text.splitlines())
    # What the memory model predicts moves with its formulas, which have tests of their own.
    return "\n".join(line for line in lines if line and " predicted b" not in line) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in GOLDEN:
        (FOLDER / f"{name}.txt").write_text(page_text(name), encoding="utf-8")
