"""`bench claims`: what others have published, held against the rows that are here."""

from __future__ import annotations

import shlex
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.fitting import folded_table, paragraph, terminal_columns
from bench.cli.options import asked_format, database_option, json_option
from bench.cli.terminal import json_text, note
from bench.errors import SelectionError, StoreError
from bench.plaintext import plain

if TYPE_CHECKING:
    from bench.judge.claim_numbers import Row
    from bench.judge.claim_records import Claim, Finding
    from bench.store import Store

REPRODUCED, DIFFERS, NOTHING_JUDGED = 0, 1, 3
FORMATS = ("text", "json", "markdown", "html")
FORMAT_OF = {".json": "json", ".md": "markdown", ".html": "html"}
"""What the ending of a file says; all others are text."""


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option(
    "--claims", "folder", default="suites/claims", show_default=True, metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path), help="The folder of files of claims.",
)  # fmt: skip
@click.option("--only", multiple=True, metavar="ID", help="Only this claim, or those whose id begins so. Can be repeated.")
@click.option(
    "--published", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Rows of these published files (results/published) instead of a database's.",
)  # fmt: skip
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), default="text",
    show_default="by the ending of --output, or text",
    help="JSON holds seconds, bytes and every number; HTML is one page.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write instead of the standard output."
)
@database_option
@json_option
def claims(
    runs: tuple[str, ...],
    folder: Path,
    only: tuple[str, ...],
    published: Path | None,
    format_: str,
    output: Path | None,
    database: str,
    as_json: bool,
) -> int:
    """Hold published claims against what was measured here: reproduced, not reproduced, can't tell, or not comparable here.

    RUN is a run's id, the beginning of one, a label or `latest`; without any, all runs of the database count, and of each claim the newest
    rows of one commit and one machine. Claims that are arithmetic are computed by the memory model and marked so. What was not measured
    comes with the command that measures it.

    Exit code 0: nothing contradicts; 1: something is not reproduced, and not for being more than claimed; 3: nothing could be judged.
    """
    from bench.judge.claim_files import load_claims
    from bench.judge.claim_numbers import needed
    from bench.judge.claims import judge_claims

    format_ = asked_format(format_, as_json=as_json, output=output, endings=FORMAT_OF)
    wanted = _chosen(load_claims(folder), only)
    with _store(database, published) as store:
        rows = _rows(store, runs, needed(wanted))
        findings = judge_claims(wanted, rows)
    code = _exit_code(findings)
    from bench.cli.compare import write

    write(_rendered(findings, rows, format_, code, terminal_columns() if output is None else None), output)
    return code


def _chosen(found: Sequence[Claim], only: Sequence[str]) -> list[Claim]:
    """The claims that were asked for. Raises SelectionError for a word that none begins with."""
    from bench.catalogue.names import nearest

    for word in only:
        if not any(claim.id.startswith(word) for claim in found):
            near = nearest(word, [claim.id for claim in found])
            hint = f"did you mean {near!r}?" if near else "`bench claims` has their ids"
            raise SelectionError(f"no claim begins with {word!r} ({hint})")
    return [claim for claim in found if not only or claim.id.startswith(tuple(only))]


@contextmanager
def _store(database: str, published: Path | None) -> Iterator[Store]:
    """The database, or one in memory's stead that holds the published files. Raises StoreError."""
    from bench.store import Store

    if published is None:
        try:
            store = Store.open(database, create=False, read_only=True)
        except StoreError as error:
            raise StoreError(f"{error}\nWithout a database of one's own: bench claims --published results/published") from error
        with store:
            for notice in store.notices:
                note(notice)
            yield store
        return
    files = sorted(published.rglob("*.jsonl.?z"))
    if not files:
        raise SelectionError(f"{published} holds no published results (*.jsonl.xz)")
    with tempfile.TemporaryDirectory(prefix="stepbench-claims-") as folder, Store.open(Path(folder) / "published.db") as store:
        for path in files:
            store.import_file(path)
        yield store


def _rows(store: Store, words: Sequence[str], metrics: Sequence[str]) -> list[Row]:
    from bench.judge.claim_numbers import Row
    from bench.suite import label_of

    runs = {run.id: run for run in ([store.find_run(word) for word in words] if words else store.runs())}
    labels = {run.id: label_of(run.suite_data) for run in runs.values()}
    # Excluded ones too: they tell who else was on the GPU.
    rows = store.results(list(runs), include_excluded=True, metrics=metrics)
    return [Row(runs[row.run_id], labels[row.run_id](row.case.subject), row) for row in rows]


def _exit_code(findings: Sequence[Finding]) -> int:
    from bench.judge.claim_records import Word

    if any(finding.word is Word.NOT_REPRODUCED and not finding.more for finding in findings):
        return DIFFERS
    judged = any(finding.word in (Word.REPRODUCED, Word.NOT_REPRODUCED) for finding in findings)
    return REPRODUCED if judged else NOTHING_JUDGED


def _rendered(findings: Sequence[Finding], rows: Sequence[Row], format_: str, code: int, room: int | None) -> str:
    from bench.report.outputs.claims import claims_markdown, claims_page, packed_claims_page

    if format_ == "json":
        return json_text({"exit_code": code, "claims": [_data(finding) for finding in findings]}) + "\n"
    if format_ == "markdown":
        return claims_markdown(findings)
    if format_ == "html":
        from bench.report.recompute.embedded import FINDINGS, element
        from bench.report.recompute.of_claims import claims_data

        return packed_claims_page(claims_page(findings, element(FINDINGS, claims_data(findings, rows))))
    return _text(findings, room) + "\n"


def _text(findings: Sequence[Finding], room: int | None) -> str:
    from bench.report.outputs.claims import HEADS, cells, headline, rows_of

    shown = [cells(row) for row in rows_of(findings)]
    body = folded_table(HEADS, shown, room, right=(2, 3, 4, 5))
    lines = [body, "", paragraph(headline(findings), room)]
    missing = Counter(_of_suite(finding) for finding in findings if finding.ours is None and finding.measure is not None)
    if missing:
        lines.append("what is missing is measured by (--json has a command a claim):")
        lines += [f"  {plain(command)}  # {count} claim{'s' if count > 1 else ''}" for command, count in missing.items()]
    return "\n".join(lines)


def _of_suite(finding: Finding) -> str:
    """The command for all claims that a suite's profile answers."""
    by = finding.claim.measured_by
    if by is None:
        raise ValueError(f"{finding.claim.id} has no suite")
    return shlex.join(["bench", "run", f"suites/{by.suite}.yaml", *(["--profile", by.profile] if by.profile else [])])


def _data(finding: Finding) -> dict[str, Any]:
    """A finding as programs read it: seconds, bytes, counts; the interval is null where there are too few processes."""
    from bench.report.outputs.claims import expected_words

    claim, ours = finding.claim, finding.ours
    low, high = claim.band
    return {
        "id": claim.id,
        "verdict": str(finding.word),
        "more_than_claimed": finding.more,
        "why": finding.why,
        "may_differ_because": claim.differs,
        "says": claim.says,
        "source": claim.source,
        "made_on": claim.made_on,
        "configuration": claim.configuration,
        "kind": claim.kind,
        "expected": expected_words(claim),
        "agrees_from": low,
        "agrees_to": high,
        "ours": None
        if ours is None
        else {
            "how": "computed" if ours.computed else "measured",
            "value": ours.value,
            "interval": None if ours.confidence is None else [ours.low, ours.high],
            "confidence": ours.confidence,
            "n": None if ours.computed else ours.n,
            "device": ours.device,
            "rows": list(ours.rows),
            "command": ours.command,
        },
        "measure": finding.measure,
    }
