"""A night in at most twenty lines, and in none where nothing is to be said: what a person reads in the mail of a cron job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cli.verdicts import alarm_lines, row_namer

if TYPE_CHECKING:
    from bench.judge.answer import Answer
    from bench.judge.compare import Comparison
    from bench.judge.verdict import Verdict

MOST_LINES = 20
_WORDS = {0: "well", 1: "worse", 2: "trouble", 3: "could not judge", 130: "interrupted"}


@dataclass(frozen=True, slots=True)
class Judged:
    """One suite of a night."""

    suite: str
    code: int
    said: tuple[str, ...] = ()
    """What there is to say beside the comparison, or instead of one."""
    comparison: Comparison | None = None
    answer: Answer | None = None


def brief(judged: Sequence[Judged], files: Path | None) -> list[str]:
    """The lines; none where every suite is well and no night was missed. `files`: where the whole judgements lie."""
    # Who asked never to fail still wants to be told.
    noisy = [one for one in judged if one.code or one.said or _missed(one) or _details(one)]
    if not noisy:
        return []
    last = [f"all of it: {files}"] if files else ["all of it: bench regress RUN --no-confirm"]
    left = MOST_LINES - len(last)
    lines: list[str] = []
    blocks = [_head(one) for one in noisy] + [block for one in noisy for block in _details(one)]
    for place, block in enumerate(blocks):
        # The last line is kept for how much there is no room for.
        if len(lines) + len(block) > left - (1 if place + 1 < len(blocks) else 0):
            lines.append(f"… and {len(blocks) - place} parts more")
            break
        lines += block
    return [*lines, *last]


def _missed(one: Judged) -> list[str]:
    """Banners on nights that were not."""
    from bench.judge.nights import is_missed

    return [banner for banner in (one.comparison.banners if one.comparison else ()) if is_missed(banner)]


def _head(one: Judged) -> list[str]:
    why = f": {one.answer.headline}: {one.answer.why}" if one.answer else ""
    word = _WORDS[1] if one.code == 0 and _details(one) else _WORDS.get(one.code, one.code)
    return [f"{one.suite}: {word}{why}", *(f"  {line}" for line in (*one.said, *_missed(one)))][:6]


def _details(one: Judged) -> list[list[str]]:
    """A block for each row that asks for somebody's attention: the worse first, those that are only suspects in a line."""
    from bench.judge.answer import is_worse

    if one.comparison is None:
        return []
    name = row_namer(verdict.series.case for verdict in one.comparison.verdicts)
    blocks = []
    for verdict in one.comparison.verdicts:
        if is_worse(verdict):
            blocks.append(alarm_lines(verdict, name(verdict.series.case)) or [_line(verdict, name(verdict.series.case))])
    return blocks


def _line(verdict: Verdict, name: str) -> str:
    return f"{verdict.word}: {name}, {verdict.series.metric}: {verdict.reason}"
