"""One finding of an audit: a sentence, how grave it is, the numbers that it rests on, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from bench.records import Scalar


class Severity(StrEnum):
    """`fine`: as it was meant. `look`: it costs something, and may be meant. `wrong`: what was asked for does not happen."""

    FINE = "fine"
    LOOK = "look"
    WRONG = "wrong"


ORDER = (Severity.WRONG, Severity.LOOK, Severity.FINE)


@dataclass(frozen=True, slots=True)
class Finding:
    """What is so, and by which numbers."""

    name: str
    """Of the rule that found it: stable, for programs."""
    severity: Severity
    text: str
    """One sentence without a full stop."""
    evidence: Mapping[str, Scalar] = field(default_factory=dict)
    """Names end in a unit (`_bytes`, `_s`, `_share`) or count."""
    advice: str | None = None


def fine(name: str, text: str, /, **evidence: Scalar) -> Finding:
    return Finding(name, Severity.FINE, text, evidence)


def look(name: str, text: str, advice: str | None = None, /, **evidence: Scalar) -> Finding:
    return Finding(name, Severity.LOOK, text, evidence, advice)


def wrong(name: str, text: str, advice: str | None = None, /, **evidence: Scalar) -> Finding:
    return Finding(name, Severity.WRONG, text, evidence, advice)
