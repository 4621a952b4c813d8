"""The records of judging: a series, what was found of it, with which evidence and by which rule, and what would settle it.

A verdict is derived and can be computed again; nothing here is measured. It carries the version of its method, so that one from March
can still be explained in June.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from bench.records import Case, fingerprint

JUDGING_VERSION = 6
"""Raised when a rule or a threshold changes what a verdict says. 1: Welch on logs of process medians, 99 % interval outside the band,
Benjamini-Hochberg at 5 % over all rows; equivalence by two one-sided tests (90 % interval within 5 %); exact rules for memory. 2: a suspect
of a night is decided by measuring it again in turn with the last good version, where that can be done. 3: a night at a level that the
series has been at and come back from is no suspect by itself. 4: an error as a share of its limit must have grown threefold to be worse,
not twofold. 5: the second of two nights beyond the limit of those before is a suspect whatever its own window says; measured again,
what differs by less than the margin is the same only where less than half of what the night saw can be left; what nobody asked for is no
row that is missing; where half of the rows are invalid nothing is judged. 6: of rows whose GPU others computed on, times, energy and
what else hangs on the GPU alone are invalid and in no night's window; where half of the times are, nothing is judged."""


class Word(StrEnum):
    """What was found."""

    WORSE = "worse"
    BETTER = "better"
    SAME = "same"
    """Shown to be equal within the margin, which is more than not shown to differ."""
    AMBIGUOUS = "ambiguous"
    """Measured well enough to have shown a difference of the margin, and neither a difference nor equality follows."""
    INSUFFICIENT = "insufficient"
    """The interval is so wide that not even a difference of the margin could have been shown."""
    INCOMPARABLE = "incomparable"
    """Other hardware."""
    INVALID = "invalid"
    """Measured, but the conditions or the numbers forbid using it."""
    CHANGED = "changed"
    """The workload or the way of measuring has another version: other numbers would be no news."""
    MISSING = "missing"
    """Only the first side has it."""
    NEW = "new"
    """Only the second side has it."""


class Kind(StrEnum):
    """What a verdict rests on: numbers, or how the trials ended."""

    VALUE = "value"
    STATUS = "status"


WORSE, BETTER, SAME, CANNOT_TELL, DID_NOT_RUN = "worse", "better", "same", "can't tell", "didn't run"
READER_WORDS = (WORSE, BETTER, SAME, CANNOT_TELL, DID_NOT_RUN)
"""The five words of a first screen, in the order in which they are shown."""

_PLAIN_WORDS: Mapping[Word, str] = {Word.WORSE: WORSE, Word.BETTER: BETTER, Word.SAME: SAME, Word.MISSING: DID_NOT_RUN}


def series_key(case_key: str, arm: str, metric: str, hard_hash: str, method_version: int) -> str:
    """SHA-256 of what makes a series."""
    return fingerprint([case_key, arm, metric, hard_hash, method_version])


@dataclass(frozen=True, slots=True)
class Series:
    """One line of history: case, arm, metric, hard environment and the version of the measuring method."""

    case: Case
    case_key: str
    metric: str
    hard_hash: str
    method_version: int
    arm: str = "-"

    @property
    def key(self) -> str:
        """SHA-256: what `bench history` takes, whole or its beginning."""
        return series_key(self.case_key, self.arm, self.metric, self.hard_hash, self.method_version)

    @property
    def short_key(self) -> str:
        """As much of `key` as a command that is printed for somebody names."""
        return self.key[:12]


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval of a ratio."""

    low: float
    high: float
    confidence: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """The second side over the first, with its interval where there are enough processes for one."""

    value: float
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class Threshold:
    """What a difference must exceed: a share of the first side's value, and where that comes from."""

    relative: float
    source: str


@dataclass(frozen=True, slots=True)
class SideReading:
    """One side of a verdict: processes with a usable number, their median in the metric's unit, and how all its trials ended."""

    n: int
    median: float | None
    outcome: str
    """`5 ok`, `3 ok, 2 oom`, or `no rows`."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """What has changed since a series was as it should be, each in a line of words."""

    since: str
    """When the last good night began, UTC."""
    versions: tuple[str, ...] = ()
    """What is under test, then and now."""
    commits: tuple[str, ...] = ()
    """Of what is under test, newest first."""
    more_commits: int = 0
    """How many more there are."""
    environment: tuple[str, ...] = ()
    """Facts that are other now."""
    machine: str = ""
    """What the canaries say of it."""
    bisect: str | None = None
    """The command that looks for the culprit; None where there is nothing to look through."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A row whose turn did not come in a night with a budget."""

    series: Series
    last_judged: str
    """When the last night that measured it began, UTC."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found of one series on two sides. `first` is the older or the reference, `second` what is judged."""

    series: Series
    word: Word
    kind: Kind
    reason: str
    """In words, complete without the numbers beside it."""
    first: SideReading
    second: SideReading
    ratio: Ratio | None = None
    threshold: Threshold | None = None
    p: float | None = None
    """Of Welch's test that the sides are equal; None for rules that are no test."""
    p_adjusted: float | None = None
    """After Benjamini and Hochberg, over all rows judged with it."""
    effect: float | None = None
    """Cliff's delta, from -1 (every process of the second side is lower) to 1."""
    smallest_detectable: float | None = None
    """The change, as a share, that these processes would have shown in four of five such comparisons."""
    cycles: Ratio | None = None
    """The same ratio in cycles, where both sides have them."""
    counts: bool = True
    """Whether it decides the exit code: a row that nobody asked for the second time does not."""
    screening: str | None = None
    """What the nightly screen saw: `suspect`, `clear` or `learning`; None for what no screen judged."""
    accepted: str | None = None
    """Who accepted it, why and until when; None where nobody did, or the time is over."""
    notes: tuple[str, ...] = ()
    settle: str | None = None
    """The command that would settle it, where one would."""
    good_run: str | None = None
    """Of a nightly judgement: the last run in which the series was as it should be."""
    last_judged: str | None = None
    """Of a nightly judgement: when the night before this one measured it, UTC."""
    confirmed_in: str | None = None
    """The run in which it was measured again beside the last good version; None where it was not."""
    alarm: Alarm | None = None
    """Of what is worse in a night, or may be: whom to ask."""
    judging_version: int = JUDGING_VERSION

    @property
    def reader_word(self) -> str:
        """One of the five words of a first screen."""
        if self.kind is Kind.STATUS and self.word is Word.SAME:
            return DID_NOT_RUN
        return _PLAIN_WORDS.get(self.word, CANNOT_TELL)
