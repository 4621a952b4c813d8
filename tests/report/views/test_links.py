"""Rates of collectives by NCCL's definitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.report.numbers.layout import sections
from bench.report.numbers.summary import summarize
from bench.report.views.links import links_table
from bench.store import Store
from tests.report.views.sharding_sample import shared_run

ROWS = Path("results/published/nvidia-h200/collectives.jsonl.xz")


def test_the_bus_carries_a_sum_twice_and_a_gathering_once(tmp_path: Path) -> None:
    with Store.open(tmp_path / "rows.db") as store:
        store.import_file(ROWS)
        (run,) = store.runs()
        (section,) = sections(run, summarize(run, store.results([run.id])))
    table = links_table(section)
    assert table is not None
    found = {(line[0].text, line[3].text): [cell.text for cell in line[5:]] for line in table.lines}
    assert len(found) == 9
    of_a_sum, of_a_gathering = found["all_reduce", "1.00 GiB"], found["all_gather", "1.00 GiB"]
    assert of_a_sum == ["322 GB/s", "322 GB/s"]
    assert float(of_a_gathering[0].split()[0]) == pytest.approx(2 * float(of_a_gathering[1].split()[0]), rel=0.01)
    assert max(line[6].share or 0.0 for line in table.lines) == 1.0


def test_a_training_step_has_no_such_table() -> None:
    run, rows = shared_run(("ddp",), (2,))
    (section,) = sections(run, summarize(run, rows))
    assert links_table(section) is None
