"""Which trials get a branch of the fork server: learned from what earlier ones of their kind imported.

A trial leaves word of the import statements that it ran. The next of its kind, same subject and same family of models, is forked from a
branch that has run them (`branch.py`). A kind that nobody has seen yet has at least what its workload says all its trials import.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from bench.records import Case, Request
from bench.worker.branch import Branch, Statement, open_branch
from bench.worker.cuda_answers import Properties, read_properties
from bench.worker.subject import IMPORTS_FILE, built_in_imports

FEWEST = 2
"""Trials with the same imports, this one among them, from which on they have a branch: it imports once, as this one would have."""
WORTH_S = 0.2
"""Fewer seconds of imports are left to the trials: a branch is a process, and on CUDA the proof that it is fit takes a second."""
MOST = 6
"""Branches at a time, each a few hundred megabytes; the one that was longest not used makes room."""

Kind = tuple[str, tuple[tuple[str, str], ...], tuple[str, ...]]


def kind_of(case: Case) -> Kind:
    """Cases of one kind import the same."""
    return case.workload, tuple(sorted(case.subject.items())), built_in_imports(case)


def _at_least(kind: Kind) -> tuple[Statement, ...]:
    """What the workload says, which stands for all that such trials import of the same packages."""
    return tuple((module, ()) for module in kind[2])


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
        at_least = _at_least(kind)
        wanted = self._known.get(kind, at_least)
        if wanted in self.refused:
            wanted = at_least
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
            told = {name.partition(".")[0] for name in kind[2]}
            further = tuple((name, tuple(wanted)) for name, wanted in word["statements"] if name.partition(".")[0] not in told)
            self._known[kind] = _at_least(kind)
            if further and word["seconds"] >= WORTH_S:
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
        print(f"left to the trials: {', '.join(name for name, _ in wanted)}: {opened}", flush=True)
        return None
