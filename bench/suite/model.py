"""The suite as data: what a file may say, and what is left of it once profile and settings are applied."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from bench.errors import Problem
from bench.records import Json, Protocol
from bench.suite.sizes import parse_size
from bench.suite.source import Place

MAX_NAME = 300
MAX_QUESTION = 2000
MAX_ENTRIES = 1000
"""Arms that a suite writes down."""
MAX_PARTS = 100
"""Of a ladder, leave-one-out or pairs, which make more arms of them."""
_JOINERS = "\u200c\u200d"
"""Invisible, yet parts of ordinary words and emoji."""

_OPTIONAL = ("defaults", "shorthands", "subjects", "arms", "ladder", "leave_one_out", "pairs", "search")
_DEFAULTS = Protocol()
_DAY_S = 86_400.0


def _readable(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    odd = next((char for char in text if not (char.isprintable() or char in _JOINERS)), None)
    if odd is not None:
        raise ValueError(f"holds the unprintable character U+{ord(odd):04X}")
    return text


def _size(value: Any) -> Any:
    return value if value is None else parse_size(value)


Name = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(_readable)]
Seconds = Annotated[float, Field(gt=0, le=_DAY_S)]
Listed = Annotated[list[Annotated[str, Field(min_length=1, max_length=MAX_NAME)]], Field(min_length=1)]


class ProtocolForm(BaseModel):
    """What a file may say under `protocol`: only what changes precision."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    trials: int = Field(_DEFAULTS.trials, ge=1, le=10_000, description="fresh processes per case")
    timeout_s: Seconds = Field(_DEFAULTS.timeout_s, description="seconds after which a trial is ended")
    min_samples: int = Field(_DEFAULTS.min_samples, ge=1, le=1_000_000, description="fewest samples of a trial")
    max_samples: int = Field(_DEFAULTS.max_samples, ge=1, le=1_000_000, description="most samples of a trial")
    target_relative_noise: float = Field(
        _DEFAULTS.target_relative_noise, gt=0, lt=1, description="stop when the mean's standard error is this part of the mean"
    )
    min_sampling_s: float = Field(_DEFAULTS.min_sampling_s, ge=0, le=_DAY_S, description="fewest seconds of sampling")
    max_sampling_s: Seconds = Field(_DEFAULTS.max_sampling_s, description="most seconds of sampling")
    max_warmup_s: Seconds = Field(_DEFAULTS.max_warmup_s, description="most seconds of warm-up")
    host_memory_limit_bytes: int | None = Field(None, ge=1, description="cap on a CPU trial's private memory in bytes")
    host_memory_limit: Annotated[int | None, BeforeValidator(_size, json_schema_input_type=str | float | None)] = Field(
        None, description="the same as a size: 2GB is 2e9 bytes, 2GiB is 2 * 2**30 bytes, a bare number is GB"
    )

    probe: bool = Field(
        _DEFAULTS.probe,
        description="only whether it fits: two calls at the measured shape, of which one is timed and its peak counted",
    )

    @model_validator(mode="after")
    def _ordered(self) -> ProtocolForm:
        if self.max_samples < self.min_samples:
            raise ValueError(f"max_samples ({self.max_samples}) is less than min_samples ({self.min_samples}): give both")
        if self.max_sampling_s < self.min_sampling_s:
            raise ValueError(
                f"max_sampling_s ({self.max_sampling_s:g}) is less than min_sampling_s ({self.min_sampling_s:g}): give both"
            )
        if self.host_memory_limit is not None and self.host_memory_limit_bytes is not None:
            raise ValueError("host_memory_limit and host_memory_limit_bytes say the same thing; give one")
        return self

    def protocol(self, *, trials: int | None = None) -> Protocol:
        """The record that the runner uses; `trials` stands where the file does not say how many."""
        said = self.model_dump(exclude={"host_memory_limit"})
        if trials is not None and "trials" not in self.model_fields_set:
            said["trials"] = trials
        if self.host_memory_limit is not None:
            said["host_memory_limit_bytes"] = self.host_memory_limit
        return Protocol(**said)


class Search(BaseModel):
    """A search for the largest value of an axis that fits, for each subject at each point of the sweep.

    Probes double from `from` until one runs out of memory or `to` is reached. Then they halve the gap between the largest value that
    fits and the smallest that does not, down to `step`; without a step, down to an eighth of the value that fits. Under a `memory_limit`
    and `protocol: {probe: true}` they begin where `bench plan` says that the limit ends, and go away from there.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)

    axis: str = Field(description="the parameter that is searched: a whole number, such as seq_len or batch")
    until: Literal["oom"] = Field(description="what ends the search of a subject: oom")
    start: int = Field(alias="from", ge=1, le=2**40, description="the first and lowest value")
    stop: int = Field(alias="to", ge=1, le=2**40, description="the highest value")
    step: int | None = Field(None, ge=1, description="values are `from` plus multiples of this, and the answer is exact to it")

    @model_validator(mode="after")
    def _ordered(self) -> Search:
        if self.stop < self.start:
            raise ValueError(f"to ({self.stop}) is less than from ({self.start})")
        return self


Parts = Annotated[dict[str, dict[str, Any]], Field(min_length=1, max_length=MAX_PARTS)]


class SuiteForm(BaseModel):
    """What a suite file may say. What its names mean is checked against the catalogue, apart from this."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    schema_version: Literal[1] = Field(alias="schema", description="version of this form; 1")
    name: Name = Field(description="the suite's name, unique among suites")
    question: Annotated[str, Field(max_length=MAX_QUESTION), AfterValidator(_readable)] = Field(
        description="the question that the suite answers, for the head of its report"
    )
    workload: str = Field(description="what is computed; `bench list workloads`")
    defaults: dict[str, str] = Field(
        default_factory=dict,
        description="slot to what fills it where a subject says nothing, laid over the workload's own defaults",
    )
    subjects: Annotated[dict[str, Listed], Field(min_length=1)] | None = Field(
        None, description="slot to the implementations that are compared; several slots are multiplied"
    )
    arms: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MAX_ENTRIES)] | None = Field(
        None, description="instead of subjects: each entry fills some slots, over the defaults, and may have a name"
    )
    ladder: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MAX_PARTS)] | None = Field(
        None, description="arms: the defaults, then each entry on top of those before it"
    )
    leave_one_out: Parts | None = Field(None, description="arms: all of these parts together, and all but each one")
    pairs: Parts | None = Field(None, description="arms: the defaults, each of these parts alone, and every two of them")
    baseline: dict[str, str] | None = Field(None, description="slot to the implementation that the others are compared with")
    under_test: list[Annotated[str, Field(min_length=1, max_length=MAX_NAME)]] = Field(
        default_factory=list, description="packages or paths whose version is the x axis of history"
    )
    sweep: dict[str, Any] = Field(description="axis to one value or a list of values; lists are multiplied")
    search: Search | None = Field(None, description="a search for the largest value of one axis that fits in memory")
    exclude: list[dict[str, Any]] = Field(
        default_factory=list, description="cells to leave out: all conditions of a rule must hold"
    )
    profiles: dict[str, dict[str, Any]] = Field(default_factory=dict, description="named changes, chosen with --profile")
    protocol: ProtocolForm = Field(
        default_factory=lambda: ProtocolForm.model_validate({}), description="what only changes precision"
    )
    threads: int = Field(1, ge=1, le=4096, description="CPU threads of a trial")


class Suite(BaseModel):
    """One question, valid against the catalogue, with profile and settings applied. Order is the file's order."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    schema_version: Literal[1] = Field(1, alias="schema")
    name: str
    question: str
    workload: str
    defaults: dict[str, str] = {}
    """Of all slots that have one, in the workload's order: the suite's laid over the workload's."""
    shorthands: dict[str, dict[str, str]] = {}
    """Each shorthand that the suite uses, as `layers=liger`, to the slots that it fills."""
    subjects: dict[str, tuple[str, ...]] = {}
    """As written, like the next four; see `bench.suite.arms` for what they mean."""
    arms: tuple[dict[str, Any], ...] = ()
    ladder: tuple[dict[str, Any], ...] = ()
    leave_one_out: dict[str, dict[str, str]] = {}
    pairs: dict[str, dict[str, str]] = {}
    baseline: dict[str, str] | None = None
    """Complete: every slot of the workload."""
    under_test: tuple[str, ...] = ()
    sweep: dict[str, tuple[Any, ...]]
    """Axis to values, typed; `{"tokens": N}` is a derived batch, `{"from": model, field: [...]}` a varied model shape."""
    search: Search | None = None
    exclude: tuple[dict[str, Any], ...] = ()
    profiles: dict[str, dict[str, Any]] = {}
    """As the file has them, for listings; already applied, so not part of `to_data`."""
    protocol: Protocol = Protocol()
    threads: int = 1
    file: str | None = None
    """The file that it was read from, for messages."""
    places: dict[str, Place] = {}
    """Of keys that hold for all cases together, where they were written, for messages."""

    def problem(self, key: str, message: str) -> Problem:
        """A problem that points at where `key` was written, as far as that is known."""
        place = self.places.get(key) or Place(self.file, None, key)
        return Problem(message, place.file, place.line, place.key)

    def to_data(self) -> dict[str, Json]:
        """JSON-ready data from which `suite_from_data` makes the suite again, and `arms_of` its arms; what says nothing is left out."""
        data: dict[str, Json] = self.model_dump(mode="json", by_alias=True, exclude={"profiles", "file", "places", "protocol"})
        silent = {key for key in _OPTIONAL if not data[key]}
        return {**{key: value for key, value in data.items() if key not in silent}, "protocol": dataclasses.asdict(self.protocol)}
