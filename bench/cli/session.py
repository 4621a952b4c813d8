"""One call of `bench run` while it measures: progress, summaries, and an end with a report whatever happened in between."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.cli.fitting import paragraph, terminal_columns
from bench.cli.options import SHORT_ID, database_words, spell_duration
from bench.cli.planning import Planned
from bench.cli.terminal import note, progress_line, say, say_json
from bench.errors import BenchError, HarnessError
from bench.plaintext import plain
from bench.records import RunState

if TYPE_CHECKING:
    from bench.catalogue import Catalogue
    from bench.machine import Device
    from bench.run import Progress, RunSummary
    from bench.store import Store

INTERRUPTED = 130
LOST = 2
NOTHING_OK = 3


class Session:
    """What one call of the command measured, and how it ends: a report and an exit code whatever happened in between."""

    def __init__(self, store: Store, report_file: Path | None, *, as_json: bool) -> None:
        self._store = store
        self._report_file = report_file
        self._as_json = as_json
        self._summaries: list[RunSummary] = []
        self._runs: dict[str, None] = {}
        """Ids of all runs that have a row of ours, those that broke off included."""
        self._interrupted = False
        self._lost = False
        """Whether a GPU of several was lost; the others go on with the suites that follow."""

    def notices(self) -> None:
        """What the store has to say about itself."""
        for notice in self._store.notices:
            note(notice)

    def measure(
        self,
        planned: Sequence[Planned],
        device: Device,
        catalogue: Catalogue,
        budget_s: float | None,
        *,
        gpus: Sequence[Device] = (),
    ) -> None:
        """All suites, the most important first; the budget is for all of them. Several `gpus` measure each suite together."""
        from bench.run import execute, execute_on_gpus

        began = time.monotonic()
        for position, entry in enumerate(planned):
            left_s = None if budget_s is None else budget_s - (time.monotonic() - began)
            if left_s is not None and left_s <= 0:
                names = ", ".join(rest.suite.name for rest in planned[position:])
                note(f"the budget is spent; not begun: {names}")
                return
            options = replace(entry.options, budget_s=left_s)
            if not self._as_json:
                say(f"\nmeasuring {plain(entry.suite.name)}")
            try:
                if len(gpus) > 1:
                    summary = execute_on_gpus(entry.plan, entry.suite, gpus, self._store, options, progress=self._progress)
                else:
                    summary = execute(entry.plan, entry.suite, self._store, device, catalogue, options, progress=self._progress)
                self._took(summary)
            except KeyboardInterrupt:
                self._interrupted = True
                return
            except (BenchError, HarnessError, BrokenPipeError):
                self._leave_report_beside_an_error()
                raise
            gpus = [gpu for gpu in gpus if gpu.torch_name not in summary.lost]
            if self._interrupted or (summary.lost and not gpus):
                return
            device = gpus[0] if gpus else device

    def resume(self, text: str, device: str | None, budget_s: float | None, *, wait: bool, gpus: Sequence[Device] = ()) -> None:
        """What the run `text` still lacks; on the GPUs that began it where neither `device` nor `gpus` says otherwise."""
        from bench.run import find_gpus, resume, resume_on_gpus

        begun_on = self._store.find_run(text).options.get("gpus")
        if device is None and not gpus and isinstance(begun_on, str):
            gpus = find_gpus(begun_on)
            device = gpus[0].torch_name
        how: dict[str, Any] = {"budget_s": budget_s, "wait_for_lock": wait, "progress": self._progress}
        try:
            if len(gpus) > 1:
                self._took(resume_on_gpus(text, gpus, self._store, **how))
            else:
                self._took(resume(text, self._store, device=device, **how))
        except (BenchError, HarnessError, BrokenPipeError):
            self._leave_report_beside_an_error()
            raise

    def _took(self, summary: RunSummary) -> None:
        self._summaries.append(summary)
        self._runs[summary.run_id] = None
        self._interrupted = self._interrupted or summary.exit_code == INTERRUPTED
        self._lost = self._lost or bool(summary.lost)
        if not self._as_json:
            _say_summary(self._store, summary)

    def _progress(self, progress: Progress) -> None:
        if progress.result is not None:
            self._runs[progress.result.run_id] = None
        left = f"{spell_duration(progress.left_s)} left" if progress.done < progress.planned else "done"
        wide = len(str(progress.planned))
        note_line = f"[{progress.done:>{wide}}/{progress.planned}, {left}] {progress.text}" if progress.result else progress.text
        progress_line(note_line)

    def _leave_report_beside_an_error(self) -> None:
        """The same where something went wrong, which may be in the way of a report as well: then that error is the one to tell."""
        try:
            written = self._leave_report() if self._runs else None
        except Exception as failure:  # noqa: BLE001 - whatever it is, it must not hide the error that is being told
            _tell_failure(failure)
            return
        if written is not None:
            note(f"a report of what was measured before the error: {written}")

    def _leave_report(self) -> Path | None:
        """Renders what there is; None without --report or without a run."""
        from bench.cli.report import kind_of, write_report

        if self._report_file is None:
            return None
        stored = {run.id: run for run in self._store.runs()}
        runs = [stored[run_id] for run_id in self._runs if run_id in stored]
        if not runs:
            note("nothing was measured, so there is no report")
            return None
        write_report(self._store, runs, self._report_file, kind_of(self._report_file, None))
        return self._report_file

    def close(self) -> int:
        """The report, the last words, and the exit code."""
        written: Path | None = None
        failure: Exception | None = None
        try:
            written = self._leave_report()
        except Exception as error:  # noqa: BLE001 - the last words come first; then it is raised, or told after an interrupt
            failure = error
        if self._as_json:
            self._say_json(written)
        elif written is not None:
            say(f"\nreport: {plain(str(written))}")
        if self._interrupted:
            if failure is not None:
                _tell_failure(failure)
            return INTERRUPTED
        if failure is not None:
            raise failure
        if self._lost:
            return LOST
        return 0 if any(summary.exit_code == 0 for summary in self._summaries) else NOTHING_OK

    def _say_json(self, written: Path | None) -> None:
        from bench.report import rows_json

        stored = {run.id: run for run in self._store.runs()}
        say_json(
            {
                "runs": [
                    {
                        "run": summary.run_id,
                        "suite": stored[summary.run_id].suite,
                        "state": str(summary.state),
                        "planned_trials": summary.planned,
                        "rows_before": summary.before,
                        "rows": {str(status): count for status, count in summary.counts.items()},
                        "duration_s": summary.duration_s,
                        "lost_gpus": dict(summary.lost),
                        **rows_json([stored[summary.run_id]], self._store.results([summary.run_id], include_excluded=True)),
                    }
                    for summary in self._summaries
                    if summary.run_id in stored
                ],
                "report": str(written) if written is not None else None,
            }
        )


def _tell_failure(failure: Exception) -> None:
    """Why there is no report, where another message decides the exit code; with the traceback where it is our own fault."""
    from bench.machine import scrub

    ours = not isinstance(failure, BenchError | OSError)
    note(scrub(f"no report: {''.join(traceback.format_exception(failure)).rstrip() if ours else failure}"))


def _say_summary(store: Store, summary: RunSummary) -> None:
    from bench.cli.tables import answers, case_table, status_line, trials_with_row

    if not summary.results and not summary.before:
        say(f"\nrun {summary.run_id}: {summary.state} before its first row")
        return
    run = store.find_run(summary.run_id)
    if not summary.results and run.state is RunState.FINISHED:
        words = f"bench report {run.id[:SHORT_ID]}{database_words()}"
        say(f"\nrun {run.id}: nothing was left to measure; {words} makes its report")
        return
    results = store.results([run.id], include_excluded=True)
    room = terminal_columns()
    say(f"\n{case_table(run, results, room)}\n")
    for line in answers(run, results):
        say(paragraph(line, room))
    there = trials_with_row(store.done(run.id))
    rows = f"{there} of {summary.planned} trials have a row: {status_line(results)}"
    state = "has spent its budget" if run.state is RunState.BUDGET else f"is {run.state}"
    say(f"\nrun {run.id} {state} after {spell_duration(summary.duration_s)}; {rows}")
    database = database_words()
    for name, why in summary.lost.items():
        note(f"{name} was lost: {why}")
    if there < summary.planned or run.state is not RunState.FINISHED:
        say(f"  bench run --resume {run.id[:SHORT_ID]}{database}   goes on")
    say(f"  bench report {run.id[:SHORT_ID]}{database}         the report as one HTML file")
    if results:
        say(f"  bench show {results[0].id}{database}   one row in full")
