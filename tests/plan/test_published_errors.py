"""The published error table is that of today's formulas, so that a change of them without a new table is noticed without a GPU."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from bench.plan import predict
from bench.plan.error_table import BEGIN, IN_A_PAGE, markdown, written_into
from bench.plan.validate import Measured, compare

FILES = sorted(Path("results/published").glob("*/plan_validation.json.xz"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_every_published_case_is_predicted_as_the_table_says(path: Path) -> None:
    cases = json.loads(lzma.decompress(path.read_bytes()))["cases"]
    assert len(cases) >= 40
    for case in cases:
        if case["predicted_bytes"] is not None:
            found = predict(case["params"], case["subject"])
            assert found.peak_bytes == case["predicted_bytes"], case
            assert found.peak.by_category() == case["predicted_causes"]
            assert case["error"] == pytest.approx(found.peak_bytes / case["measured_bytes"] - 1)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_nine_of_ten_published_cases_have_formulas(path: Path) -> None:
    cases = json.loads(lzma.decompress(path.read_bytes()))["cases"]
    assert sum(case["predicted_bytes"] is not None for case in cases) >= 0.9 * len(cases)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_pages_show_the_table_that_the_published_cases_give(path: Path) -> None:
    data = json.loads(lzma.decompress(path.read_bytes()))
    names = ("params", "subject", "measured_bytes", "measured_causes", "part")
    lines = compare(Measured(*(case[name] for name in names)) for case in data["cases"])
    assert [line.passed for line in lines] == [case["passed"] for case in data["cases"]]
    own = path.with_name("plan_validation.md").read_text(encoding="utf-8")
    assert own == f"# Predicted and measured peaks of a training step\n\n{markdown(lines, data['measured_on'])}"
    for page in (Path("README.md"), Path("README.zh-TW.md")):
        text = page.read_text(encoding="utf-8")
        assert BEGIN in text
        assert text == written_into(text, markdown(lines, data["measured_on"], most=IN_A_PAGE)), page
