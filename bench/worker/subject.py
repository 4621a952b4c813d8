"""The subject of a case: finds its declarations, loads what they need, and builds it for a spec."""

from __future__ import annotations

import builtins
import importlib
import pkgutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import bench.workloads
from bench.catalogue import load_catalogue, missing_requirements
from bench.declare import Bound, Implementation, Unavailable, Unsupported, Workload
from bench.records import Case, Pass, Request
from bench.worker.weights import stored_tensors


class ImportClock:
    """Seconds spent inside import statements, wherever they are run: builders import their packages themselves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Counts the outermost imports within the block; not re-entrant."""
        real = builtins.__import__
        depth = 0

        def timed_import(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
            nonlocal depth
            if depth:
                return real(name, globals, locals, fromlist, level)
            depth = 1
            start = time.perf_counter()
            try:
                return real(name, globals, locals, fromlist, level)
            finally:
                self.seconds += time.perf_counter() - start
                depth = 0

        builtins.__import__ = timed_import
        try:
            yield
        finally:
            builtins.__import__ = real


@dataclass(frozen=True, slots=True)
class Subject:
    """What is measured, before it is built."""

    case: Case
    workload: Workload
    implementations: Mapping[str, Implementation]

    @property
    def tolerance(self) -> float | None:
        """The widest that its implementations declare; None where all must compute what the reference computes."""
        return max((impl.tolerance for impl in self.implementations.values() if impl.tolerance is not None), default=None)

    @property
    def refuses(self) -> tuple[str, ...]:
        return tuple(pattern for impl in self.implementations.values() for pattern in impl.refuses)

    def build(self, spec: Any, parameters: Mapping[str, torch.Tensor]) -> Bound:
        """Runs the builders and ties what they return to the spec and to copies of `parameters`."""
        built: Mapping[str, Any] = self.implementations
        if not self.workload.composed:
            built = {slot: impl.builder(spec) for slot, impl in self.implementations.items()}
        copies = {name: tensor.detach().clone() for name, tensor in parameters.items()}
        bound = self.workload.bind(spec, built, copies)
        frozen = self.workload.frozen(spec)
        learns = self.case.pass_.differentiates or self.case.pass_ is Pass.STEP
        for name, parameter in bound.parameters.items():
            if parameter.is_floating_point():
                parameter.requires_grad_(learns and name not in frozen)
        return bound


def import_declarations() -> None:
    """Imports all built-in workloads and implementations: light by rule, and then free for every process that is forked.

    What does not import is left to the trials that need it, where the catalogue says what is wrong.
    """
    for found in pkgutil.walk_packages(bench.workloads.__path__, "bench.workloads.", onerror=lambda _: None):
        with suppress(Exception, SystemExit):
            importlib.import_module(found.name)


def built_in_imports(case: Case) -> tuple[str, ...]:
    """What every trial of the case imports, by its workload's word; nothing of workloads from outside, nor before `import_declarations`."""
    workload: Workload | None = getattr(sys.modules.get(f"bench.workloads.{case.workload}"), "WORKLOAD", None)
    return () if workload is None else workload.imports(case)


def load_subject(request: Request) -> Subject:
    """Loads plug-ins and finds the declarations. Raises Unavailable and Unsupported where they say so themselves."""
    case = request.case
    catalogue = load_catalogue([Path(path) for path in request.plugins])
    workload = catalogue.workloads[case.workload]
    if request.weights is not None:
        workload = workload.with_weights(stored_tensors(request.weights))
    implementations = {slot: catalogue.implementation(slot, name) for slot, name in case.subject.items()}
    for slot, impl in implementations.items():
        if refusal := impl.declared_refusal(workload.seen_by(case, slot)):
            raise Unsupported(refusal)
        if impl.requires and (missing := missing_requirements(impl)):
            raise Unavailable("; ".join(missing))
    return Subject(case, workload, implementations)
