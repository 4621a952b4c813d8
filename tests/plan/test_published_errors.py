"""The published error table is that of today's formulas, so that a change of them without a new table is noticed without a GPU."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from bench.plan import predict

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
