"""Which trials get a branch of the fork server: those whose imports take seconds, which others of their kind need as well.

A trial is forked from a branch (`branch.py`) that has imported the packages that its subject requires, what its workload says all its
trials import, and torch's compiler where something will be compiled. What little it needs besides it imports for itself.

The compiler is a thousand modules, which torch imports at the first call that needs them. In a branch this is in the compile times of
no trial, rather than in those of whichever came first.
"""

from __future__ import annotations

import re
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from bench.declare import Implementation
from bench.records import Case, Request
from bench.worker.branch import NOT_SHARED, Branch, Statement, open_branch
from bench.worker.cuda_answers import Properties, read_properties
from bench.worker.subject import built_in_imports

MOST = 6
"""Branches at a time, each a few hundred megabytes; the one that was longest not used makes room."""

SECOND_TRY_WITHIN_S = 20
"""After which no other branch is tried for the same trial: with its limit that would be longer than the minute that the parent waits."""

COMPILER = ("torch._inductor.compile_fx", "torch.distributed.tensor.experimental")
"""What torch imports when it compiles for the first time; the second is few modules, and registers operators for half a second."""

SHAREABLE: Mapping[str, tuple[str, ...]] = {
    "bitsandbytes": ("bitsandbytes",),
    "flash_attn_4": ("cutlass.cute", "quack"),
    "liger_kernel": ("liger_kernel.ops",),
    "peft": ("peft",),
    "torchao": ("torchao",),
}
"""Packages that take long to import, to the modules that bring nearly all that a trial imports for them.

None that looks then at what a trial sets, such as where compilers' caches lie: so not DeepSpeed, and of FlashAttention-4 only what it is
made of.
"""

BROUGHT: Mapping[str, tuple[str, ...]] = {
    "bitsandbytes": COMPILER[:1],
    "liger_kernel.ops": ("peft", "bitsandbytes", "torchao", *COMPILER),
    "peft": ("bitsandbytes", "torchao", *COMPILER),
    "torchao": COMPILER[1:],
}
"""Modules to those that they import themselves where they are installed: a trial of both needs no branch of its own."""


def compiles(case: Case) -> bool:
    """Whether torch.compile is used in the case, by us or by what a package makes of an optimizer's step."""
    chosen = {case.params.get("compile", "none"), case.subject.get("compile", "none")}
    return chosen != {"none"} or any(
        "compiled" in name or name in ("flex", "liger_chunked") or (slot == "optimizer" and name.endswith("_ao"))
        for slot, name in case.subject.items()
    )


def own_imports(case: Case) -> tuple[str, ...]:
    """Modules that trials of the case import whatever packages their subject requires."""
    return (*built_in_imports(case), *(COMPILER if compiles(case) else ()))


def shared_imports(case: Case) -> tuple[str, ...]:
    """Modules that a branch imports for trials of the case. Of the packages of plug-ins none."""
    required = {package for slot, name in case.subject.items() for package in _packages(slot, name)}
    modules = (*own_imports(case), *(module for package in sorted(required) for module in SHAREABLE.get(package, ())))
    brought = {one for module in modules for one in BROUGHT.get(module, ())}
    return tuple(module for module in modules if module not in brought)


def _packages(slot: str, name: str) -> Iterator[str]:
    implementation = getattr(sys.modules.get(f"bench.workloads.{slot}.{name}"), name, None)
    if isinstance(implementation, Implementation):
        yield from (re.split(r"[^\w-]", requirement, maxsplit=1)[0].replace("-", "_") for requirement in implementation.requires)


class Branches:
    """Those that stand, and which are not to be had."""

    def __init__(self, unfit: Callable[[], str | None], serve: Callable[[socket.socket], None]) -> None:
        """`unfit` says why this process must not be forked, or None; `serve` is what a branch does with its end of a socket pair."""
        self._unfit = unfit
        self._serve = serve
        self._standing: dict[tuple[str, ...], Branch] = {}
        self._properties: Sequence[Properties] | None = None
        self.refused: dict[tuple[str, ...], str] = {}
        """Modules to the reason why they are left to the trials."""

    def standing(self) -> list[Branch]:
        """The one that was longest not used first."""
        return list(self._standing.values())

    def offer(self, request: Request) -> Branch | None:
        """The branch for a trial that is about to be forked; None where it imports for itself, or nothing."""
        NOT_SHARED.clear()
        began = time.monotonic()
        for modules in dict.fromkeys((shared_imports(request.case), own_imports(request.case))):
            if not modules:
                continue
            if modules in self._standing:
                self._standing[modules] = self._standing.pop(modules)
                return self._standing[modules]
            if modules not in self.refused:
                if NOT_SHARED and time.monotonic() - began > SECOND_TRY_WITHIN_S:
                    break  # the next trial of the kind tries it
                opened = self._open(modules, request)
                if isinstance(opened, Branch):
                    self._standing[modules] = opened
                    return opened
                self.refused[modules] = opened
                print(f"left to the trials: {', '.join(modules)}: {opened}", flush=True)
            NOT_SHARED.append(self.refused[modules])
        return None

    def drop(self, branch: Branch) -> None:
        """Forgets one that has ended."""
        self._standing = {modules: kept for modules, kept in self._standing.items() if kept is not branch}
        branch.connection.close()

    def _open(self, modules: tuple[str, ...], request: Request) -> Branch | str:
        while len(self._standing) >= MOST:
            self.drop(self.standing()[0])  # at the end of its socket it leaves
        device_index = request.device_index if request.case.device == "cuda" else None
        if device_index is not None and self._properties is None:
            self._properties = read_properties()
        statements: list[Statement] = [(module, ()) for module in modules]
        return open_branch(
            statements,
            self._serve,
            self._unfit,
            device_index,
            self._properties or (),
            interpreter=request.case.interpreted,
        )
