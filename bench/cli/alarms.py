"""`bench selftest --aa`: the false alarms of judging on runs of equal things, and what judging can see at their spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bench.cli.fitting import folded_table, terminal_columns
from bench.cli.terminal import note, say, say_json, table

if TYPE_CHECKING:
    from bench.judge.calibration import Calibration
    from bench.judge.resampled import NightlyCalibration
    from bench.judge.spreads import Spread

MOST_PER_THOUSAND = 10.0
"""What a 99 % interval alone would give, without band and correction: more than that, beyond chance, is a miss."""
MOST_NIGHTLY_GPU, MOST_NIGHTLY_CPU = 1.0, 5.0
"""Per 1 000 series-nights that are drawn: a machine whose cores others use too is granted more."""
ROUNDS = 40
NIGHTS = 20_000
"""Series-nights that are drawn."""
SEED = 1
SERIES_SHOWN = 40


def show_alarms(texts: Sequence[str], database: str, *, as_json: bool) -> int:
    """Calibrates on the runs that `texts` name, each within itself and each with the next; the exit code: 1 where alarms are too many.

    Raises SelectionError for runs with too few processes, of several revisions, or still going.
    """
    from bench.errors import SelectionError
    from bench.judge.calibration import between, limits, within
    from bench.judge.evidence import load_evidence
    from bench.judge.resampled import nightly
    from bench.judge.sides import demand_ended
    from bench.judge.spreads import spreads
    from bench.store import Store

    with Store.open(database, create=False, read_only=True) as store:
        for notice in store.notices:
            note(notice)
        runs = sorted({run.id: run for run in map(store.find_run, texts)}.values(), key=lambda run: run.started_at)
        if len({(run.suite, run.revision) for run in runs}) > 1:
            raise SelectionError("the runs are of several suites or revisions: whatever differs between them is no false alarm")
        demand_ended(runs)
        evidence = [load_evidence(store, [run]) for run in runs]
    found: list[tuple[str, Calibration]] = []
    for side in evidence:
        try:
            found.append((side.runs[0].id[:13], within(side, rounds=ROUNDS, seed=SEED)))
        except SelectionError as too_few:
            if len(evidence) == 1:
                raise
            note(f"run {side.runs[0].id[:13]} is only compared with the others: {too_few}")
    if len(evidence) > 1:
        found.append((f"{len(evidence)} runs, each with the next", between(evidence)))
    granted = MOST_NIGHTLY_GPU if runs[0].device == "cuda" else MOST_NIGHTLY_CPU
    nights: NightlyCalibration | None = None
    why_none = ""
    try:
        nights = nightly(evidence, nights=NIGHTS, seed=SEED)
    except SelectionError as too_few:
        why_none = str(too_few)
    scattered = spreads(evidence)
    # Of runs held against each other where there are several, else of halves of the one.
    can_show = found[-1][1].detectable_by_series
    if as_json:
        told = [{"what": what, "per_thousand": one.per_thousand, **asdict(one)} for what, one in found]
        more = [{"what": "nights", "way": "resampled", "per_thousand": nights.per_thousand, **asdict(nights)}] if nights else []
        say_json([*told, *more, _spreads_data(scattered, can_show)])
    else:
        _say(found)
        _say_spreads(scattered, can_show)
        say(_nights_words(nights, granted) if nights else f"\nWhole nights were not drawn: {why_none}")
    if nights is not None and 1000 * limits(nights.alarms, nights.nights)[0] > granted:
        return 1
    return 1 if any(one.alarms_at_least > MOST_PER_THOUSAND for _, one in found) else 0


def _nights_words(nights: NightlyCalibration, granted: float) -> str:
    """What whole nights came out as, screen and second look together."""
    found = ", ".join(f"+{(power.factor - 1) * 100:.0f} %: {power.found / power.of:.1%}" for power in nights.power)
    seen = ", ".join(f"+{(power.factor - 1) * 100:.0f} %: {power.found / power.of:.1%}" for power in nights.suspected)
    return (
        f"\nWhole nights, drawn from {nights.processes} processes or more of each of {nights.series} series: of {nights.nights} "
        f"series-nights without a change {nights.suspects} were suspect and {nights.alarms} were called better or worse "
        f"({nights.per_thousand:.2f} per 1 000, at most {nights.alarms_at_most:.2f}; {granted:g} granted).\n"
        f"Made slower on purpose: suspect {seen}; confirmed {found}."
    )


def _say(found: Sequence[tuple[str, Calibration]]) -> None:
    from bench.cli.verdicts import percent
    from bench.judge.calibration import limits

    heads = (
        "what",
        "times judged",
        "false alarms",
        "per 1 000",
        "at most",
        "n a side",
        "spread p10 / p50 / p90",
        "can show p10 / p50 / p90",
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
            " / ".join(map(percent, one.spread)),
            " / ".join(map(percent, one.detectable)) or "–",
            ", ".join(f"{count} {word}" for word, count in sorted(one.words.items())),
            f"{one.other_alarms} of {one.other_rows}",
        )
        for what, one in found
    ]
    say(folded_table(heads, rows, terminal_columns(), right=(1, 2, 3, 4, 5)))
    for what, one in found:
        rows_all, alarms_all = one.rows + one.other_rows, one.alarms + one.other_alarms
        at_most = 1000 * limits(alarms_all, rows_all)[1]
        alarms = f"{alarms_all} alarm{'' if alarms_all == 1 else 's'}"
        say(f"{one.way} {what}: {alarms} in {rows_all} judged rows of all metrics, at most {at_most:.2f} per 1 000")
    if not any(one.power for _, one in found):
        return
    say("\nHow many of the times that were made slower on purpose came out as worse:\n")
    powers = [
        (f"{one.way} {what}", *(f"{power.found}/{power.of}" if power.of else "–" for power in one.power))
        for what, one in found
        if one.power
    ]
    factors = next(one.power for _, one in found if one.power)
    say(table(("what", *(f"+{(power.factor - 1) * 100:.0f} %" for power in factors)), powers, right=(1, 2, 3, 4)))
    say("\n`at most` is the 95 % upper limit, as if rows were independent. `others` are alarms of memory, sizes and errors.")


def _spreads_data(scattered: Sequence[Spread], can_show: Mapping[str, float]) -> dict[str, Any]:
    from bench.judge.spreads import pooled_between

    rows = [
        {
            "series": one.series.key,
            "subject": dict(one.series.case.subject),
            "point": one.series.case.point_data(),
            "processes": one.processes,
            "runs": one.runs,
            "spread_of_processes": one.within,
            "spread_of_runs": one.between,
            "can_show": can_show.get(one.series.key),
        }
        for one in scattered
    ]
    return {"what": "series", "way": "spreads", "spread_of_runs": pooled_between(scattered), "series": rows}


def _say_spreads(scattered: Sequence[Spread], can_show: Mapping[str, float]) -> None:
    """Of each series how far its times scatter and what can be seen of it, the dimmest first."""
    from bench.cli.verdicts import percent, row_namer
    from bench.judge.spreads import pooled_between

    name = row_namer(one.series.case for one in scattered)
    ordered = sorted(scattered, key=lambda one: (-can_show.get(one.series.key, 0.0), -one.within))
    rows = [
        (
            name(one.series.case), str(one.processes), str(one.runs), percent(one.within), percent(one.between),
            percent(can_show.get(one.series.key)),
        )
        for one in ordered[:SERIES_SHOWN]
    ]  # fmt: skip
    say(
        "\nThe times of each series: standard deviations between processes and between runs, and the change seen in four of five cases:\n"
    )
    heads = ("what", "processes", "runs", "of processes", "of runs", "can show")
    say(folded_table(heads, rows, terminal_columns(), right=(1, 2, 3, 4, 5)))
    if len(ordered) > SERIES_SHOWN:
        say(f"{len(ordered) - SERIES_SHOWN} series more, which scatter less (--json has all)")
    if (between := pooled_between(scattered)) is not None:
        say(f"between runs, over all series: {percent(between)}")
