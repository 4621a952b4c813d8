"""The published pages: each is of published results, agrees with itself, and travels light; `make report` writes them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cli import main
from bench.records import Result
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
WRITTEN = sorted(PAGES.glob("*.html"))
CLAIMS = PAGES / "claims.html"


def test_the_published_pages_all_together_travel_light() -> None:
    assert WRITTEN, "make report"
    assert all(page.stat().st_size <= 2**20 for page in WRITTEN)
    assert sum(path.stat().st_size for folder in (PAGES, RESULTS) for path in folder.rglob("*") if path.is_file()) <= LIMIT_BYTES


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """All published rows by their id."""
    with Store.open(tmp_path_factory.mktemp("published") / "published.db") as store:
        for results in sorted(RESULTS.glob("*/*.jsonl.xz")):
            store.import_file(results)
        return {row.id: row for row in store.results([run.id for run in store.runs()])}


@pytest.mark.parametrize("page", [page for page in WRITTEN if page != CLAIMS], ids=lambda path: path.stem)
def test_a_published_page_tells_the_trials_of_published_files_and_agrees_with_them(
    page: Path, published: dict[str, Result]
) -> None:
    text = page_text(page)
    assert verify_page(text).agrees
    told = {trial.result: trial.medians.get("time_s") for trial in read_page_data(text).trials}
    assert told.keys() <= published.keys()
    timed = {one: published[one].measurement("time_s") for one in told}
    assert all(value == pytest.approx(median(timed[one].samples)) for one, value in told.items() if value is not None)  # type: ignore[union-attr]


def test_the_published_page_of_claims_is_that_of_the_published_rows_and_agrees_with_itself(tmp_path: Path) -> None:
    again = tmp_path / "claims.html"
    assert main(["claims", "--published", str(RESULTS), "--format", "html", "-o", str(again)]) in (0, 1)
    assert again.read_bytes() == CLAIMS.read_bytes(), "make report"
    assert main(["verify", str(CLAIMS)]) == 0


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_report_renders_what_is_published_and_a_second_call_changes_no_byte(tmp_path: Path) -> None:
    folder, pages = tmp_path / "results" / "toy", tmp_path / "pages"
    folder.mkdir(parents=True)
    for suite in ("rope", "swiglu"):
        with Store.open(tmp_path / f"{suite}.db") as store:
            run = factories.run(suite=suite)
            store.add_run(run)
            store.add_results([factories.result(run.id, factories.case(name)) for name in ("eager", "flex")])
            store.export_jsonl(folder / f"{suite}.jsonl.xz")
    made = []
    for _ in range(2):
        command = ["make", "report", "VENV=", f"PYTHON={sys.executable}", "EXAMPLES=layers:rope,none,swiglu nothing:none"]
        variables = {
            name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "BENCH_DB")
        }
        done = subprocess.run(
            [*command, f"PUBLISHED={folder.parent}", f"PAGES={pages}"], cwd=ROOT, env=variables, capture_output=True, text=True, check=False
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert sorted(path.name for path in pages.iterdir()) == ["claims.html", "toy-layers.html"]
        made.append([path.read_text(encoding="utf-8") for path in sorted(pages.iterdir())])
    assert made[0] == made[1]
    assert {run.suite for run in read_page_data(made[0][1]).runs} == {"rope", "swiglu"}
