"""Loads what `bench run` was given, plans it, and says the plan: everything is checked before anything is measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.cli.options import spell_duration
from bench.cli.terminal import say, table
from bench.errors import Problem, SelectionError, StoreError, SuiteError
from bench.plaintext import plain

if TYPE_CHECKING:
    from bench.catalogue import Catalogue
    from bench.machine import Device
    from bench.run import Plan, RunOptions
    from bench.store import Store
    from bench.suite import Arm, Expansion, Filter, Place, Suite


ARMS_SHOWN = 60
"""Arms that a plan lists; more are only counted."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One suite with its plan."""

    suite: Suite
    plan: Plan
    options: RunOptions
    not_measured: tuple[tuple[str, str, str, int], ...]
    """Subject, status, reason, and how many cases: known before anything is started."""


def suite_path(text: str) -> Path:
    """The file that `text` means: itself, or the one of that name in suites/."""
    path = Path(text)
    named = Path("suites") / f"{text}.yaml"
    return named if not path.exists() and path.name == text and named.exists() else path


def plan_all(suites: Sequence[str], options: RunOptions, database: str) -> tuple[Device, Catalogue, list[Planned]]:
    """Device, catalogue and one plan a suite. Raises one SuiteError with the mistakes of all files and filters.

    With several suites each run's label ends with the name of its suite, so that a label stays the name of one run.
    """
    from bench.catalogue import load_catalogue
    from bench.machine import find_device
    from bench.run import make_plan
    from bench.suite import load_suite, parse_filters

    catalogue = load_catalogue([Path(path) for path in options.plugins])
    device = find_device(options.device)
    problems: list[Problem] = []
    understood: list[str] = []
    for text in options.filters:
        try:
            parse_filters([text])
        except SuiteError as error:
            problems += error.problems
        else:
            understood.append(text)
    wanted = parse_filters(understood)
    loaded = []
    for path in dict.fromkeys(suite_path(text) for text in suites):
        try:
            suite = load_suite(path, catalogue, profile=options.profile, sets=options.sets)
        except SuiteError as error:
            problems += error.problems
            continue
        expansion = _expanded(suite, str(path), catalogue, device.kind, wanted, problems)
        if expansion is not None:
            loaded.append((path, suite, expansion))
    if problems:
        raise SuiteError(list(dict.fromkeys(problems)))
    earlier = _earlier_results(database)
    planned = []
    try:
        for path, suite, expansion in loaded:
            label = f"{options.label} ({suite.name})" if options.label and len(loaded) > 1 else options.label
            own = replace(options, label=label, suite_file=str(path), suite_folder=str(Path.cwd()))
            plan = make_plan(suite, expansion, own, store=earlier, catalogue=catalogue)
            if not plan.trials:
                raise SelectionError(f"{path}: part {options.shard} of the plan is empty; there are fewer blocks than parts")
            planned.append(Planned(suite, plan, own, _not_measured(suite, plan)))
    finally:
        if earlier is not None:
            earlier.__exit__(None, None, None)
    return device, catalogue, planned


def _expanded(
    suite: Suite, path: str, catalogue: Catalogue, device: str, wanted: Sequence[Filter], problems: list[Problem]
) -> Expansion | None:
    """The cases, or None with the mistakes added to `problems`: those of the filters, and then the suite's own as well."""
    from bench.suite import expand

    try:
        return expand(suite, catalogue, device=device, filters=wanted)
    except SelectionError as error:
        problems.append(Problem(str(error), path, key="--filter"))
    except SuiteError as error:
        problems += error.problems
        if wanted:
            # A filter that is not understood hides what is wrong with the suite's own cells.
            _expanded(suite, path, catalogue, device, (), problems)
    return None


def _earlier_results(database: str) -> Store | None:
    """The database where there is one already: planning must not make one, and an unfit one is reported when it is needed."""
    from bench.store import Store

    try:
        return Store.open(database, create=False, read_only=True)
    except StoreError:
        return None


def _not_measured(suite: Suite, plan: Plan) -> tuple[tuple[str, str, str, int], ...]:
    from bench.suite import label_of

    label = label_of(suite.to_data())
    counts: Counter[tuple[str, str, str]] = Counter()
    for case in plan.cases:
        refusal = plan.refusals.get(case.key)
        if refusal is not None:
            counts[label(case.subject), str(refusal.status), refusal.reason or ""] += 1
    return tuple((*key, count) for key, count in counts.items())


def say_plan(planned: Planned, *, gpus: int = 1) -> None:
    """Cases, trials and minutes, what was left out, and what will not be started, with the reason."""
    plan, suite = planned.plan, planned.suite
    without = sum(count for *_, count in planned.not_measured)
    say(f"\n{plain(suite.name)}: {plain(suite.question)}")
    say(f"  {_size(planned)}, about {spell_duration(plan.estimated_s)} ({plan.estimate_source})")
    if gpus > 1:
        longest_s = max(map(plan.seconds, plan.blocks))
        say(f"  on {gpus} GPUs at the same time: about {spell_duration(max(longest_s, plan.estimated_s / gpus))}")
    _say_arms(planned)
    left_out = [f"{plan.excluded} cases by the suite's rules"] if plan.excluded else []
    left_out += [f"{plan.filtered} by --filter"] if plan.filtered else []
    if left_out:
        say(f"  left out: {', '.join(left_out)}")
    if without:
        say(f"  {without} cases get a row without being started:")
        rows = [(f"  {subject}", f"{count} {status}", reason) for subject, status, reason, count in planned.not_measured]
        for line in table(("", "", ""), rows, widest=110).splitlines()[1:]:
            say(f"  {line}")


def _size(planned: Planned) -> str:
    """How much there is to measure."""
    plan, searching = planned.plan, planned.plan.searching
    if searching is None:
        return f"{len(plan.cases)} cases, {len(plan.trials)} trials in {len(plan.blocks)} blocks"
    search = searching.search
    count = sum(len(group.cases) for group in searching.groups)
    exact = f"in steps of {search.step}" if search.step else "down to an eighth of what fits"
    return (
        f"{count} searches of {search.axis} from {search.start} to {search.stop} until {search.until}, {exact}; "
        f"at most {plan.most_trials} trials"
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
        rows.append((f"  {plain(arm.label)}", "" if fills == arm.label else fills, plain(", ".join(places))))
    for line in table(("", "", ""), rows, widest=110).splitlines()[1:]:
        say(f"  {line}")
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
