"""`bench selftest --aa`: the false alarms of judging on runs of equal things, and what judging can see at their spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from bench.cli.terminal import note, say, say_json, table

if TYPE_CHECKING:
    from bench.judge.calibration import Calibration

MOST_PER_THOUSAND = 10.0
"""What a 99 % interval alone would give, without band and correction: more than that, beyond chance, is a miss."""
ROUNDS = 40
SEED = 1


def show_alarms(texts: Sequence[str], database: str, *, as_json: bool) -> int:
    """Calibrates on the runs that `texts` name, each within itself and each with the next; the exit code: 1 where alarms are too many.

    Raises SelectionError for runs with too few processes, of several revisions, or still going.
    """
    from bench.errors import SelectionError
    from bench.judge.calibration import between, within
    from bench.judge.evidence import load_evidence
    from bench.judge.sides import demand_ended
    from bench.store import Store

    with Store.open(database, create=False, read_only=True) as store:
        for notice in store.notices:
            note(notice)
        runs = sorted({run.id: run for run in map(store.find_run, texts)}.values(), key=lambda run: run.started_at)
        if len({(run.suite, run.revision) for run in runs}) > 1:
            raise SelectionError("the runs are of several suites or revisions: whatever differs between them is no false alarm")
        demand_ended(runs)
        evidence = [load_evidence(store, [run]) for run in runs]
    found: list[tuple[str, Calibration]] = [(side.runs[0].id[:13], within(side, rounds=ROUNDS, seed=SEED)) for side in evidence]
    if len(evidence) > 1:
        found.append((f"{len(evidence)} runs, each with the next", between(evidence)))
    if as_json:
        say_json([{"what": what, "per_thousand": one.per_thousand, **asdict(one)} for what, one in found])
    else:
        _say(found)
    return 1 if any(one.alarms_at_least > MOST_PER_THOUSAND for _, one in found) else 0


def _say(found: Sequence[tuple[str, Calibration]]) -> None:
    heads = (
        "what",
        "times judged",
        "false alarms",
        "per 1 000",
        "at most",
        "n a side",
        "spread p10 / p50 / p90",
        "came out as",
        "others",
    )
    rows = [
        (
            f"{one.way} {what}",
            str(one.rows),
            str(one.alarms),
            f"{one.per_thousand:.2f}",
            f"{one.alarms_at_most:.2f}",
            str(one.processes),
            " / ".join(f"{spread * 100:.2g} %" for spread in one.spread),
            ", ".join(f"{count} {word}" for word, count in sorted(one.words.items())),
            f"{one.other_alarms} of {one.other_rows}",
        )
        for what, one in found
    ]
    say(table(heads, rows, right=(1, 2, 3, 4, 5), widest=90))
    say("\nHow many of the times that were made slower on purpose came out as worse:\n")
    powers = [
        (f"{one.way} {what}", *(f"{power.found}/{power.of}" if power.of else "–" for power in one.power))
        for what, one in found
        if one.power
    ]
    say(table(("what", *(f"+{(power.factor - 1) * 100:.0f} %" for power in found[0][1].power)), powers, right=(1, 2, 3, 4)))
    say("\n`at most` is the 95 % upper limit, as if rows were independent. `others` are alarms of memory, sizes and errors.")
