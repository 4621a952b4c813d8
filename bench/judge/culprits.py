"""Says whom to ask about an alarm: what has changed since the last good night, in code, versions, environment and machine."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.errors import BenchError
from bench.judge.compare import Comparison
from bench.judge.environment_diff import differences, environments_of, values_words
from bench.judge.screen import Sight
from bench.judge.verdict import Alarm, Kind, Verdict, Word
from bench.machine.revision import UnderTest, commits_between, things_under_test
from bench.records import RevisionItem, Run, Status
from bench.run import RunOptions

MOST_COMMITS = 5
MOST_FACTS = 5


def with_alarms(comparison: Comparison, *, words: str = "") -> Comparison:
    """The judgement of a night in which every row that is worse, or may be, says what has changed since its last good night.

    `words` are added to commands, such as ` --db URL`.
    """
    runs = {run.id: run for run in comparison.first.runs}
    here = _here(comparison.second.runs[0])
    verdicts = []
    for verdict in comparison.verdicts:
        good = runs.get(verdict.good_run or "")
        told = good is not None and (verdict.word is Word.WORSE or (verdict.screening == Sight.SUSPECT and _slower(verdict)))
        verdicts.append(replace(verdict, alarm=_alarm(verdict, good, comparison, here, words)) if told and good else verdict)
    return replace(comparison, verdicts=tuple(verdicts))


def _slower(verdict: Verdict) -> bool:
    return verdict.word is Word.AMBIGUOUS and verdict.ratio is not None and verdict.ratio.value > 1


def _here(run: Run) -> Sequence[UnderTest]:
    """What is under test with its places, where they are on this machine; else nothing, and then no commits are told."""
    options = RunOptions.from_data(run.options)
    entries = run.suite_data.get("under_test") or ()
    plugins = [Path(plugin) for plugin in options.plugins]
    try:
        return things_under_test([str(entry) for entry in entries], plugins=plugins, root=options.suite_path)
    except (BenchError, OSError):
        return ()


def _alarm(verdict: Verdict, good: Run, comparison: Comparison, here: Sequence[UnderTest], words: str) -> Alarm:
    tonight = comparison.second.runs[0]
    then = {item.name: item for item in good.revision}
    moved = [(then.get(item.name), item) for item in tonight.revision if then.get(item.name) != item]
    sources = {found.item.name: found.source for found in here}
    commits: list[str] = []
    count = 0
    for old, new in moved:
        source = sources.get(new.name)
        if source is not None and old is not None and old.commit and new.commit and old.commit != new.commit:
            lines, all_of_them = commits_between(source, old.commit, new.commit, most=MOST_COMMITS - len(commits))
            commits += [f"{new.name}: {line}" for line in lines]
            count += all_of_them
    key = verdict.series.case_key
    before = [row for row in comparison.first.trials if row.case_key == key and row.run_id == good.id]
    own = [row for row in comparison.second.trials if row.case_key == key]
    changed = differences(environments_of(comparison.first, before), environments_of(comparison.second, own))
    facts = [f"{fact.name}: {values_words(fact.first)} → {values_words(fact.second)}" for fact in changed]
    more = [f"and {len(facts) - MOST_FACTS} facts more"] if len(facts) > MOST_FACTS else []
    return Alarm(
        good.started_at,
        tuple(f"{item.name}: {_spelled(old)} → {_spelled(item)}" for old, item in moved),
        tuple(commits),
        count - len(commits),
        (*facts[:MOST_FACTS], *more),
        _machine(comparison),
        _bisect(verdict, moved, words) if _differs(verdict) else None,
    )


def _differs(verdict: Verdict) -> bool:
    """Whether there is something to look through: not where the last good version, measured again, does not run either."""
    return verdict.confirmed_in is None or verdict.kind is not Kind.STATUS or str(Status.OK) in verdict.first.outcome.split()


def _spelled(item: RevisionItem | None) -> str:
    if item is None:
        return "not under test"
    found = " ".join(filter(None, (item.version, item.commit[:12] if item.commit else None))) or (item.diff_hash or "?")[:12]
    return f"{found} with edits" if item.dirty else found


def _machine(comparison: Comparison) -> str:
    canaries = [verdict for verdict in comparison.canaries if verdict.ratio is not None]
    if not canaries:
        return "no canary has a number to go by"
    moved = [verdict for verdict in canaries if verdict.screening == Sight.SUSPECT]
    return f"{len(moved)} of {len(canaries)} canaries moved" if moved else f"none of {len(canaries)} canaries moved"


def _bisect(verdict: Verdict, moved: Sequence[tuple[RevisionItem | None, RevisionItem]], words: str) -> str | None:
    """The command for the first thing that moved between two states that can be had again."""
    for old, new in moved:
        sides = [_side(old, new), _side(new, new)]
        if all(sides) and sides[0] != sides[1]:
            return f"bench bisect {verdict.series.short_key} {shlex.join(map(str, sides))}{words}"
    return None


def _side(item: RevisionItem | None, like: RevisionItem) -> str | None:
    if item is None:
        return None
    if item.commit is not None and (like.kind == "path" or like.dirty is not None):
        return item.commit[:12]
    return f"{item.name}=={item.version}" if item.version else None
