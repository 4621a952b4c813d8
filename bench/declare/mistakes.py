"""What is refused in the declaration of an implementation: a TypeError in words for its author."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from bench.declare.tensors import DTYPES
from bench.records import HARDWARE

PROOF_KINDS = ("kernels", "ops", "not")

_OTHER_NAMES: Mapping[str, str] = {"gpu": "cuda", **{name: ours for ours, name in DTYPES.items() if ours != "tf32"}}
"""What others call a device or a dtype, to our word for it."""


def texts(what: str, given: Any, known: Sequence[str] = ()) -> tuple[str, ...]:
    """`given` as a tuple. Refused: a lone string, which would be taken letter by letter, and words not in `known`, where that is given."""
    if isinstance(given, str):
        raise TypeError(f"{what} takes a list: [{given!r}], not {given!r}")
    if not isinstance(given, Sequence) or not all(isinstance(text, str) for text in given):
        raise TypeError(f"{what} takes a list of strings, not {given!r}")
    if known and (unknown := sorted(set(given) - set(known))):
        raise TypeError(f"unknown {what} {meant(unknown, known)}; known: {', '.join(known)}")
    return tuple(given)


def expressions(what: str, given: Any) -> tuple[str, ...]:
    """`given` as a tuple of regular expressions."""
    found = texts(what, given)
    for expression in found:
        try:
            re.compile(expression)
        except re.error as error:
            raise TypeError(f"{what}: {expression!r} is no regular expression: {error}") from error
    return found


def meant(unknown: Sequence[str], known: Sequence[str]) -> str:
    """The unknown words, each with the known one that it may stand for."""
    told = []
    for word in unknown:
        near = [_OTHER_NAMES[word]] if _OTHER_NAMES.get(word) in known else get_close_matches(word, known, n=1)
        told.append(f"{word} (did you mean {str(near[0])!r}?)" if near else word)
    return ", ".join(told)


def proof_by_device(proof: Any) -> dict[str, dict[str, tuple[str, ...]]]:
    """By device, the expressions of each of `PROOF_KINDS`.

    Takes `{"kernels": [...], "ops": [...], "not": [...]}`, or the same by device: `{"cpu": {...}, "cuda": {...}}`.
    """
    if not proof:
        return {}
    if not isinstance(proof, Mapping):
        raise TypeError(f'proof takes a mapping such as {{"kernels": [...], "ops": [...], "not": [...]}}, not {proof!r}')
    by_device = proof if set(proof) <= set(HARDWARE) else dict.fromkeys(HARDWARE, proof)
    found = {}
    for device, entry in by_device.items():
        if not isinstance(entry, Mapping):
            raise TypeError(f"proof[{device!r}] takes a mapping of kernels, ops and not, not {entry!r}")
        unknown = sorted(set(map(str, entry)) - set(PROOF_KINDS))
        if unknown:
            raise TypeError(f"proof has no {meant(unknown, PROOF_KINDS)}; it takes kernels, ops and not")
        found[device] = {kind: expressions(f"proof[{kind!r}]", entry.get(kind, ())) for kind in PROOF_KINDS}
    return found


def check_tolerance(tolerance: Any, multiplies_in: Any, products: Sequence[str]) -> None:
    """Refuses a tolerance that is no number above 0, and a format that is none of `products` or comes without a tolerance."""
    if tolerance is not None and (isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not tolerance > 0):
        raise TypeError(f"tolerance takes a number above 0, not {tolerance!r}")
    if multiplies_in is not None and multiplies_in not in products:
        raise TypeError(f"multiplies_in takes one of {', '.join(products)}, not {multiplies_in!r}")
    if multiplies_in is not None and tolerance is None:
        raise TypeError("multiplies_in needs a tolerance: what is held to rounding computes in the case's dtype")


def check_builder(builder: Callable[[Any], Any]) -> None:
    """Refuses what could not build anything: it would only be seen in a trial, or never."""
    if not inspect.isfunction(builder):
        what = f"the class {builder.__name__}" if inspect.isclass(builder) else f"a {type(builder).__name__}"
        raise TypeError(f"@implementation decorates a function of the slot's spec, not {what}; let a function return it")
    name = builder.__name__
    if not name.isidentifier():
        raise TypeError(f"a builder needs a name of its own, by which suites call it: write `def name(spec): ...`, and no {name}")
    if inspect.iscoroutinefunction(builder) or inspect.isgeneratorfunction(builder) or inspect.isasyncgenfunction(builder):
        raise TypeError(f"{name} is async or yields: a builder returns what it has built, as a plain `def {name}(spec)`")
    try:
        inspect.signature(builder, follow_wrapped=False).bind(None)
    except TypeError as error:
        raise TypeError(f"a builder gets its slot's spec and nothing else: write `def {name}(spec)` ({error})") from None
