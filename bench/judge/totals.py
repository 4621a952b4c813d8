"""Sums up many verdicts: geometric means over the rows that both sides have, and whether most rows moved together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.judge.thresholds import RULES, TIME, Manner
from bench.judge.verdict import Kind, Verdict, Word
from bench.metrics import METRICS

MASS_SHARE = 0.5
MASS_LEAST = 3
TOTALLED = (TIME, "peak_bytes", "peak_total_bytes")


@dataclass(frozen=True, slots=True)
class Total:
    """The geometric mean of one metric's ratios in one workload, over the rows with a number on both sides."""

    workload: str
    metric: str
    ratio: float
    n: int
    left_out: Mapping[str, int]
    """Rows of the workload without such a ratio, by what was found of them."""


@dataclass(frozen=True, slots=True)
class MassShift:
    """Most rows moved the same way at once: one event of the environment or of code that all share, not so many findings."""

    word: Word
    moved: int
    of: int
    canaries_moved: bool
    machine_changed: bool
    """Whether the environment, the physical GPU or the canaries differ as well, so that the code cannot be told from it."""

    @property
    def text(self) -> str:
        """In a sentence."""
        if self.canaries_moved:
            cause = "and so did the canaries, which hold no code under test: the machine moved"
        elif self.machine_changed:
            cause = "and the environment or the GPU differs: the code cannot be told from the machine"
        else:
            cause = "one cause is likelier than many: the machine, or code that all of them share"
        return f"{self.moved} of {self.of} times are {self.word} together, {cause}"


def totals(verdicts: Sequence[Verdict]) -> tuple[Total, ...]:
    """By workload and metric, in the order of names."""
    found = []
    for workload in sorted({verdict.series.case.workload for verdict in verdicts}):
        own = [verdict for verdict in verdicts if verdict.series.case.workload == workload]
        for metric in TOTALLED:
            rows = [verdict for verdict in own if verdict.series.metric == metric]
            used = [verdict.ratio.value for verdict in rows if verdict.ratio is not None and verdict.word is not Word.INVALID]
            if used:
                without = [v for v in own if v.kind is Kind.STATUS] + [v for v in rows if v.ratio is None or v.word is Word.INVALID]
                mean = math.exp(math.fsum(math.log(value) for value in used) / len(used))
                left_out = Counter("ran on neither side" if v.word is Word.SAME else str(v.word) for v in without)
                found.append(Total(workload, metric, mean, len(used), dict(left_out)))
    return tuple(found)


def mass_shift(verdicts: Sequence[Verdict], canaries: Sequence[Verdict], *, machine_changed: bool) -> MassShift | None:
    """The shift of at least half of the noisy rows, and three of them, the same way; None where there is none."""
    noisy = [verdict for verdict in verdicts if _is_noisy(verdict) and verdict.ratio is not None]
    for word in (Word.WORSE, Word.BETTER):
        moved = sum(verdict.word is word for verdict in noisy)
        if moved >= max(MASS_LEAST, MASS_SHARE * len(noisy)):
            canary = any(verdict.word is word for verdict in canaries if _is_noisy(verdict))
            return MassShift(word, moved, len(noisy), canary, machine_changed or canary)
    return None


def _is_noisy(verdict: Verdict) -> bool:
    rule = RULES.get(verdict.series.metric)
    return rule is not None and rule.manner is Manner.NOISY and verdict.series.metric in METRICS
