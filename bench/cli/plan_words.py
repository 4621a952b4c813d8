"""Says what `bench run` is about to do: cases, trials, minutes, and what will not be started; many suites in a line each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bench.cli.fitting import folded_table, paragraph, terminal_columns, widest_line
from bench.cli.options import spell_duration
from bench.cli.planning import Planned
from bench.cli.terminal import counted, say, shortened, table
from bench.plaintext import plain

if TYPE_CHECKING:
    from bench.suite import Arm, Place

ARMS_SHOWN = 60
"""Arms that a plan lists; more are only counted."""
SPELLED_OUT = 3
"""With more suites than this a plan has a line for each: nobody reads two hundred lines before the first number."""


def say_plans(planned: Sequence[Planned], *, budget_s: float | None, gpus: int, at_length: bool, on_cpu: bool = False) -> None:
    """Every plan in full where they are few or it was asked for, else a line a suite; several of them with their sum.

    `on_cpu`: a suite that has a profile for that is told so, where it was not chosen.
    """
    brief = len(planned) > SPELLED_OUT and not at_length
    if brief:
        _say_briefly(planned, gpus)
    else:
        for entry in planned:
            say_plan(entry, gpus=gpus)
    if len(planned) > 1:
        trials = counted(sum(_most_trials(entry) for entry in planned), "trial")
        about = spell_duration(sum(_seconds(entry, gpus) for entry in planned))
        most = "at most " if any(entry.plan.searching for entry in planned) else ""
        say(f"\nin all: {len(planned)} suites, {most}{trials}, about {about}")
    if budget_s is not None:
        say(
            paragraph(
                f"budget: {spell_duration(budget_s)}; when it is spent, no further block begins, and what is left can be resumed",
                terminal_columns(),
            )
        )
    if brief:
        say("a plan in full: bench run SUITE --dry-run")
    large = [entry for entry in planned if entry.options.profile is None and "cpu" in entry.suite.profiles]
    if on_cpu and large:
        names = " ".join(entry.suite.name for entry in large)
        say(
            paragraph(
                f"as it stands a suite is for a GPU; with sizes for a CPU: bench run {names} --profile cpu", terminal_columns()
            )
        )


def _say_briefly(planned: Sequence[Planned], gpus: int) -> None:
    """A line a suite, whatever the terminal: there questions end where there is no more room, `bench list suites` has them whole."""
    rows: list[tuple[str, ...]] = []
    for entry in planned:
        without = sum(count for *_, count in entry.not_measured)
        cases = "searches" if entry.plan.searching else str(len(entry.plan.cases))
        about = spell_duration(_seconds(entry, gpus))
        rows.append((entry.suite.name, cases, str(without or ""), str(_most_trials(entry)), about, entry.suite.question))
    heads, numbers, room = ("suite", "cases", "not here", "trials", "about", "question"), (1, 2, 3, 4), terminal_columns()
    if room is not None:
        left = room - widest_line(table(heads[:-1], [row[:-1] for row in rows], right=numbers)) - 2
        rows = [(*row, *([shortened(question, left)] if left >= len(heads[-1]) else [])) for *row, question in rows]
    say("\n" + table(heads[: len(rows[0])], rows, right=numbers))


def _most_trials(planned: Planned) -> int:
    return planned.plan.most_trials if planned.plan.searching else len(planned.plan.trials)


def _seconds(planned: Planned, gpus: int) -> float:
    """On several GPUs at least as long as the longest block, which stays on one of them."""
    plan = planned.plan
    return plan.estimated_s if gpus < 2 else max(max(map(plan.seconds, plan.blocks)), plan.estimated_s / gpus)


def say_plan(planned: Planned, *, gpus: int = 1) -> None:
    """Cases, trials and minutes, what was left out, and what will not be started, with the reason."""
    plan, suite = planned.plan, planned.suite
    without = sum(count for *_, count in planned.not_measured)
    say(f"\n{plain(suite.name)}: {plain(suite.question)}")
    say(f"  {_size(planned)}, about {spell_duration(plan.estimated_s)} ({plan.estimate_source})")
    if gpus > 1:
        say(f"  on {gpus} GPUs at the same time: about {spell_duration(_seconds(planned, gpus))}")
    _say_arms(planned)
    left_out = [f"{counted(plan.excluded, 'case')} by the suite's rules"] if plan.excluded else []
    left_out += [f"{plan.filtered} by --filter"] if plan.filtered else []
    if left_out:
        say(f"  left out: {', '.join(left_out)}")
    if without:
        say(f"  {counted(without, 'case')} {'gets' if without == 1 else 'get'} a row without being started:")
        _say_rows([(subject, f"{count} {status}", reason) for subject, status, reason, count in planned.not_measured])


def _say_rows(rows: Sequence[tuple[str, str, str]]) -> None:
    """Lines without a head, set in."""
    room = terminal_columns()
    text = folded_table(("", "", ""), rows, None if room is None else room - 4)
    for line in text.splitlines()[1:]:
        say(f"    {line}")


def _size(planned: Planned) -> str:
    """How much there is to measure."""
    plan, searching = planned.plan, planned.plan.searching
    if searching is None:
        return f"{counted(len(plan.cases), 'case')}, {counted(len(plan.trials), 'trial')} in {counted(len(plan.blocks), 'block')}"
    search = searching.search
    searches = sum(len(group.cases) for group in searching.groups)
    exact = f"in steps of {search.step}" if search.step else "down to an eighth of what fits"
    values = ", ".join(map(str, sorted(set(searching.guesses.values()))))
    first = f"; the first probe where `bench plan` says that the cap ends ({values})" if values else ""
    return (
        f"{searches} {'search' if searches == 1 else 'searches'} of {search.axis} from {search.start} to {search.stop} "
        f"until {search.until}, {exact}; at most {plan.most_trials} trials{first}"
    )


def _arms(planned: Planned) -> list[Arm]:
    """The arms of the suite of which the plan has a case."""
    from bench.suite import arms_of

    there = {tuple(sorted(case.subject.items())) for case in planned.plan.cases}
    return [arm for arm in arms_of(planned.suite.to_data()) if tuple(sorted(arm.subject.items())) in there]


def _say_arms(planned: Planned) -> None:
    """What is compared, where a subject is more than the name of one implementation."""
    from bench.suite.arms import clashes, composed

    data = planned.suite.to_data()
    arms = _arms(planned)
    if not any(len(arm.subject) > 1 for arm in arms):
        return
    if planned.suite.defaults:
        say(f"  defaults: {' '.join(f'{slot}={name}' for slot, name in planned.suite.defaults.items())}")
    rows = []
    for arm in arms[:ARMS_SHOWN]:
        fills = composed(arm.subject, data)
        places = [text for place in arm.places if (text := _place_words(place))]
        rows.append((plain(arm.label), "" if fills == arm.label else fills, plain(", ".join(places))))
    _say_rows(rows)
    if len(arms) > ARMS_SHOWN:
        say(f"    and {len(arms) - ARMS_SHOWN} more")
    impossible = [f"{one} + {two}" for one, two in clashes(planned.suite.pairs, data)]
    if impossible:
        say(f"  no pairs, because they fill one slot in two ways: {plain(', '.join(impossible))}")


def _place_words(place: Place) -> str:
    """Where the suite names an arm; nothing where its label says so."""
    if place.key == "ladder":
        return f"ladder {place.position}: {'+ ' + place.parts[-1] if place.parts else 'start'}"
    if place.key == "leave_one_out":
        return f"all but {place.left_out}" if place.left_out is not None else "all"
    if place.key == "pairs":
        return f"pairs: {' + '.join(place.parts) or 'none'}"
    return ""


def plan_data(planned: Planned) -> dict[str, Any]:
    """The same for programs."""
    plan = planned.plan
    return {
        "suite": planned.suite.name,
        "file": planned.options.suite_file,
        "cases": len(plan.cases),
        "trials": len(plan.trials),
        "blocks": len(plan.blocks),
        "most_trials": plan.most_trials,
        "search": plan.searching.search.model_dump(by_alias=True) if plan.searching else None,
        "arms": [
            {"label": arm.label, "subject": dict(arm.subject), "places": [asdict(place) for place in arm.places]}
            for arm in _arms(planned)
        ],
        "estimated_s": round(plan.estimated_s, 1),
        "estimate_source": plan.estimate_source,
        "excluded_cases": plan.excluded,
        "filtered_cases": plan.filtered,
        "not_measured": [
            {"subject": subject, "status": status, "reason": reason, "cases": count}
            for subject, status, reason, count in planned.not_measured
        ],
    }
