"""What a comparison comes to: one sentence and an exit code.

0: judged, nothing worse. 1: something is worse, what is missing and what stopped running included. 3: could not judge. Nothing that could
not be judged is ever reported as fine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bench.judge.compare import Comparison
from bench.judge.screen import Sight
from bench.judge.thresholds import RULES, TIME, Manner
from bench.judge.verdict import READER_WORDS, Kind, Verdict, Word
from bench.records import Status

FINE, SOMETHING_WORSE, COULD_NOT_JUDGE = 0, 1, 3
QUIET_WORDS: Mapping[str, str] = {Sight.CLEAR: "no suspect", Sight.LEARNING: "learning"}
"""How people read what a night's screen has nothing to tell of: neither a verdict nor an open question."""


class FailOn(StrEnum):
    """From which verdict on the exit code is 1."""

    WORSE = "worse"
    AMBIGUOUS = "ambiguous"
    """What is worse, ambiguous or insufficient."""
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Answer:
    """The exit code, and why it is that."""

    exit_code: int
    headline: str
    """The five words with their counts."""
    why: str


def answer(comparison: Comparison, fail_on: FailOn = FailOn.WORSE) -> Answer:
    """What the rows come to."""
    counts = Counter(verdict.reader_word for verdict in comparison.verdicts if not _unremarkable(verdict))
    quiet = Counter(quiet_word(verdict) for verdict in comparison.verdicts if _unremarkable(verdict))
    headline = ", ".join(f"{counts[word]} {word}" for word in READER_WORDS if counts[word])
    headline = ", ".join(part for part in (headline, *(f"{count} {word}" for word, count in quiet.items())) if part) or "no rows"
    code, why = _decided(comparison, fail_on)
    accepted = sum(verdict.accepted is not None for verdict in comparison.verdicts)
    why += f" ({accepted} accepted)" if accepted else ""
    return Answer(code, headline, why)


def _decided(comparison: Comparison, fail_on: FailOn) -> tuple[int, str]:
    verdicts = comparison.verdicts
    if not verdicts:
        return COULD_NOT_JUDGE, "the sides have no rows: nothing was compared"
    worse = [verdict for verdict in verdicts if is_worse(verdict)]
    shift = comparison.mass_shift
    blamed = worse
    if shift is not None and shift.machine_changed and shift.word is Word.WORSE:
        blamed = [verdict for verdict in worse if verdict.confirmed_in is not None or not _noisy(verdict)]
    if blamed and fail_on is not FailOn.NEVER:
        return SOMETHING_WORSE, f"{_rows(blamed)} worse"
    if shift is not None and blamed is not worse:
        return COULD_NOT_JUDGE, shift.text
    if comparison.lost is not None:
        return COULD_NOT_JUDGE, comparison.lost
    judged = [verdict for verdict in verdicts if _says_something(verdict)]
    learning = sum(verdict.screening == Sight.LEARNING for verdict in verdicts)
    if not judged and learning:
        return FINE, f"{learning} series are still learning, and nothing else can be judged yet"
    if not judged and comparison.first_on is not None:
        return FINE, f"all {len(verdicts)} rows begin to learn on another CPU model"
    if not judged and _first_turns(comparison):
        return FINE, f"all {len(verdicts)} rows are here for the first time, and what nights before measured waits for its turn"
    if not judged:
        return COULD_NOT_JUDGE, "no row could be judged: " + _why_not(verdicts)
    if fail_on is FailOn.NEVER:
        return FINE, "asked never to fail"
    spoilt = {_row(verdict) for verdict in verdicts if _spoilt(verdict)}
    untimed = {_row(verdict) for verdict in verdicts if _without_time(verdict)}
    of = len(spoilt | untimed | {_row(verdict) for verdict in judged})
    if (lost := spoilt | untimed) and 2 * len(lost) >= of:
        if not spoilt:
            return COULD_NOT_JUDGE, f"{len(untimed)} of {of} rows have no time that can be used"
        return COULD_NOT_JUDGE, f"{len(lost)} of {of} rows are invalid: measured under conditions that forbid using them"
    open_ = [v for v in verdicts if v.word in (Word.AMBIGUOUS, Word.INSUFFICIENT) and not _unremarkable(v)]
    if fail_on is FailOn.AMBIGUOUS and open_:
        return SOMETHING_WORSE, f"{_rows(open_)} ambiguous or insufficient"
    cut_off = [v for v in verdicts if v.word is Word.MISSING and not v.counts and "stopped before it" in v.reason]
    if cut_off:
        return COULD_NOT_JUDGE, f"{_rows(cut_off)} missing because the run is not whole"
    more = [f"{_rows(spoilt)} invalid"] if spoilt else []
    more += [f"{len(untimed)} row{' has' if len(untimed) == 1 else 's have'} no time that can be used"] if untimed else []
    more += [f"{learning} series are still learning"] if learning else []
    return FINE, "; ".join((f"nothing is worse among {len(judged)} judged rows", *more))


def _first_turns(comparison: Comparison) -> bool:
    """Whether a night with a budget came to rows of which each has its first turn, on the hardware of those that wait."""
    here = {verdict.series.hard_hash for verdict in comparison.verdicts}
    return all(verdict.word is Word.NEW for verdict in comparison.verdicts) and any(
        waiting.series.hard_hash in here for waiting in comparison.waiting
    )


def quiet_word(verdict: Verdict) -> str | None:
    """What people read of a row that a screen found nothing in, or cannot yet: `no suspect` or `learning`; None for all others."""
    word = QUIET_WORDS.get(verdict.screening or "")
    return word if verdict.word in (Word.AMBIGUOUS, Word.INSUFFICIENT) else None


def _unremarkable(verdict: Verdict) -> bool:
    """Whether it is nobody's business, though its word is ambiguous or insufficient."""
    return quiet_word(verdict) is not None


def is_worse(verdict: Verdict) -> bool:
    """Whether a verdict fails a job: worse, or gone though it was asked for."""
    return verdict.counts and verdict.word in (Word.WORSE, Word.MISSING)


def _noisy(verdict: Verdict) -> bool:
    rule = RULES.get(verdict.series.metric)
    return rule is not None and rule.manner is Manner.NOISY


def _says_something(verdict: Verdict) -> bool:
    if verdict.kind is Kind.STATUS:
        return verdict.word in (Word.WORSE, Word.BETTER)
    return verdict.word in (Word.WORSE, Word.BETTER, Word.SAME, Word.AMBIGUOUS)


def _spoilt(verdict: Verdict) -> bool:
    """Whether a row ran on one side and is of no use on the other, all of its trials being invalid."""
    ran = any(str(Status.OK) in side.outcome.split() for side in (verdict.first, verdict.second))
    return verdict.kind is Kind.STATUS and verdict.word is Word.INVALID and ran


def _without_time(verdict: Verdict) -> bool:
    """Whether a row ran on both sides, and the times of one are of no use."""
    return verdict.kind is Kind.VALUE and verdict.word is Word.INVALID and verdict.series.metric == TIME


def _row(verdict: Verdict) -> tuple[str, str]:
    return verdict.series.case_key, verdict.series.arm


def _rows(verdicts: Collection[object]) -> str:
    return f"{len(verdicts)} row{' is' if len(verdicts) == 1 else 's are'}"


def _why_not(verdicts: Sequence[Verdict]) -> str:
    counts: dict[str, int] = {}
    for verdict in verdicts:
        word = "ran on neither side" if verdict.word is Word.SAME else str(verdict.word)
        counts[word] = counts.get(word, 0) + 1
    return ", ".join(f"{count} {word}" for word, count in sorted(counts.items(), key=lambda entry: -entry[1]))
