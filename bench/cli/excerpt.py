"""An excerpt of what `bench show` prints of one run, for a page that shows people what they get: the longest sequences, and the answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cli.fitting import paragraph
from bench.cli.tables import answers, case_table
from bench.errors import SelectionError

if TYPE_CHECKING:
    from bench.records import Result, Run

BEGIN, END = "<!-- example: begin -->", "<!-- example: end -->"
"""Between these lines a page has it."""
SUITE = "attention"
PASS, TITLE = "forward_backward", "forward + backward"
AXIS = "seq_len"
COLUMNS = 150
LEFT_OUT = "…"


def has_mark(page: Path) -> bool:
    """Whether the page wants one. Raises SelectionError for a page that cannot be read."""
    try:
        return BEGIN in page.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise SelectionError(f"{page} cannot be read: {error}") from error


def example(database: str) -> str:
    """Of the run of the suite with the most rows in the database, the newest of several; Markdown. Raises SelectionError without any."""
    from bench.store import Store

    with Store.open(database, create=False, read_only=True) as store:
        found = [(run, store.results([run.id])) for run in store.runs(suite=SUITE)]
    found = [(run, results) for run, results in found if any(isinstance(row.case.params.get(AXIS), int) for row in results)]
    if not found:
        raise SelectionError(f"a page has the mark {BEGIN}, and the suite {SUITE} has no row for it")
    return f"```\n{excerpt(*max(found, key=lambda entry: (len(entry[1]), entry[0].id)))}\n```\n"


def excerpt(run: Run, results: Sequence[Result]) -> str:
    """The rows of one pass at the longest sequences, the sentences about them, and all that is doubtful."""
    longest = str(max(length for row in results if isinstance(length := row.case.params.get(AXIS), int)))
    head, *lines = _table(run, results)
    end = head.find("reason")
    shown = [line for line in lines if {PASS, longest} <= set(line.split())]
    said = answers(run, results, at_length=True)
    about = [line for line in said if "measured, " in line and f", {TITLE} " in line and f" at {longest}" in line]
    grows = [line for line in said if line.startswith(f"grows: {TITLE}: peak ")]
    doubtful = [line for line in said if line.startswith("doubtful: ")]
    table = [(line if end < 0 else line[:end]).rstrip() for line in (head, *shown)]
    return "\n".join([*table, LEFT_OUT, *(paragraph(line, COLUMNS) for line in (*about, *grows, *doubtful))])


def _table(run: Run, results: Sequence[Result]) -> Iterator[str]:
    """The table's own lines, its head first."""
    lines = iter(case_table(run, results).splitlines())
    for line in lines:
        if line.startswith("pass "):
            yield line
            break
    yield from lines
