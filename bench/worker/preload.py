"""Which trials get a branch of the fork server: learned from what earlier ones of their kind imported.

A trial leaves word of the import statements that it ran. The next that requires the same packages, with the same family of models, is
forked from a branch that has run them (`branch.py`), and imports for itself what little its own subject needs besides. A kind that nobody
has seen yet has at least what its workload says all its trials import.
"""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench.declare import Implementation
from bench.records import Case, Request
from bench.worker.branch import NOT_SHARED, Branch, Statement, open_branch
from bench.worker.cuda_answers import Properties, read_properties
from bench.worker.subject import IMPORTS_FILE, SHAREABLE, built_in_imports

FEWEST = 2
"""Trials with the same imports, this one among them, from which on they have a branch: it imports once, as this one would have."""
WORTH_S = 0.2
"""Fewer seconds of imports are left to the trials: a branch is a process, and on CUDA the proof that it is fit takes a second."""
MOST = 6
"""Branches at a time, each a few hundred megabytes; the one that was longest not used makes room."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What decides which imports trials have in common."""

    modules: tuple[str, ...]
    """That all trials of the workload import, by its word."""
    packages: tuple[str, ...]
    """In the order of their names, that the subject requires and that may be shared."""

    @property
    def at_least(self) -> tuple[Statement, ...]:
        """What is known before any trial has told: stands for all that such trials import of the same packages."""
        return tuple((module, ()) for module in self.modules)


def kind_of(case: Case) -> Kind:
    """Of built-in workloads and implementations; of others nothing is imported before its trial."""
    required = {package for slot, name in case.subject.items() for package in _packages(slot, name)}
    return Kind(built_in_imports(case), tuple(sorted(required & set(SHAREABLE))))


def _packages(slot: str, name: str) -> Iterator[str]:
    implementation = getattr(sys.modules.get(f"bench.workloads.{slot}.{name}"), name, None)
    if isinstance(implementation, Implementation):
        yield from (re.split(r"[^\w-]", requirement, maxsplit=1)[0].replace("-", "_") for requirement in implementation.requires)


class Branches:
    """Those that stand, and what is known of imports."""

    def __init__(self, unfit: Callable[[], str | None], serve: Callable[[socket.socket], None]) -> None:
        """`unfit` says why this process must not be forked, or None; `serve` is what a branch does with its end of a socket pair."""
        self._unfit = unfit
        self._serve = serve
        self._known: dict[Kind, tuple[Statement, ...]] = {}
        self._asked: dict[tuple[Statement, ...], int] = {}
        self._standing: dict[tuple[Statement, ...], Branch] = {}
        self._properties: Sequence[Properties] | None = None
        self.refused: dict[tuple[Statement, ...], str] = {}
        """Statements to the reason why they are left to the trials."""

    def standing(self) -> list[Branch]:
        """The one that was longest not used first."""
        return list(self._standing.values())

    def offer(self, request: Request) -> Branch | None:
        """The branch for a trial that is about to be forked; None where it imports for itself, or nothing."""
        kind = kind_of(request.case)
        wanted = self._known.get(kind, kind.at_least)
        NOT_SHARED[:] = [self.refused[wanted]] if wanted in self.refused else []
        if wanted in self.refused:
            wanted = kind.at_least
        if not wanted or wanted in self.refused:
            return None
        self._asked[wanted] = self._asked.get(wanted, 0) + 1
        if wanted in self._standing:
            self._standing[wanted] = self._standing.pop(wanted)
            return self._standing[wanted]
        return self._open(wanted, request) if self._asked[wanted] >= FEWEST else None

    def learn(self, request: Request, directory: Path) -> None:
        """From the word that a trial of a kind not seen before has left."""
        kind = kind_of(request.case)
        if kind in self._known:
            return
        with suppress(OSError):
            word = json.loads((directory / IMPORTS_FILE).read_text())
            told = {module.partition(".")[0] for module in kind.modules}
            further = tuple(
                (name, tuple(wanted)) for name, wanted in word["statements"] if name.partition(".")[0] in set(kind.packages) - told
            )
            if not further:
                return  # it ended before it came to them
            self._known[kind] = kind.at_least
            if word["seconds"] >= WORTH_S:
                self._known[kind] += further
                self._asked[self._known[kind]] = self._asked.get(self._known[kind], 0) + 1

    def drop(self, branch: Branch) -> None:
        """Forgets one that has ended."""
        self._standing = {wanted: kept for wanted, kept in self._standing.items() if kept is not branch}
        branch.connection.close()

    def _open(self, wanted: tuple[Statement, ...], request: Request) -> Branch | None:
        while len(self._standing) >= MOST:
            self.drop(self.standing()[0])  # at the end of its socket it leaves
        device_index = request.device_index if request.case.device == "cuda" else None
        if device_index is not None and self._properties is None:
            self._properties = read_properties()
        opened = open_branch(
            wanted,
            self._serve,
            self._unfit,
            device_index,
            self._properties or (),
            interpreter=request.case.device.endswith("-interpreter"),
        )
        if isinstance(opened, Branch):
            self._standing[wanted] = opened
            return opened
        self.refused[wanted] = opened
        NOT_SHARED[:] = [opened]
        print(f"left to the trials: {', '.join(name for name, _ in wanted)}: {opened}", flush=True)
        return None
