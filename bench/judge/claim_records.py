"""What a published claim says, on what it was made, and which rows or formula answer it; and what was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bench.records import Scalar

ANY_DEVICE, ANY_GPU = "any", "cuda"
"""Of `carries_over_to`: where a number does not hang on the hardware at all, or on nothing but that it is a GPU."""

UNITS: Mapping[str, float] = {
    "s": 1.0, "ms": 1e-3, "µs": 1e-6, "byte": 1.0, "bit": 1 / 8, "MiB": 2.0**20, "GiB": 2.0**30, "GB": 1e9, "TB": 1e12,
    "TFLOP/s": 1e12, "GB/s": 1e9, "tokens/s": 1.0, "%": 0.01, "×": 1.0,
}  # fmt: skip
"""Unit of a figure to what one of it is in seconds, bytes and counts."""

TOLERANCE = (-0.10, 0.10)


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Measured(_Form):
    """Which rows answer: of a suite, of one subject or of two, and where."""

    suite: str
    profile: str | None = None
    """Of the suite, in which the points are measured."""
    metric: str
    """A name of `bench list metrics`, or one of `DERIVED` in claim_numbers."""
    of: str
    """The subject, as the suite labels it."""
    over: str | None = None
    """What it is held against: a ratio is the number of `of` over that of `over`."""
    where: dict[str, bool | int | float | str] = Field(default_factory=dict)
    """Axes and parameters of the rows."""
    over_where: dict[str, bool | int | float | str] = Field(default_factory=dict)
    """What is other for `over`."""
    along: str | None = None
    """The axis along which an exponent is taken."""

    def sides(self) -> tuple[tuple[str, Mapping[str, Scalar]], ...]:
        """Subject and place of each side."""
        first = (self.of, self.where)
        return (first,) if self.over is None else (first, (self.over, {**self.where, **self.over_where}))


class Computed(_Form):
    """Which of the memory model's closed forms answers, and with what."""

    formula: str
    arguments: dict[str, int | float | str] = Field(default_factory=dict)


class Bounds(_Form):
    """An expectation that is no single number, in the claim's unit."""

    at_least: float | None = None
    at_most: float | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Bounds:
        if self.at_least is None and self.at_most is None:
            raise ValueError("give at_least, at_most, or both")
        return self


class Claim(_Form):
    """One thing that somebody published."""

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    says: str
    """In the source's own words or figures, short."""
    source: str
    made_on: str
    """Hardware, and versions where the source tells them."""
    configuration: str
    kind: Literal["figure", "ratio", "exponent", "ordering"]
    expected: float | Bounds | Literal["lower", "higher"]
    unit: str = "×"
    tolerance: tuple[float, float] = TOLERANCE
    """By how much a number may be off, down and up, as shares of it."""
    carries_over_to: tuple[str, ...] = (ANY_DEVICE,)
    """Where the number is the same: `any`, `cuda`, or data sheets by name."""
    differs: str | None = None
    """Why ours may be another number all the same."""
    never_here: str | None = None
    """Why nothing that is measured here is what was claimed."""
    measured_by: Measured | None = None
    computed_by: Computed | None = None

    @property
    def band(self) -> tuple[float | None, float | None]:
        """The least and the largest number that agrees, in seconds, bytes or counts."""
        scale = UNITS[self.unit]
        if isinstance(self.expected, Bounds):
            low, high = self.expected.at_least, self.expected.at_most
            return None if low is None else low * scale, None if high is None else high * scale
        if isinstance(self.expected, str):
            return None, None
        return (self.expected * (1 + self.tolerance[0]) * scale, self.expected * (1 + self.tolerance[1]) * scale)

    @model_validator(mode="after")
    def _fits_together(self) -> Claim:
        if self.unit not in UNITS:
            raise ValueError(f"unit {self.unit!r} is not known; known: {', '.join(UNITS)}")
        if (self.kind == "ordering") != isinstance(self.expected, str):
            raise ValueError("an ordering expects lower or higher, and nothing else does")
        if self.tolerance[0] > 0 or self.tolerance[1] < 0:
            raise ValueError("a tolerance goes from below or at zero to above or at zero, such as [-0.1, 0.05]")
        if self.measured_by is not None and self.computed_by is not None:
            raise ValueError("a claim is measured or computed, not both")
        if self.measured_by is None and self.computed_by is None and self.never_here is None:
            raise ValueError("give measured_by, computed_by, or never_here with the reason")
        if self.measured_by is not None:
            if (self.measured_by.over is not None) != (self.kind in ("ratio", "ordering")):
                raise ValueError("a ratio and an ordering have `over` in measured_by, and nothing else has")
            if (self.measured_by.along is not None) != (self.kind == "exponent"):
                raise ValueError("an exponent has `along` in measured_by, and nothing else has")
        return self


class Word(StrEnum):
    """What was found of a claim."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    CANNOT_TELL = "can't tell"
    """Measured, and the interval reaches across the edge of what agrees."""
    NOT_COMPARABLE = "not comparable here"


@dataclass(frozen=True, slots=True)
class Ours:
    """Our number, in seconds, bytes or counts, with its interval where there are enough processes."""

    value: float
    low: float | None
    high: float | None
    confidence: float | None
    n: int
    """Processes of the side that has fewest; sizes, of an exponent; 0 of what is computed."""
    computed: bool = False
    device: str | None = None
    rows: tuple[str, ...] = ()
    """Ids, as `bench show` takes them."""
    command: str | None = None
    """What measures, or computes, it again."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim with what was found of it."""

    claim: Claim
    word: Word
    why: str
    ours: Ours | None = None
    measure: str | None = None
    """The command that measures what the claim asks for."""
    more: bool = False
    """Not reproduced because ours goes beyond it: a better figure, or a larger effect."""
