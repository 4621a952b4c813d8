"""A report as a mail: its sentences and numbers as text and as a table to be read in the mail, the first figure, and the page attached.

The message is a file of the form that every mail program opens (RFC 5322), and nothing is sent. The same data and time give the same bytes.
"""

from __future__ import annotations

import hashlib
import html
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parseaddr

from bench.plaintext import plain
from bench.records import Result, Run, Status
from bench.report.drawing.figures import status_word
from bench.report.numbers.layout import Section, sections
from bench.report.numbers.summary import CaseSummary, gather
from bench.report.outputs.drawn import Drawing
from bench.report.outputs.texts import sentences, table_cells
from bench.report.trust.doubts import doubts

SENDER = Address("stepbench", "report", "stepbench.invalid")
"""Where nobody is named: a domain that no mail can reach (RFC 2606)."""
MOST_SENTENCES = 12
MOST_LINES = 60
"""Of a table inside the mail; the attached page has all."""
LONGEST_CELL = 80
_DOMAIN = "stepbench.invalid"
_FIGURE = "figure@stepbench.invalid"
_TABLE = "border-collapse:collapse;font:13px sans-serif"
_CELL = "border:1px solid #ccc;padding:2px 6px;text-align:left"


class BadHeader(ValueError):
    """A header that no mail may have; says which, and why."""


@dataclass(frozen=True, slots=True)
class Headers:
    """Who writes to whom, as `Name <name@host>` or `name@host`; None and nothing where nobody was told."""

    sender: str | None = None
    to: tuple[str, ...] = ()
    subject: str | None = None


def render_mail(
    runs: Sequence[Run], results: Sequence[Result], page: str, figure: Drawing | None, headers: Headers, *, now: str, name: str
) -> bytes:
    """The message, with the HTML `page` attached as `name`. `now`: UTC, ISO 8601. Raises BadHeader."""
    message = EmailMessage(policy=SMTP)
    message["From"] = _address(headers.sender, "--from") if headers.sender is not None else SENDER
    if headers.to:
        message["To"] = [_address(text, "--to") for text in headers.to]
    message["Subject"] = _line(headers.subject if headers.subject is not None else subject_of(runs, results), "--subject")
    message["Date"] = format_datetime(datetime.fromisoformat(now))
    message["Message-ID"] = f"<{hashlib.sha256((now + page).encode('utf-8', 'backslashreplace')).hexdigest()[:32]}@{_DOMAIN}>"
    # Mail programs open such a message to be completed and sent.
    message["X-Unsent"] = "1"
    message.set_content(_text(runs, results, name), cte="quoted-printable")
    message.add_alternative(_body(runs, results, figure, name), subtype="html", cte="quoted-printable")
    if figure is not None:
        rich = message.get_payload()[1]  # type: ignore[index]
        rich.add_related(figure.png, "image", "png", cid=f"<{_FIGURE}>", disposition="inline", filename="figure.png")  # type: ignore[union-attr]
    message.add_attachment(page.encode("utf-8", "backslashreplace"), "text", "html", filename=name)
    for number, part in enumerate(message.walk()):
        if part.is_multipart():
            # Python draws boundaries at random.
            part.set_boundary(f"=_stepbench_{number}_{message['Message-ID'][1:17]}")
    return message.as_bytes()


def subject_of(runs: Sequence[Run], results: Sequence[Result]) -> str:
    """`attention: 98 cases on cuda, 90 ok, 8 OOM`."""
    lines = []
    for run in runs:
        cases, _ = gather(run, results)
        lines.append(f"{run.suite}: {_counted(cases)} on {run.device}")
    return plain(" ".join("; ".join(lines).split())) or "no runs"


def _counted(cases: Sequence[CaseSummary]) -> str:
    counts = {status: sum(case.counted != () and case.status is status for case in cases) for status in Status}
    ended = ", ".join(f"{count} {status_word(status)}" for status, count in counts.items() if count)
    return f"{len(cases)} case{'' if len(cases) == 1 else 's'}" + (f", {ended}" if ended else "")


def _line(text: str, option: str) -> str:
    if text != plain(text):
        raise BadHeader(f"{option} must be one line of plain text")
    return text


def _address(text: str, option: str) -> Address:
    name, address = parseaddr(_line(text, option))
    try:
        found = Address(name, addr_spec=address)
    except (ValueError, IndexError) as error:
        raise BadHeader(f"{option} {text!r} is no address ({error}): write name@host or `Name <name@host>`") from error
    if not found.username or not found.domain:
        raise BadHeader(f"{option} {text!r} is no address: write name@host or `Name <name@host>`")
    return found


def _parts(run: Run, results: Sequence[Result]) -> tuple[list[Section], list[str]]:
    """Sections and what is doubtful of a run."""
    cases, reach = gather(run, results)
    return sections(run, cases), [f"{doubt.count} {doubt.text}" for doubt in doubts(run, cases, reach)]


def _heading(run: Run) -> str:
    return f"Suite {run.suite}, run {run.id}, {run.started_at[:16].replace('T', ' ')} UTC, {run.device}"


def _told(section: Section) -> tuple[list[str], int]:
    found = sentences(section)
    return found[:MOST_SENTENCES], max(0, len(found) - MOST_SENTENCES)


def _text(runs: Sequence[Run], results: Sequence[Result], name: str) -> str:
    lines: list[str] = []
    for run in runs:
        lines += [run.question or run.suite, _heading(run), ""]
        found, doubtful = _parts(run, results)
        for section in found:
            told, more = _told(section)
            lines += [f"* {text}" for text in told] + ([f"* {more} more in the attached page"] if more else [])
            heads, rows = table_cells(section)
            lines += ["", *_columns(heads, rows[:MOST_LINES])]
            if len(rows) > MOST_LINES:
                lines.append(f"… {len(rows) - MOST_LINES} more lines in the attached page")
            lines.append("")
        lines += [f"Doubtful: {text}." for text in doubtful]
        lines.append("")
    lines.append(
        f"Lower is better. A value is the median over trials, brackets hold their range. The whole report is attached: {name}"
    )
    return "\n".join(lines) + "\n"


def _short(cell: str) -> str:
    flat = " ".join(cell.split())
    return flat if len(flat) <= LONGEST_CELL else f"{flat[: LONGEST_CELL - 1]}…"


def _columns(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [[_short(cell) for cell in row] for row in (heads, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _body(runs: Sequence[Run], results: Sequence[Result], figure: Drawing | None, name: str) -> str:
    made = ['<!doctype html><html lang="en"><head><meta charset="utf-8"></head><body style="font:14px sans-serif">']
    for position, run in enumerate(runs):
        made.append(f"<h2>{html.escape(run.question or run.suite)}</h2><p>{html.escape(_heading(run))}</p>")
        if position == 0 and figure is not None:
            made.append(f'<p><img src="cid:{_FIGURE}" alt="{html.escape(figure.label)}" width="560"></p>')
        found, doubtful = _parts(run, results)
        for section in found:
            told, more = _told(section)
            items = [*told, *([f"{more} more in the attached page"] if more else [])]
            made.append("<ul>" + "".join(f"<li>{html.escape(text)}</li>" for text in items) + "</ul>")
            made.append(_table(*table_cells(section)))
        if doubtful:
            made.append("<p><b>Doubtful</b></p><ul>" + "".join(f"<li>{html.escape(text)}</li>" for text in doubtful) + "</ul>")
    made.append(
        "<p>Lower is better. A value is the median over trials, brackets hold their range. "
        f"The whole report is attached: {html.escape(name)}</p></body></html>"
    )
    return "\n".join(made) + "\n"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [_row(heads, "th"), *(_row([_short(cell) for cell in row], "td") for row in rows[:MOST_LINES])]
    more = f"<p>{len(rows) - MOST_LINES} more lines in the attached page</p>" if len(rows) > MOST_LINES else ""
    return f'<table style="{_TABLE}">' + "\n".join(lines) + f"</table>{more}"


def _row(cells: Sequence[str], tag: str) -> str:
    return "<tr>" + "".join(f'<{tag} style="{_CELL}">{html.escape(cell)}</{tag}>' for cell in cells) + "</tr>"
