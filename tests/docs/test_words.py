"""What the documentation says of messages, metrics, statuses and headings is what the code says; its links lead somewhere."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from bench.judge.verdict import READER_WORDS
from bench.metrics import COLLECTIVES, METRICS, PEAK_CAUSES
from bench.records import Status
from bench.run.versions import MOST_BYTES
from bench.suite import json_schema
from tests.docs.pages import PAGES, ROOT, codes, prose, table_rows

DOCS = ROOT / "docs"


@cache
def texts_of_the_code() -> str:
    """All texts of the package, a line each; of a text with values in it, what stands between them."""
    found: list[str] = []
    for path in sorted((ROOT / "bench").rglob("*.py")):
        found += [
            node.value
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
    return "\n".join(found)


@pytest.mark.parametrize("row", table_rows(DOCS / "troubleshooting.md"), ids=lambda row: row[0][:60])
def test_every_message_that_is_explained_is_one_of_ours(row: list[str]) -> None:
    quoted = codes(row[0])
    assert quoted, row
    for part in (part.strip() for message in quoted for part in message.split("…")):
        assert part in texts_of_the_code(), part


def test_every_metric_that_is_no_cost_of_the_harness_is_explained_and_no_other() -> None:
    page = prose(DOCS / "numbers.md")
    told: set[str] = set()
    for code in codes(page):
        told |= {code.replace("<cause>", cause) for cause, _ in PEAK_CAUSES} if "<cause>" in code else {code}
    named = {name for name in told if re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*_(s|bytes|hz|j|share|error|gap)", name)}
    # Phases have a second form each, which the page tells in words.
    by_words = {f"{phase}_peak_reserved_bytes" for phase in ("forward", "backward", "optimizer")}
    assert named <= METRICS.keys()
    assert {name for name, metric in METRICS.items() if not metric.harness} <= told | by_words
    assert {f"{collective}_bytes" for collective in COLLECTIVES} <= told


def test_every_status_and_every_word_of_a_verdict_is_explained() -> None:
    troubles = {code for row in table_rows(DOCS / "troubleshooting.md") for code in codes(row[0])}
    assert {str(status) for status in Status} - {"ok"} <= troubles
    glossary = prose(DOCS / "glossary.md")
    assert {str(status) for status in Status} <= set(codes(glossary))
    words = {row[0] for row in table_rows(DOCS / "numbers.md")}
    assert all(any(word in cell.split(", ") for cell in words) for word in READER_WORDS)


def test_every_key_of_a_suite_is_explained_and_no_other() -> None:
    keys = {code for row in table_rows(DOCS / "add-a-suite.md") for code in codes(row[0])}
    assert keys == set(json_schema()["properties"])


def test_the_headings_that_a_reader_is_told_of_are_on_the_page() -> None:
    report = ROOT / "bench" / "report"
    written = "\n".join(path.read_text() for path in (*report.glob("templates/*.j2"), *report.glob("views/*.py")))
    page = " ".join(prose(DOCS / "report.md").split())
    headings = re.findall(r"\*\*(.+?)\*\*", page)
    assert len(headings) > 8
    for heading in headings:
        assert heading in written, heading


def test_the_bound_of_rebuilt_versions_is_the_one_that_is_told() -> None:
    assert f"They take {MOST_BYTES // 2**30} GiB at most" in prose(DOCS / "nights.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", prose(page)):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_every_page_can_be_reached_from_the_first_one() -> None:
    linked = set(re.findall(r"\]\((\w[\w-]*\.md)\)", (DOCS / "README.md").read_text()))
    assert {page.name for page in DOCS.glob("*.md")} - {"README.md"} == linked


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent == DOCS], ids=lambda page: page.name)
def test_every_file_that_is_named_is_there(page: Path) -> None:
    """But those that the pages of examples add, and those that a command makes."""
    added = "squared_relu", "by_length", "hyperfine"
    for code in codes(prose(page)):
        if re.fullmatch(r"(bench|suites|nightly|\.github)/[\w./]+\w", code) and not any(name in code for name in added):
            assert (ROOT / code).exists(), code
