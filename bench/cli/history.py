"""`bench history`: a series over its runs, with the steps in it and what changed at each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from bench.cli.fitting import folded_table, terminal_columns
from bench.cli.options import database_option, database_words, json_option
from bench.cli.terminal import counted, note, say, say_json
from bench.plaintext import plain
from bench.stats import median

if TYPE_CHECKING:
    from bench.judge.history import History, Step
    from bench.judge.points import Levels
    from bench.judge.verdict import Series
    from bench.records import Scalar

SHORT_KEY = 12
POINTS_SHOWN = 40
SERIES_SHOWN = 60
BAR_CELLS = 24
RUNS = 100


@click.command()
@click.argument("series", required=False)
@click.option("--suite", help="Only runs of this suite.")
@click.option("--metric", help="Only this metric, such as time_s or peak_bytes.")
@click.option("--filter", "filters", multiple=True, metavar="K=V", help="Only cases with this value of an axis. Can be repeated.")
@click.option("--reference", metavar="RUN", help="What to hold the latest level against: a baseline, a run, a label or a revision.")
@click.option("--last", type=click.IntRange(min=1), default=RUNS, show_default=True, metavar="N", help="Only the newest N runs.")
@database_option
@json_option
def history(
    series: str | None,
    suite: str | None,
    metric: str | None,
    filters: tuple[str, ...],
    reference: str | None,
    last: int,
    database: str,
    as_json: bool,
) -> int:
    """Show SERIES (the beginning of its key) over its runs; without it, the series that there are, those with a step for the worse first.

    A point is a run: the median over its processes. From ten points on steps are looked for: a change of level by at least 1 % (of memory,
    sizes and errors by what a night would tell), firm where two methods agree, provisional until five points have followed; of one series
    it also says which steps of the last thirty points were told and are gone. The drift is the latest level over the best one. Times are in
    s, ms or µs, memory in powers of two. Says what is there, and judges no job: the exit code is 0.
    """
    from bench.catalogue.names import unknown
    from bench.errors import SelectionError
    from bench.judge.history import find_series, histories, runs_at_rest, with_retracted
    from bench.judge.points import load_levels
    from bench.judge.sides import demand_axes, find_side, holds
    from bench.judge.thresholds import ERROR_SHARE, RULES
    from bench.records import utc_now
    from bench.store import Store
    from bench.suite import parse_filters

    judged = [name for name in RULES if name != ERROR_SHARE]
    if metric is not None and metric not in judged:
        raise SelectionError(unknown("metric of a history", metric, judged))
    wanted = parse_filters(filters)
    with Store.open(database, create=False, read_only=True) as store:
        for notice in store.notices:
            note(notice)
        runs = runs_at_rest(store, suite=suite, last=last)
        if not runs:
            suites = list(dict.fromkeys(run.suite for run in store.runs()))
            if suite and suites and suite not in suites:
                raise SelectionError(unknown("suite", suite, suites))
            raise SelectionError(f"there is no finished run{f' of suite {suite}' if suite else ''} yet. `bench run` makes one")
        case_key = find_series(store, runs, series, judged) if series is not None else None
        metrics = [metric] if metric else judged
        levels = load_levels(store, runs, metrics, case_key=case_key)
        pinned = find_side(store, reference, now=utc_now("seconds")) if reference is not None else ()
        then = load_levels(store, pinned, metrics, case_key=case_key).by_series if pinned else {}
    demand_axes(levels.cases, wanted)
    shared = {key: len(without) for key, (_, without) in levels.disturbed.items()}
    chosen = [key for key, (one, _) in levels.by_series.items() if key.startswith(series or "") and holds(one.case, wanted)]
    if not chosen and any(key.startswith(series or "") and holds(one.case, wanted) for key, (one, _) in levels.disturbed.items()):
        raise SelectionError("no run has a number of it that counts: other processes were on its GPU in each. Measure it alone")
    if not chosen and not (series or wanted or metric):
        raise SelectionError("no run has a number of a row that is ok yet: `bench show` says how their rows ended")
    if not chosen:
        raise SelectionError(f"no series answers to what was asked. `bench history{database_words()}` lists them")
    known = {key: median([level.value for level in by_run.values()]) for key, (_, by_run) in then.items()}
    found = [replace(one, reference=known.get(one.series.key)) for one in histories(levels, chosen)]
    if series:
        found = [with_retracted(one) for one in found]
    if as_json:
        say_json([_data(one, levels) for one in found])
    elif series:
        _show(found[0], levels, reference)
        if without := shared.get(found[0].series.key):
            say(f"{counted(without, 'run')} gave no point, since other processes were on its GPU")
    else:
        _list(found, levels, reference)
        if series_without := sum(key in shared for key in chosen):
            say(f"{series_without} of these series lack points of runs in which other processes were on the GPU")
    return 0


def _data(history: History, levels: Levels) -> dict[str, Any]:
    series = history.series
    return {
        "series": series.key,
        "metric": series.metric,
        "subject": dict(series.case.subject),
        "point": series.case.point_data(),
        "arm": series.arm,
        "method_version": series.method_version,
        "hardware": _hardware(series, levels),
        "points": [
            {
                "run": point.run.id,
                "started_at": point.run.started_at,
                "value": point.value,
                "n": point.n,
                "revision": point.revision,
                "environment": [asdict(difference) for difference in point.environment],
            }
            for point in history.points
        ],
        "steps": [{**asdict(step), "event": step.is_event} for step in history.steps],
        "screening": asdict(history.screening) if history.screening else None,
        "drift": history.drift,
        "reference": history.reference,
        "against_reference": history.against_reference,
        "retracted": [asdict(one) for one in history.retracted],
        "runs_beside_others": sorted(levels.disturbed[series.key][1]) if series.key in levels.disturbed else [],
    }


def _names(found: Sequence[History], levels: Levels) -> dict[str, str]:
    """By its key what to call a series: as its row is called, and of series of one name and metric what tells them apart."""
    from bench.cli.verdicts import row_namer

    name = row_namer(one.series.case for one in found)
    alike: dict[tuple[str, str], list[Series]] = {}
    for series in (one.series for one in found):
        called = name(series.case) + ("" if series.arm == "-" else f" [{series.arm}]")
        alike.setdefault((called, series.metric), []).append(series)
    return {
        series.key: " ".join((called, *more))
        for (called, _), group in alike.items()
        for series, more in zip(group, _apart([_ways(series, levels) for series in group]), strict=True)
    }


def _ways(series: Series, levels: Levels) -> dict[str, str]:
    """What is in a series beside its case and metric, in words: versions and hardware."""
    facts = {name: str(value) if name.endswith("model") else f"{name}={value}" for name, value in _hardware(series, levels).items()}
    return {"version": f"version {series.case.workload_version}", "method": f"method {series.method_version}", **facts}


def _hardware(series: Series, levels: Levels) -> Mapping[str, Scalar]:
    """The hard facts of its environment; nothing of a series without a point."""
    _, by_run = levels.by_series[series.key]
    ids = sorted({one for level in by_run.values() for one in level.environments})
    return dict(levels.environments[ids[0]].hard) if ids else {}


def _apart(ways: Sequence[Mapping[str, str]]) -> list[list[str]]:
    """Of each what the others do not all share."""
    names = [name for name in dict.fromkeys(name for one in ways for name in one) if len({one.get(name) for one in ways}) > 1]
    return [[one[name] for name in names if name in one] for one in ways]


def _list(found: Sequence[History], levels: Levels, reference: str | None) -> None:
    from bench.report.numbers.units import in_unit, metric_unit

    def over(ratio: float | None) -> str:
        return "–" if ratio is None else f"{ratio:.3f}×"

    names = _names(found, levels)
    events = {one.series.key: any(step.is_event for step in one.steps) for one in found}

    def order(one: History) -> tuple[bool, float, int, str, str]:
        series = one.series
        return not events[series.key], -(one.drift or 1.0), -len(one.points), names[series.key], series.metric

    ordered = sorted(found, key=order)
    further = (f"over {plain(reference)}",) if reference is not None else ()
    rows = [
        (
            one.series.key[:SHORT_KEY],
            names[one.series.key],
            one.series.metric,
            str(len(one.points)),
            in_unit(one.points[-1].value, metric_unit(one.series.metric)) if one.points else "–",
            over(one.drift),
            *((over(one.against_reference),) if further else ()),
            "; ".join(f"{step_words(step)} at {one.points[step.change.index].run.started_at[:10]}" for step in one.steps) or "–",
        )
        for one in ordered[:SERIES_SHOWN]
    ]
    heads = ("series", "what", "metric", "points", "latest", "drift", *further, "steps")
    say(folded_table(heads, rows, terminal_columns(), right=(3, 4, 5, 6) if further else (3, 4, 5)))
    if len(found) > SERIES_SHOWN:
        say(f"\n{len(found) - SERIES_SHOWN} series more: --filter, --metric and --suite choose among them")
    say(f"\nOne in full: bench history {rows[0][0]}{database_words()}")


def step_words(step: Step) -> str:
    """`1.05× worse, firm`, `0.97× better, weak, provisional`, `1.10× worse, firm, recovered`."""
    words = [f"{step.change.ratio:.3f}× {'worse' if step.worse else 'better'}", "firm" if step.change.firm else "weak"]
    words += [word for word, holds in (("provisional", step.change.provisional), ("recovered", step.recovered)) if holds]
    return ", ".join(words)


def _show(history: History, levels: Levels, reference: str | None) -> None:
    from bench.cli.verdicts import row_namer
    from bench.judge.drift import been_there
    from bench.judge.history import FEWEST_FOR_STEPS
    from bench.report.numbers.units import in_unit, metric_unit

    series, points = history.series, history.points
    unit = metric_unit(series.metric)
    say(f"{plain(row_namer([series.case])(series.case))}, {series.metric}, series {series.key}")
    parameters = ", ".join(
        f"{name}={value}" for name, value in {**series.case.point_data(), **series.case.params}.items() if name != "params"
    )
    say(plain(parameters))
    # Its version and its device are among the parameters.
    say(plain(", ".join(words for name, words in _ways(series, levels).items() if name not in ("version", "device"))) + "\n")
    if not points:
        say("no run has a usable number of it")
        return
    low, high = min(point.value for point in points), max(point.value for point in points)
    at = {step.change.index: step for step in history.steps}
    rows = []
    for index in range(max(0, len(points) - POINTS_SHOWN), len(points)):
        point = points[index]
        remarks = [step_words(at[index])] if index in at else []
        remarks += [f"{fact.name} changed" for fact in point.environment[:3]]
        if len(point.environment) > 3:
            remarks.append(f"{len(point.environment) - 3} facts more changed")
        value = in_unit(point.value, unit)
        rows.append(
            (
                point.run.started_at[:16],
                value,
                _bar(point.value, low, high),
                str(point.n),
                point.run.id[:13],
                point.revision,
                "; ".join(remarks),
            )
        )
    say(
        folded_table(
            ("started", "median", f"{in_unit(low, unit)} to {in_unit(high, unit)}", "n", "run", "revision", ""),
            rows,
            terminal_columns(),
            right=(1, 3),
        )
    )
    if len(points) > POINTS_SHOWN:
        say(f"\n{len(points) - POINTS_SHOWN} older points are not shown (--json has all)")
    if history.screening is not None:
        say(f"\n{history.screening.words}")
    if reference is not None:
        _say_reference(history, reference)
    if len(points) < FEWEST_FOR_STEPS:
        say(f"{len(points)} of the {FEWEST_FOR_STEPS} points from which on steps are looked for")
        return
    for step in history.steps:
        point = points[step.change.index]
        cause = f"; {', '.join(step.environment)} changed at that point too" if step.environment else ""
        say(plain(f"step at {point.run.started_at[:16]} ({point.revision or 'revision not known'}): {step_words(step)}{cause}"))
    if not history.steps:
        say("no step found")
    for gone in history.retracted:
        place, first, last = (points[index].run.started_at[:16] for index in (gone.index, gone.from_index, gone.until_index))
        told = f"told from {first} to {last}" if first != last else f"told on {first}"
        say(f"retracted: the step at {place}, {gone.ratio:.3f}× worse, {told}, is none by what came after")
    if history.drift is not None and history.drift > 1:
        been = been_there([point.value for point in points], history.drift)
        say(f"the latest level is {history.drift:.3f}× the best one{', and the series has left it before' if been else ''}")


def _say_reference(history: History, reference: str) -> None:
    if history.against_reference is None:
        say(f"the reference {plain(reference)} has no number of this series")
        return
    say(f"the latest level is {history.against_reference:.3f}× the reference {plain(reference)}")


def _bar(value: float, low: float, high: float) -> str:
    """Where `value` lies between the least and the largest point."""
    place = 0 if high == low else round((math.log(value) - math.log(low)) / (math.log(high) - math.log(low)) * (BAR_CELLS - 1))
    return "·" * place + "●"
