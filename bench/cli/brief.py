"""A night in at most twenty lines, and in none where nothing is to be said: what a person reads in the mail of a cron job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cli.verdicts import alarm_facts, alarm_heads, row_namer

if TYPE_CHECKING:
    from bench.judge.answer import Answer
    from bench.judge.compare import Comparison
    from bench.judge.verdict import Verdict

MOST_LINES = 20
ROWS_SHOWN = 5
"""Of one cause."""
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
    quiet: tuple[str, ...] = ()
    """Why nothing is compared where nothing is wrong either: said only to who asks for everything."""

    @property
    def everything_said(self) -> tuple[str, ...]:
        """For who asks for everything."""
        return (*self.said, *self.quiet)


def brief(judged: Sequence[Judged], files: Path | None) -> list[str]:
    """The lines; none where every suite is well and no night was missed. `files`: where the whole judgements lie."""
    # Who asked never to fail still wants to be told.
    noisy = [one for one in judged if one.code or one.said or _told(one) or _details(one)]
    if not noisy:
        return []
    whole = files or _command(noisy)
    last = [f"all of it: {whole}"] if whole else []
    left = MOST_LINES - len(last)
    lines: list[str] = []
    blocks = [_head(one) for one in noisy] + [block for one in noisy for block in _details(one)]
    for place, block in enumerate(blocks):
        # The last line is kept for how much there is no room for.
        room = left - len(lines) - (1 if place + 1 < len(blocks) else 0)
        if len(block) > room:
            # Its end is the next command. The first cause is told as far as there is room, rather than none.
            shown = [*block[: room - 2], "  …", block[-1]] if place == len(noisy) and room > 5 else []
            lines += shown
            rest = len(blocks) - place - bool(shown)
            lines += [f"… and {rest} part{'s' if rest > 1 else ''} more"] if rest else []
            break
        lines += block
    return [*lines, *last]


def _command(noisy: Sequence[Judged]) -> str | None:
    """What shows the whole of a night; None where none was compared."""
    from bench.cli.options import database_words

    runs = [one.comparison.second.runs[0].id for one in noisy if one.comparison is not None]
    if not runs:
        return None
    return f"bench regress {runs[0] if len(runs) == 1 else 'RUN'} --no-confirm{database_words()}"


def _told(one: Judged) -> list[str]:
    """Banners on nights that were not, and what is new though nothing is worse."""
    from bench.judge.nights import is_missed

    if one.comparison is None:
        return []
    return [*filter(is_missed, one.comparison.banners), *one.comparison.news]


def _head(one: Judged) -> list[str]:
    why = f": {one.answer.headline}: {one.answer.why}" if one.answer else ""
    word = _WORDS[1] if one.code == 0 and _details(one) else _WORDS.get(one.code, one.code)
    return [f"{one.suite}: {word}{why}", *(f"  {line}" for line in (*one.said, *_told(one)))][:6]


def _details(one: Judged) -> list[list[str]]:
    """A block for each cause that asks for somebody's attention: rows of which the same is told are told of together."""
    from bench.judge.answer import is_worse

    if one.comparison is None:
        return []
    name = row_namer(verdict.series.case for verdict in one.comparison.verdicts)
    causes: dict[tuple[str, ...], list[Verdict]] = {}
    for verdict in one.comparison.verdicts:
        if is_worse(verdict):
            causes.setdefault((*alarm_facts(verdict),), []).append(verdict)
    blocks = []
    for facts, rows in causes.items():
        heads = [alarm_heads(row, name(row.series.case)) if facts else [_line(row, name(row.series.case))] for row in rows]
        left = len(rows) - ROWS_SHOWN
        more = [f"and {left} row{'s' if left > 1 else ''} more of which the same is told"] if left > 0 else []
        bisect = next((f"  {row.alarm.bisect}" for row in rows if row.alarm is not None and row.alarm.bisect), None)
        blocks.append([*(line for head in heads[:ROWS_SHOWN] for line in head), *more, *facts, *([bisect] if bisect else [])])
    return blocks


def _line(verdict: Verdict, name: str) -> str:
    return f"{verdict.word}: {name}, {verdict.series.metric}: {verdict.reason}"
