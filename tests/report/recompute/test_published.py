"""The published pages: each is of published results, agrees with itself, and travels light; `make report` writes them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.report.recompute.verify import verify_page
from bench.stats import median
from bench.store import Store
from bench.store.page_data import page_text, read_page_data
from tests import factories

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "reports" / "published"
RESULTS = ROOT / "results" / "published"
LIMIT_BYTES = 3 * 2**20
"""Of all that is published: a repository must travel light."""


def page_of(results: Path, folder: Path) -> Path:
    return folder / f"{results.parent.name}-{results.name.removesuffix('.jsonl.gz')}.html"


PUBLISHED = [path for path in sorted(RESULTS.glob("*/*.jsonl.gz")) if page_of(path, PAGES).is_file()]


def test_each_published_page_is_of_a_published_file_and_all_together_travel_light() -> None:
    pages = sorted(PAGES.glob("*.html"))
    assert pages, "make report"
    assert pages == [page_of(results, PAGES) for results in PUBLISHED]
    assert all(page.stat().st_size <= 2**20 for page in pages)
    assert sum(path.stat().st_size for folder in (PAGES, RESULTS) for path in folder.rglob("*") if path.is_file()) <= LIMIT_BYTES


@pytest.mark.parametrize("results", PUBLISHED, ids=lambda path: f"{path.parent.name}-{path.name.partition('.')[0]}")
def test_a_published_page_tells_the_trials_of_its_file_and_agrees_with_them(tmp_path: Path, results: Path) -> None:
    text = page_text(page_of(results, PAGES))
    assert verify_page(text).agrees
    told = {trial.result: trial.medians.get("time_s") for trial in read_page_data(text).trials}
    with Store.open(tmp_path / "published.db") as store:
        store.import_file(results)
        rows = store.results([run.id for run in store.runs()])
    timed = {row.id: row.measurement("time_s") for row in rows}
    assert told.keys() <= timed.keys()
    assert all(value == pytest.approx(median(timed[one].samples)) for one, value in told.items() if value is not None)


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_report_renders_what_is_published_and_a_second_call_changes_no_byte(tmp_path: Path) -> None:
    results = tmp_path / "results" / "toy" / "attention.jsonl.gz"
    results.parent.mkdir(parents=True)
    with Store.open(tmp_path / "made.db") as store:
        run = factories.run()
        store.add_run(run)
        store.add_results([factories.result(run.id, factories.case(name)) for name in ("eager", "flex")])
        store.export_jsonl(results)
    pages = tmp_path / "pages"
    made = []
    for _ in range(2):
        command = ["make", "report", "VENV=", f"PYTHON={sys.executable}", f"EXAMPLES={results}", f"PAGES={pages}"]
        variables = {
            name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "BENCH_DB")
        }
        done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        made.append(page_of(results, pages).read_bytes())
    assert made[0] == made[1]
