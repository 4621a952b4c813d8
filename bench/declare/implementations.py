"""What an implementation declares, and the decorator that declares it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Never

from bench.declare.mistakes import check_builder, check_tolerance, expressions, meant, proof_by_device, texts
from bench.declare.tensors import DTYPES
from bench.records import DEVICES, HARDWARE, Case, Pass

OWN_DTYPE = "dtype"
PRODUCTS = (OWN_DTYPE, "fp8", "int8")
"""Formats in which products may be computed: the case's dtype itself, or one that is no dtype of a case."""


@dataclass(frozen=True, slots=True)
class ProofPatterns:
    """Regular expressions over the names that the profiler saw during one call.

    `kernels` are device kernels (CUDA), `ops` are operators of torch's dispatcher (any device). At least one name must match each
    positive pattern and none may match a `not_` pattern (checked against kernels and ops alike).
    """

    kernels: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    not_: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Implementation:
    """One way to fill a slot. Made by `@implementation`, found by the catalogue."""

    name: str
    slot: str
    builder: Callable[[Any], Any]
    requires: tuple[str, ...]
    """PEP 508 requirements that must be installed, such as `flash-attn>=2.5`."""
    devices: tuple[str, ...]
    dtypes: tuple[str, ...]
    passes: tuple[Pass, ...]
    proof: Mapping[str, ProofPatterns]
    """Device to patterns: the same way of computing has other kernels on a CPU than on CUDA."""
    refuses: tuple[str, ...]
    """Regular expressions over a library's error message that mean "cannot", not "broke"."""
    description: str
    source: str
    """The file that declares it."""
    tolerance: float | None = None
    """Largest relative root mean square error of outputs and gradients, where it computes something else on purpose."""
    builds: tuple[str, ...] = ()
    """Operators of a library that are compiled once on a machine, before any trial that needs them."""
    multiplies_in: str | None = None
    """Of `PRODUCTS` the one that its products are computed in, where it declares a tolerance; None: it does not say."""

    def declared_refusal(self, case: Case) -> str | None:
        """Why this implementation, by its own declaration, does not run the case; None where it does."""
        if case.hardware not in self.devices and case.device not in self.devices:
            return f"{self.name} runs on {', '.join(self.devices)}, not on {case.device}"
        if case.dtype not in self.dtypes:
            return f"{self.name} takes {', '.join(self.dtypes)}, not {case.dtype}"
        if case.pass_ not in self.passes:
            return f"{self.name} has the passes {', '.join(self.passes)}, not {case.pass_}"
        return None


def _folder(function: Callable[..., Any]) -> str:
    module = function.__module__.split(".")
    return module[-2] if len(module) >= 2 else ""


def implementation(
    misplaced: None = None,
    /,
    *,
    requires: Sequence[str] = (),
    devices: Sequence[str] = HARDWARE,
    dtypes: Sequence[str] = ("fp32", "bf16", "fp16"),
    passes: Sequence[str] = tuple(Pass),
    proof: Mapping[str, Any] | None = None,
    refuses: Sequence[str] = (),
    tolerance: float | None = None,
    builds: Sequence[str] = (),
    multiplies_in: str | None = None,
    workload: str | None = None,
    **unknown: Never,
) -> Callable[[Callable[[Any], Any]], Implementation]:
    """Declares the decorated builder as one way to fill the slot that its folder names (`workload` says it where there is no folder).

    Args:
        requires: PEP 508 requirements; a missing one makes the row `unavailable`.
        devices, dtypes, passes: what it can; anything else makes the row `unsupported`.
        proof: names that must (`kernels`, `ops`) and must not (`not`) appear under the profiler, for all devices or by device.
        refuses: patterns of library messages that mean `unsupported` and not `failed`.
        tolerance: relative root mean square error up to which outputs and gradients count as right, for what computes something else
            on purpose (a quantized layer). Without it the rule of `bench.worker.agreement` holds, which grants rounding only.
        builds: operators that `bench.worker.build` knows how to compile; one that cannot be makes the row `unavailable`.
        multiplies_in: of what declares a tolerance, the format of its products: `dtype` where that is the case's own, as of weights that
            are stored in few bits and unpacked. Work per second is then held against the limit of that format; without it against none.

    Raises TypeError for a string where a list belongs, for an unknown word, for a pattern that is no regular expression, for a tolerance
    that is no number above 0, for `multiplies_in` without one, and for a builder that is no named function of one spec.
    """
    if misplaced is not None:
        raise TypeError("write @implementation(...), with parentheses, and in them keywords alone, such as dtypes=[...]")
    if unknown:
        known = [name for name, entry in inspect.signature(implementation).parameters.items() if entry.kind is entry.KEYWORD_ONLY]
        raise TypeError(f"@implementation takes no {meant(sorted(unknown), known)}; it takes {', '.join(known)}")
    if workload is not None and not isinstance(workload, str):
        raise TypeError(f"workload takes the name of a slot, not {workload!r}")
    checked_requires = texts("requires", requires)
    checked_devices = texts("devices", devices, DEVICES)
    checked_dtypes = texts("dtypes", dtypes, tuple(DTYPES))
    checked_passes = tuple(Pass(name) for name in texts("passes", passes, tuple(Pass)))
    checked_refuses = expressions("refuses", refuses)
    checked_builds = texts("builds", builds)
    check_tolerance(tolerance, multiplies_in, PRODUCTS)

    def decorate(builder: Callable[[Any], Any]) -> Implementation:
        check_builder(builder)
        patterns = proof_by_device(proof)
        module = inspect.getmodule(builder)
        doc = inspect.getdoc(builder) or (module.__doc__ if module else None) or ""
        return Implementation(
            name=builder.__name__,
            slot=workload or _folder(builder),
            builder=builder,
            requires=checked_requires,
            devices=checked_devices,
            dtypes=checked_dtypes,
            passes=checked_passes,
            proof={device: ProofPatterns(found["kernels"], found["ops"], found["not"]) for device, found in patterns.items()},
            refuses=checked_refuses,
            description=doc.strip().split("\n\n")[0].replace("\n", " "),
            source=inspect.getsourcefile(builder) or "",
            tolerance=tolerance,
            builds=checked_builds,
            multiplies_in=multiplies_in,
        )

    return decorate
