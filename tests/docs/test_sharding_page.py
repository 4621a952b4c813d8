"""The peaks that the page on sharding tells are those that the plan comes to."""

from __future__ import annotations

from typing import Any

import pytest

from bench.plan.predict import peak_bytes
from bench.plan.spec import TrainSpec, model_named
from tests.docs.pages import ROOT

LINES = [line.split("|")[1:-1] for line in (ROOT / "docs" / "sharding.md").read_text().splitlines() if line.startswith("|")]
HEAD = next(number for number, line in enumerate(LINES) if line[0].strip().startswith("GiB at the peak"))
WAYS = [cell.strip(" `") for cell in LINES[HEAD][1:]]


@pytest.mark.parametrize(("line", "ranks"), [(HEAD + 2, 2), (HEAD + 3, 8)])
def test_the_page_on_sharding_tells_the_peaks_that_are_planned(line: int, ranks: int) -> None:
    model = model_named("llama-3.2-1b")
    filled: dict[str, Any] = {"attention": "sdpa_flash", "optimizer": "adamw_fused", "precision": "bf16_master"}
    planned = [peak_bytes(model, TrainSpec(seq_len=2048, batch=2, world_size=ranks, sharding=way, **filled)) for way in WAYS]
    assert [float(cell) for cell in LINES[line][1:]] == [round(size / 2**30, 1) for size in planned]
