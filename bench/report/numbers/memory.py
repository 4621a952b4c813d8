"""What is said of memory beside one number: which peak is compared, what it consists of, and how it grows over one step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bench.judge.thresholds import TRAINING_STEP
from bench.metrics import PEAK_CAUSES
from bench.records import Json, Pass
from bench.report.numbers import units
from bench.report.numbers.by_rank import fullest
from bench.report.numbers.summary import PEAK, PHASES, TOTAL, CaseSummary

CAUSES = tuple(cause for cause, _ in PEAK_CAUSES)
CAUSE_WORDS: Mapping[str, str] = {cause: cause.replace("_", " ") for cause in CAUSES}
CAUSE_MEANINGS: Mapping[str, str] = dict(PEAK_CAUSES)
EXPLAINED = "memory_explained"
"""The condition that holds what the pass that explains a peak saw."""
LARGEST = 2.0**63
"""No memory is larger; an imported row may say so."""


def is_training_step(case: CaseSummary) -> bool:
    """Whether the case is a whole step: forward, backward and update in one call. Of a probe no phase and no cause is looked at."""
    told = any(name in case.values for name in (*PHASES, "peak_gradients_bytes"))
    return case.case.pass_ is Pass.STEP and (told or case.case.workload == TRAINING_STEP)


def compared_memory(cases: Iterable[CaseSummary]) -> str:
    """The metric by which memory is compared.

    For training steps all that is resident counts: gradients and states live from step to step, and what lies between two steps is
    the very thing that techniques save. For all else the peak is what the call adds.
    """
    return TOTAL if any(is_training_step(case) and TOTAL in case.values for case in cases) else PEAK


def by_cause(case: CaseSummary) -> dict[str, float]:
    """Bytes of the peak by cause, causes of nothing left out; empty where the peak was not explained.

    Of several ranks those of the fullest: the largest of each cause over ranks would not add up to a peak.
    """
    if not case.usable:
        return {}
    own = fullest(case)
    if not any(f"peak_{cause}_bytes" in own for cause in CAUSES):
        # Older pages tell causes of all ranks together alone.
        own = {name: value.median for name, value in case.values.items()}
    found = {cause: own[name] for cause in CAUSES if (name := f"peak_{cause}_bytes") in own}
    return {cause: value for cause, value in found.items() if 0 < value < LARGEST}


def causes_words(causes: Mapping[str, float]) -> str:
    """`parameters 240 MiB, gradients 120 MiB`."""
    return ", ".join(f"{CAUSE_WORDS[cause]} {units.size(value)}" for cause, value in causes.items())


@dataclass(frozen=True, slots=True)
class Moment:
    """Bytes alive at one moment of the step."""

    at_s: float
    phase: str
    alive: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Explained:
    """What the pass that explains a peak saw in one trial."""

    phase: str
    peak_bytes: float
    temporaries: tuple[tuple[str, float], ...]
    timeline: tuple[Moment, ...]


def explained(case: CaseSummary) -> Explained | None:
    """Of the first trial that holds it; None where none does, or where it is not what a worker writes."""
    return next((found for result in case.counted if (found := read_explained(result.conditions.get(EXPLAINED)))), None)


def read_explained(data: Json) -> Explained | None:
    """The facts of `conditions["memory_explained"]`; None for what is not of that shape."""
    if not isinstance(data, Mapping) or not _is_size(data.get("peak_bytes")):
        return None
    temporaries, timeline = data.get("temporaries"), data.get("timeline")
    return Explained(
        phase=str(data.get("phase") or ""),
        peak_bytes=float(data["peak_bytes"]),
        temporaries=tuple(
            (str(entry.get("where") or "no operator seen"), float(entry["bytes"]))
            for entry in (temporaries if isinstance(temporaries, list | tuple) else ())
            if isinstance(entry, Mapping) and _is_size(entry.get("bytes"))
        ),
        timeline=tuple(moment for entry in (timeline if isinstance(timeline, list | tuple) else ()) if (moment := _moment(entry))),
    )


def _moment(entry: Json) -> Moment | None:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("bytes"), Mapping) or not _is_size(entry.get("at_s")):
        return None
    alive = {cause: float(entry["bytes"][cause]) for cause in CAUSES if _is_size(entry["bytes"].get(cause))}
    return Moment(float(entry["at_s"]), str(entry.get("phase") or ""), alive)


def _is_size(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < LARGEST and math.isfinite(value)
