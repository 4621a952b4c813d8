"""What was worse when suspects of a night were measured again: more than the processes of two nights that lie apart may show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.judge.compare import compare
from bench.judge.confirm import GOOD, NEW, arms_as_sides
from bench.judge.evidence import load_evidence
from bench.judge.verdict import Verdict, Word
from bench.records import CONFIRM, Run

if TYPE_CHECKING:
    from bench.store import Store


def confirmed(store: Store, nights: Sequence[Run]) -> tuple[Verdict, ...]:
    """The verdicts on what was worse in the newest run that measured it again for one of `nights`, beside the last good version."""
    ids = {run.id for run in nights}
    again = [run for run in store.runs(suite=nights[0].suite) if run.reason == CONFIRM and run.parent_run_id in ids]
    found: dict[str, Verdict] = {}
    for run in sorted(again, key=lambda run: run.started_at, reverse=True):
        for verdict in compare(*arms_as_sides(load_evidence(store, [run]), GOOD, NEW), chosen=True).verdicts:
            found.setdefault(verdict.series.key, verdict)
    return tuple(verdict for verdict in found.values() if verdict.word is Word.WORSE)
