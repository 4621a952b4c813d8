"""Published claims beside our numbers, as people read them: a page, Markdown, and the cells of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from bench import __version__
from bench.judge.claim_records import UNITS, Bounds, Claim, Finding, Ours, Word
from bench.plaintext import markdown_cell, plain
from bench.report.numbers.units import EN_DASH, digits
from bench.report.outputs.folded import CLAIMS_NOTICE, folded
from bench.report.outputs.own_files import digest_of, static
from bench.report.outputs.thin import thin

if TYPE_CHECKING:
    from jinja2 import Template

COMPUTED = "computed"
"""What stands beside a number that no row holds: a formula's."""


@dataclass(frozen=True, slots=True)
class Row:
    """A claim with what was found, in words."""

    id: str
    word: str
    says: str
    source: str
    made_on: str
    configuration: str
    theirs: str
    ours: str
    interval: str
    n: str
    device: str
    why: str
    differs: str
    row: str
    rows: int
    again: str
    """The command that measures or computes it again."""
    missing: str
    """The command that measures what is not there."""


def headline(findings: Sequence[Finding]) -> str:
    """`Of 124 claims 74 can be judged here: 46 reproduced, 17 not reproduced, 11 can't be told`."""
    counts = Counter(finding.word for finding in findings)
    judged = counts.total() - counts[Word.NOT_COMPARABLE]
    more = sum(finding.more for finding in findings)
    beyond = f" ({more} of them because ours is more than claimed)" if more else ""
    computed = sum(finding.ours is not None and finding.ours.computed for finding in findings if finding.word is Word.REPRODUCED)
    arithmetic = f" ({computed} by arithmetic)" if computed else ""
    return (
        f"Of {len(findings)} claims {judged} can be judged here: {counts[Word.REPRODUCED]} reproduced{arithmetic}, "
        f"{counts[Word.NOT_REPRODUCED]} not reproduced{beyond}, {counts[Word.CANNOT_TELL]} can't be told"
    )


def rows_of(findings: Sequence[Finding]) -> list[Row]:
    """The claims in words, in their order."""
    return [_row(finding) for finding in findings]


def _row(finding: Finding) -> Row:
    claim, ours = finding.claim, finding.ours
    return Row(
        claim.id,
        str(finding.word),
        claim.says,
        claim.source,
        claim.made_on,
        claim.configuration,
        expected_words(claim),
        "–" if ours is None else _ours_words(claim, ours),
        "–" if ours is None or ours.confidence is None else _interval_words(claim, ours),
        "–" if ours is None else COMPUTED if ours.computed else str(ours.n),
        (ours.device if ours is not None else None) or "",
        finding.why,
        claim.differs or "",
        ours.rows[0] if ours is not None and ours.rows else "",
        len(ours.rows) if ours is not None else 0,
        (ours.command if ours is not None else None) or "",
        (finding.measure or "") if ours is None else "",
    )


def expected_words(claim: Claim) -> str:
    """What is claimed, in its unit: `318 TFLOP/s`, `at most 2 %`, `QAT int4 higher than PTQ int4`."""
    by = claim.measured_by
    if isinstance(claim.expected, str):
        return f"{by.of} {claim.expected} than {by.over}" if by is not None else claim.expected
    if isinstance(claim.expected, Bounds):
        low, high = claim.expected.at_least, claim.expected.at_most
        if low is not None and high is not None:
            return _with_unit(f"{_plain(low)} to {_plain(high)}", claim)
        return _with_unit(f"at most {_plain(high)}" if high is not None else f"at least {_plain(low or 0.0)}", claim)
    return _with_unit(_plain(claim.expected), claim)


def _plain(value: float) -> str:
    """As it was written, without digits that nobody claimed."""
    return f"{value:.10g}"


def _with_unit(text: str, claim: Claim) -> str:
    """An exponent says that it is one: beside `grows quadratically` a bare 1 would be a riddle."""
    if claim.kind == "ordering":
        return text
    if claim.kind == "exponent":
        return f"exponent {text}"
    return f"{text}{claim.unit}" if claim.unit == "×" else f"{text} {claim.unit}"


def _number(claim: Claim, value: float) -> str:
    """In the claim's unit, with three digits; the difference of an ordering and an exponent as they are."""
    if claim.kind == "ordering":
        return f"{value:+.3g}"
    if claim.kind == "exponent":
        return f"{value:.2f}"
    scaled = value / UNITS[claim.unit]
    return f"{scaled:.0f}" if abs(scaled) >= 999.5 else digits(scaled)


def _ours_words(claim: Claim, ours: Ours) -> str:
    return _with_unit(_number(claim, ours.value), claim)


def _interval_words(claim: Claim, ours: Ours) -> str:
    if ours.low is None or ours.high is None or ours.confidence is None:
        return "–"
    join = f" {EN_DASH} " if claim.kind in ("exponent", "ordering") else EN_DASH
    return f"{_number(claim, ours.low)}{join}{_number(claim, ours.high)} ({ours.confidence * 100:.0f} %)"


HEADS = ("verdict", "claim", "theirs", "ours", "interval", "n", "on", "row", "why")


def cells(row: Row) -> tuple[str, ...]:
    """Of one line of a table under `HEADS`."""
    return (row.word, f"{row.id}: {row.says}", row.theirs, row.ours, row.interval, row.n, row.device, row.row, row.why)


def claims_markdown(findings: Sequence[Finding]) -> str:
    """The table, and below it the commands that measure what is missing."""
    rows = rows_of(findings)
    heads = ("verdict", "claim", "source", "theirs", "ours", "interval", "n", "why", "row")
    lines = [f"## {markdown_cell(headline(findings))}", "", f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    for row in rows:
        why = f"{row.why}. {row.differs}" if row.differs else row.why
        place = f"{row.configuration}; {row.made_on}"
        shown = (row.word, f"{row.says} ({place})", row.source, row.theirs, row.ours, row.interval, row.n, why, row.row or "–")
        lines.append(f"| {' | '.join(markdown_cell(text) for text in shown)} |")
    missing = list(dict.fromkeys(row.missing for row in rows if row.missing))
    if missing:
        lines += ["", "What is missing is measured by", "", "```", *(plain(command) for command in missing), "```"]
    return "\n".join(lines) + "\n"


def claims_page(findings: Sequence[Finding], island: str = "", *, version: str = __version__) -> str:
    """One HTML page without network. The same findings give the same bytes. `island` is the element with what they follow of."""
    rows = rows_of(findings)
    groups = [(str(word), [row for row in rows if row.word == word]) for word in Word]
    shown = [group for group in groups if group[1]]
    script = _script()
    return _template().render(
        headline=headline(findings), groups=shown, version=version, island=island, script=script, script_hash=digest_of(script)
    )


def packed_claims_page(page: str) -> str:
    """The page as it travels: claims of the first verdict open, the others and all commands packed. `unfolded` gives back the thin page."""
    return folded(thin(page), CLAIMS_NOTICE)


@cache
def _script() -> str:
    """What puts packed parts back; this page has no tables to sort."""
    return f"const wireTables = () => {{}}, wireRows = () => {{}};\n{static('parts.js')}"


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("bench.report", "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )  # fmt: skip
    return made.get_template("claims.html.j2")
