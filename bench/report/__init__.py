"""Turns stored results into what people read: an HTML page, Markdown, JSON and CSV. Measures nothing; verdicts are `bench.judge`'s."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.records import Run
from bench.report.outputs.page import render_page
from bench.report.outputs.texts import render_markdown, rows_csv, rows_json

if TYPE_CHECKING:
    from bench.store import Store

__all__ = ["render_html", "render_markdown", "render_page", "rows_csv", "rows_json"]


def render_html(store: Store, runs: Sequence[Run], *, now: str) -> str:
    """The page of `runs` from a store, excluded rows shown as such. `now` is UTC, ISO 8601."""
    return render_page(runs, store.results([run.id for run in runs], include_excluded=True), now=now)
