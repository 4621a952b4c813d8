"""The suite as data: what a file may say, and what is left of it once profile and settings are applied."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from bench.records import Json, Protocol
from bench.suite.sizes import parse_size

MAX_NAME = 300
MAX_QUESTION = 2000
_JOINERS = "\u200c\u200d"
"""Invisible, yet parts of ordinary words and emoji."""

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

    @model_validator(mode="after")
    def _ordered(self) -> ProtocolForm:
        if self.max_samples < self.min_samples:
            raise ValueError(f"max_samples ({self.max_samples}) is less than min_samples ({self.min_samples})")
        if self.max_sampling_s < self.min_sampling_s:
            raise ValueError(f"max_sampling_s ({self.max_sampling_s:g}) is less than min_sampling_s ({self.min_sampling_s:g})")
        if self.host_memory_limit is not None and self.host_memory_limit_bytes is not None:
            raise ValueError("host_memory_limit and host_memory_limit_bytes say the same thing; give one")
        return self

    def protocol(self) -> Protocol:
        """The record that the runner uses."""
        said = self.model_dump(exclude={"host_memory_limit"})
        if self.host_memory_limit is not None:
            said["host_memory_limit_bytes"] = self.host_memory_limit
        return Protocol(**said)


class SuiteForm(BaseModel):
    """What a suite file may say. What its names mean is checked against the catalogue, apart from this."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    schema_version: Literal[1] = Field(alias="schema", description="version of this form; 1")
    name: Name = Field(description="the suite's name, unique among suites")
    question: Annotated[str, Field(max_length=MAX_QUESTION), AfterValidator(_readable)] = Field(
        description="the question that the suite answers, for the head of its report"
    )
    workload: str = Field(description="what is computed; `bench list workloads`")
    subjects: dict[str, Listed] = Field(min_length=1, description="slot to the implementations that are compared")
    baseline: dict[str, str] | None = Field(None, description="slot to the implementation that the others are compared with")
    under_test: list[Annotated[str, Field(min_length=1, max_length=MAX_NAME)]] = Field(
        default_factory=list, description="packages or paths whose version is the x axis of history"
    )
    sweep: dict[str, Any] = Field(description="axis to one value or a list of values; lists are multiplied")
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
    subjects: dict[str, tuple[str, ...]]
    baseline: dict[str, str] | None = None
    under_test: tuple[str, ...] = ()
    sweep: dict[str, tuple[Any, ...]]
    """Axis to values, typed; `{"tokens": N}` is a derived batch, `{"from": model, field: [...]}` a varied model shape."""
    exclude: tuple[dict[str, Any], ...] = ()
    profiles: dict[str, dict[str, Any]] = {}
    """As the file has them, for listings; already applied, so not part of `to_data`."""
    protocol: Protocol = Protocol()
    threads: int = 1
    file: str | None = None
    """The file that it was read from, for messages."""

    def to_data(self) -> dict[str, Json]:
        """JSON-ready data from which `suite_from_data` makes the suite again."""
        data: dict[str, Json] = self.model_dump(mode="json", by_alias=True, exclude={"profiles", "file", "protocol"})
        return {**data, "protocol": dataclasses.asdict(self.protocol)}
