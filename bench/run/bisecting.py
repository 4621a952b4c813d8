"""Halves a list of candidates until the first bad one is left, stepping round those that could not be judged; finds the candidates, too."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from packaging.version import InvalidVersion, Version

from bench.errors import SelectionError
from bench.machine import python, python_environment
from bench.machine.revision import git_variables

LOOK_UP_TIMEOUT_S = 120.0


class Side(StrEnum):
    """On which side of the culprit a candidate lies."""

    GOOD = "good"
    BAD = "bad"
    UNKNOWN = "could not be judged"


@dataclass(frozen=True, slots=True)
class Step:
    """One candidate that was looked at."""

    candidate: str
    side: Side
    words: str


@dataclass(frozen=True, slots=True)
class Found:
    """What a search came to."""

    culprits: tuple[str, ...]
    """The first bad candidate, oldest first; several where some before it could not be judged: it is one of them."""
    steps: tuple[Step, ...]


def first_bad(candidates: Sequence[str], look: Callable[[str], tuple[Side, str]]) -> Found:
    """The first bad one of `candidates`, oldest first. The last is known to be bad, and what comes before the first to be good.

    Raises ValueError without a candidate.
    """
    if not candidates:
        raise ValueError("nothing to look through")
    good, bad = -1, len(candidates) - 1
    unknown: set[int] = set()
    steps: list[Step] = []
    while open_ := [place for place in range(good + 1, bad) if place not in unknown]:
        middle = min(open_, key=lambda place: (abs(2 * place - good - bad), place))
        side, words = look(candidates[middle])
        steps.append(Step(candidates[middle], side, words))
        if side is Side.GOOD:
            good = middle
        elif side is Side.BAD:
            bad = middle
        else:
            unknown.add(middle)
    return Found(tuple(candidates[good + 1 : bad + 1]), tuple(steps))


def full_commit(source: Path, text: str) -> str | None:
    """The hash of the commit that `text` means in the repository of `source`; None where it means none."""
    said = _git(source, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{text}^{{commit}}")
    return said.strip() if said else None


def commits(source: Path, good: str, bad: str) -> list[str]:
    """Hashes of the commits after `good` up to `bad` that touch `source`, on the main line, oldest first: the last is as bad as `bad`.

    Raises SelectionError where `good` does not lead to `bad`.
    """
    if _git(source, "merge-base", "--is-ancestor", good, bad) is None:
        raise SelectionError(
            f"commit {good[:12]} is no ancestor of {bad[:12]}: a bisection needs a line that leads from good to bad"
        )
    listed = _git(source, "rev-list", "--reverse", "--first-parent", f"{good}..{bad}", "--", str(source))
    found = (listed or "").split()
    return found or [bad]


def commit_line(source: Path, commit: str) -> str:
    """A commit in a line: short hash, day and subject."""
    return (_git(source, "log", "-1", "--format=%h %cs %s", commit) or commit[:12]).strip()


def releases(name: str, good: str, bad: str, known: Sequence[str]) -> list[str]:
    """Versions of a package after `good` up to `bad`, oldest first: of `known`, or, where that is empty, of pip's index.

    Raises SelectionError where they are not in that order, or the index does not tell.
    """
    try:
        first, last = Version(good), Version(bad)
        listed = sorted(
            {Version(text): text for text in known or _on_index(name, pre=first.is_prerelease or last.is_prerelease)}.items()
        )
    except InvalidVersion as error:
        raise SelectionError(f"{name}: {error}; a version is written as in `pip list`") from None
    if first >= last:
        raise SelectionError(f"{name} {good} does not come before {bad}: a bisection goes from an older version to a newer one")
    return [*(text for version, text in listed if first < version < last), bad]


def _on_index(name: str, *, pre: bool) -> list[str]:
    command = python("-m", "pip", "index", "versions", "--disable-pip-version-check", *(["--pre"] if pre else []), name)
    try:
        done = subprocess.run(
            command, env=python_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LOOK_UP_TIMEOUT_S,
            check=False,
        )  # fmt: skip
        lines = [line for line in done.stdout.splitlines() if line.startswith("Available versions:")]
    except (OSError, subprocess.TimeoutExpired):
        lines = []
    if not lines:
        raise SelectionError(f"pip's index does not tell the versions of {name}: name those to look through with --versions A,B,C")
    return [text.strip() for text in lines[0].partition(":")[2].split(",")]


def _git(source: Path, *arguments: str) -> str | None:
    """What git says, or None where it refuses."""
    folder = source if source.is_dir() else source.parent
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], env=git_variables(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=LOOK_UP_TIMEOUT_S, check=False, errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
