"""`bench rerun`: measures a stored row again and lays old and new side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from bench.cli.options import MOST_TRIALS, database_option, json_option, no_wait_option, spell_duration
from bench.cli.terminal import counted, note, progress_line, say, say_json, table

if TYPE_CHECKING:
    from bench.judge.shared_gpu import Beside
    from bench.records import Result


@click.command()
@click.argument("result")
@click.option(
    "--trials", type=click.IntRange(1, MOST_TRIALS), metavar="N", help="Fresh processes. Default: as many as its run had."
)
@click.option(
    "--device", metavar="D", help="auto, cuda, cuda:N, cpu or cpu-interpreter. Default: the kind that it was measured on."
)
@no_wait_option
@database_option
@json_option
def rerun(result: str, trials: int | None, device: str | None, no_wait: bool, database: str, as_json: bool) -> int:
    """Measure the case of RESULT (id, or the beginning of one) again in a run of its own, and compare.

    Values are medians over trials of each trial's median. The comparison is a reading, not a verdict: it says no more than the numbers.
    """
    from bench.judge.shared_gpu import load_beside
    from bench.run import Progress
    from bench.run import rerun as measure_again
    from bench.store import Store

    def tell(progress: Progress) -> None:
        left = f", {spell_duration(progress.left_s)} left" if progress.done < progress.planned else ""
        progress_line(f"[{progress.done}/{progress.planned}{left}] {progress.text}" if progress.result else progress.text)

    with Store.open(database, create=False) as store:
        for notice in store.notices:
            note(notice)
        answer = measure_again(result, store, trials=trials, device=device, wait_for_lock=not no_wait, progress=tell)
        with store.reading() as connection:
            beside = load_beside(connection, [store.find_run(one) for one in {row.run_id for row in (*answer.old, *answer.new)}])
    old_medians, new_medians = (_medians(rows, beside) for rows in (answer.old, answer.new))
    if as_json:
        say_json(
            {
                "run": answer.summary.run_id,
                "state": str(answer.summary.state),
                "old": {"trials": len(answer.old), "statuses": _statuses(answer.old), "medians": old_medians},
                "new": {"trials": len(answer.new), "statuses": _statuses(answer.new), "medians": new_medians},
            }
        )
        return answer.summary.exit_code
    say(f"old: {counted(len(answer.old), 'trial')}, {_words(_statuses(answer.old))}")
    say(f"new: {counted(len(answer.new), 'trial')}, {_words(_statuses(answer.new))} (run {answer.summary.run_id})")
    if methods := _other_method(answer.old, answer.new):
        note(methods)
    for side, rows in (("old", answer.old), ("new", answer.new)):
        if touched := sum(row.id in beside.disturbed for row in rows):
            note(
                f"other processes computed on the GPU in {touched} of {counted(len(rows), f'{side} trial')}: no time of those is told"
            )
    say()
    say(_comparison(old_medians, new_medians))
    return answer.summary.exit_code


def _medians(rows: Sequence[Result], beside: Beside) -> dict[str, float]:
    """Without what says nothing where others were on the GPU."""
    from bench.run.rerun import trial_medians
    from bench.stats import median

    return trial_medians(
        [
            replace(row, measurements=tuple(m for m in row.measurements if not beside.takes(row.id, m.metric, median(m.samples))))
            for row in rows
        ]
    )


def _other_method(old: Sequence[Result], new: Sequence[Result]) -> str | None:
    """Why times of the two sides do not compare, where they were measured by other versions of the method."""
    from bench.judge.compare import changed_method

    methods = [max((row.method_version for row in rows), default=None) for rows in (old, new)]
    before, after = methods
    return None if before is None or after is None or before == after else changed_method(before, after)


def _statuses(rows: Sequence[Result]) -> dict[str, int]:
    return dict(Counter(str(row.status) for row in rows))


def _words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {status}" for status, count in counts.items()) or "no rows"


def _comparison(old: Mapping[str, float], new: Mapping[str, float]) -> str:
    from bench.metrics import METRICS
    from bench.report.numbers.units import in_unit, ratio

    rows = []
    for name, metric in METRICS.items():
        if name not in old and name not in new:
            continue
        shown = [in_unit(side[name], metric.unit) if name in side else "" for side in (old, new)]
        times = ratio(new[name] / old[name]) if name in old and name in new and old[name] > 0 else ""
        rows.append((name, *shown, times))
    return table(("metric", "old", "new", "new / old"), rows, right=(1, 2, 3))
