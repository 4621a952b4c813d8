"""From a suite file, a profile and `--set` to a valid suite, or to one error with every mistake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.catalogue import Catalogue, nearest
from bench.declare import Workload
from bench.errors import Problem, SuiteError
from bench.suite.check import Checker, collected
from bench.suite.check_arms import Shorthands
from bench.suite.model import Suite
from bench.suite.overlay import with_profile, with_settings
from bench.suite.source import SETTING, Source, read_file


def load_suite(path: Path, catalogue: Catalogue, *, profile: str | None = None, sets: Sequence[str] = ()) -> Suite:
    """The suite in `path` with one profile and then each `key=value` of `sets` laid over it.

    All profiles of the file are checked, whichever is chosen. Raises SuiteError with every mistake, each with its line and key.
    """
    path = Path(path)
    try:
        source = read_file(path)
    except SuiteError as error:
        raise _with_neighbour(error, path) from None
    return _suite(source, catalogue, profile, sets)


def suite_from_data(data: Mapping[str, Any], catalogue: Catalogue) -> Suite:
    """The suite that gave `data` by `to_data`, checked again. Raises SuiteError, for one where an implementation is gone since.

    Its shorthands mean what they meant then.
    """
    written = {key: value for key, value in data.items() if key != "shorthands"}
    return _suite(Source(written), catalogue, None, (), data.get("shorthands"))


def _suite(
    source: Source, catalogue: Catalogue, profile: str | None, sets: Sequence[str], shorthands: Shorthands | None = None
) -> Suite:
    if not isinstance(source.data, dict):
        message = "is empty" if source.data is None else "must be a mapping of keys (schema, name, question, workload, ...)"
        raise SuiteError([Problem(message, source.file)])
    workload = source.data.get("workload")
    found = catalogue.workloads.get(workload) if isinstance(workload, str) else None
    # A word that is a parameter as well means the parameter where it stands alone; `subjects` takes the other.
    slots = {*found.slots, *found.shorthands} - {param.name for param in found.params} if found else set()
    problems: list[Problem] = []
    chosen = source
    profiles = source.data.get("profiles")
    for name in profiles if isinstance(profiles, dict) else ():
        layered, mistakes = with_profile(source, name, slots)
        problems += mistakes
        if name == profile:
            chosen = layered
        else:
            problems += Checker(layered, catalogue, complete=False).problems
    if profile is not None and chosen is source:
        problems += with_profile(source, profile, slots)[1]
    if sets:
        chosen, mistakes = with_settings(chosen, sets, slots)
        problems += mistakes
    if chosen is not source:
        problems += Checker(source, catalogue, complete=False).problems
    checked = Checker(chosen, catalogue, shorthands=shorthands)
    problems += checked.problems
    if checked.suite is not None and found is not None:
        problems += _settings_without_use(checked.suite, found, sets)
    if problems or checked.suite is None:
        raise collected(problems)
    return checked.suite


def _settings_without_use(suite: Suite, workload: Workload, sets: Sequence[str]) -> list[Problem]:
    """Parameters that somebody set and no case of the suite has, such as a window where no mask slides: to ignore them would mislead.

    In a file that is no mistake: a profile may have narrowed the very axis that the parameter belongs to.
    """
    problems = []
    defaults = {param.name: param.default for param in workload.params}
    for param in workload.params:
        keys = {text.partition("=")[0].strip() for text in sets} & {param.name, f"sweep.{param.name}"}
        if not keys or param.only_where is None:
            continue
        axis, value = param.only_where
        if value not in suite.sweep.get(axis, (defaults.get(axis),)):
            message = (
                f"no case of this suite uses {param.name}: it belongs to {axis}={value} alone (set that as well, or leave this out)"
            )
            problems += [Problem(message, SETTING, key=key) for key in sorted(keys)]
    return problems


def _with_neighbour(error: SuiteError, path: Path) -> SuiteError:
    """Adds the name of a suite file beside a missing one, where one is nearly called so."""
    if path.exists() or not path.parent.is_dir():
        return error
    near = nearest(path.name, sorted(other.name for other in path.parent.glob("*.y*ml")))
    if near is None:
        return error
    first = error.problems[0]
    return SuiteError([Problem(first.message, first.file, suggestion=str(path.with_name(near)))])
