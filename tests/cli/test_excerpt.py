"""The excerpt for a page: rows of the longest sequences, and the sentences about them, of the run that has most rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.cli.excerpt import BEGIN, LEFT_OUT, example, excerpt, has_mark
from bench.errors import SelectionError
from bench.records import Pass, Result, Run, Status
from bench.store import Store
from tests import factories


def measured(lengths: tuple[int, ...]) -> tuple[Run, list[Result]]:
    """Two kernels in both passes, of which one runs out of memory at the longest sequences."""
    run = factories.run(
        suite_data={"workload": "attention", "subjects": {"attention": ["eager", "flex"]}, "baseline": {"attention": "eager"}}
    )
    rows = [
        factories.result(
            run.id, factories.case(name, seq_len=seq_len, pass_=pass_), index=index, time_s=seq_len * cost * 1e-6,
            **({"status": Status.OOM} if (name, seq_len) == ("eager", 512) else {}),
        )
        for name, cost in (("eager", 3), ("flex", 2))
        for seq_len in lengths
        for pass_ in (Pass.FORWARD, Pass.FORWARD_BACKWARD)
        for index in range(3)
    ]  # fmt: skip
    return run, rows


def test_it_has_the_longest_sequences_and_the_answers_and_no_reasons() -> None:
    head, eager, flex, left_out, *said = excerpt(*measured((128, 256, 512))).splitlines()
    assert head.split()[:3] == ["pass", "seq_len", "subject"]
    assert "reason" not in head
    assert eager.split() == ["forward_backward", "512", "eager", "oom", "3"]
    assert flex.split()[:4] == ["forward_backward", "512", "flex", "ok"]
    assert left_out == LEFT_OUT
    assert any(line.startswith("fastest measured, forward + backward") and " at 512" in line for line in said)
    assert not any("measured, forward · " in line for line in said)
    assert all(line.startswith(("fastest", "least", "grows: forward + backward: peak", "doubtful: ", "  ")) for line in said)


def test_it_is_of_the_run_with_the_most_rows(tmp_path: Path) -> None:
    whole, cut = measured((128, 256)), measured((512,))
    with Store.open(tmp_path / "rows.db") as store:
        for run, rows in (whole, cut):
            store.add_run(run)
            store.add_results(rows)
    shown = example(str(tmp_path / "rows.db"))
    assert shown.startswith("```\npass")
    assert shown.endswith("\n```\n")
    assert " 256 " in shown
    assert " 512 " not in shown


def test_without_rows_for_it_a_page_with_its_mark_is_told(tmp_path: Path) -> None:
    Store.open(tmp_path / "rows.db").close()
    with pytest.raises(SelectionError, match="has no row for it"):
        example(str(tmp_path / "rows.db"))
    (tmp_path / "page.md").write_text(f"words\n{BEGIN}\n")
    assert has_mark(tmp_path / "page.md")
    with pytest.raises(SelectionError, match="cannot be read"):
        has_mark(tmp_path / "none.md")
