"""Loads what `bench run` was given and plans it: everything is checked before anything is measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cli.terminal import note
from bench.errors import Problem, SelectionError, SuiteError

if TYPE_CHECKING:
    from bench.catalogue import Catalogue
    from bench.machine import Device
    from bench.run import Plan, RunOptions
    from bench.store import Store
    from bench.suite import Expansion, Filter, Suite


@dataclass(frozen=True, slots=True)
class Planned:
    """One suite with its plan."""

    suite: Suite
    plan: Plan
    options: RunOptions
    not_measured: tuple[tuple[str, str, str, int], ...]
    """Subject, status, reason, and how many cases: known before anything is started."""


SUITES = Path("suites")


def suite_path(text: str) -> Path:
    """The file that `text` means: itself, or the one of that name in suites/. Raises SuiteError for a bare name that is neither."""
    path = Path(text)
    if path.exists() or path.name != text or path.suffix:
        return path
    named = SUITES / f"{text}.yaml"
    if not named.exists():
        known = sorted(one.stem for one in SUITES.glob("*.yaml"))
        near = get_close_matches(text, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "`bench list suites` shows what there is"
        where = f"{SUITES}/ has no suite of this name ({hint})"
        raise SuiteError(
            [
                Problem(
                    where
                    if known
                    else f"there is no such file here, and no {SUITES}/ that could hold it: name a file, or go to the folder of stepbench",
                    text,
                )
            ]
        )
    return named


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
    loaded: list[tuple[Path, Suite, Expansion]] = []
    for text in dict.fromkeys(suites):
        try:
            path = suite_path(text)
            if any(path == other for other, *_ in loaded):
                continue
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
    for notice in catalogue.notices:
        note(notice)
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
    """The database where there is one already: planning must not make one. Raises StoreError for one that a run would be refused, too."""
    from bench.store import Store
    from bench.store.location import locate
    from bench.store.schema import EmptyStoreError

    path = locate(database).path
    if path is not None and not path.exists():
        return None
    try:
        return Store.open(database, create=False, read_only=True)
    except EmptyStoreError:
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
