"""A page of stored rows is made whatever state the kernels' files are in, and looks a subject up once."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import bench.workloads
from bench.records import Case, Check, Pass, Result
from bench.report import render_page
from bench.report.numbers import formats
from bench.report.numbers.formats import MULTIPLIES_IN, UNKNOWN, multiplied_in
from bench.report.numbers.summary import TOLERANCE_WORDS
from bench.report.recompute.evidence import told_conditions
from bench.report.recompute.verify import verify_page
from tests import factories

NOW = "2026-01-02T04:00:00+00:00"
SLOT = "slot_of_formats"
CASE = Case(SLOT, 1, {SLOT: "way"}, Pass.FORWARD, "bf16", "cpu", "warm", "wall", {"m": 8})
WAY = """
from bench.declare import implementation

@implementation(dtypes=["bf16"], tolerance=0.1, multiplies_in="int8")
def way(spec): ...
"""


@pytest.fixture
def slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a slot with one way that multiplies in int8, where ours lie; what was looked up before is forgotten."""
    folder = tmp_path / SLOT
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "way.py").write_text(WAY)
    monkeypatch.setattr(bench.workloads, "__path__", [str(tmp_path)])
    formats._declared_by.cache_clear()
    yield folder
    formats._declared_by.cache_clear()
    for module in [module for module in sys.modules if module.startswith(f"bench.workloads.{SLOT}")]:
        del sys.modules[module]
    bench.workloads.__dict__.pop(SLOT, None)


def _row() -> Result:
    check = Check("out", "small", 0.01, 0.001, 0.05, True, TOLERANCE_WORDS)
    return dataclasses.replace(factories.result("run", CASE), checks=(check,))


@pytest.mark.parametrize("text", ["raise RuntimeError('half written')\n", "def other(:\n", "import nothing_of_that_name\n", ""])
def test_a_half_written_kernel_beside_it_leaves_the_format_unknown(slot: Path, text: str) -> None:
    (slot / "zz_mine.py").write_text(text)
    assert multiplied_in(CASE, []) is None
    assert told_conditions(_row())[MULTIPLIES_IN] == UNKNOWN


def test_a_page_of_measured_rows_is_made_and_verified_while_a_kernel_is_written(slot: Path) -> None:
    (slot / "zz_mine.py").write_text("raise RuntimeError('half written')\n")
    run = factories.run(id="run", suite_data={"workload": SLOT, "subjects": {SLOT: ["way"]}})
    page = render_page([run], [_row()], now=NOW)
    assert "way" in page
    assert verify_page(page).agrees


def test_a_subject_is_looked_up_once_for_all_its_rows(slot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = []

    def counted(load: Callable[[], object] = formats.load_catalogue) -> object:
        looked_up.append(1)
        return load()

    monkeypatch.setattr(formats, "load_catalogue", counted)
    assert [told_conditions(_row())[MULTIPLIES_IN] for _ in range(5)] == ["int8"] * 5
    assert len(looked_up) == 1
