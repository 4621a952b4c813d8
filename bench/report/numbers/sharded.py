"""The words and groups of views of sharded steps: what a case shares out on how many ranks, and how large its model is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from bench.metrics import COLLECTIVES, PEAK_CAUSES
from bench.plan.predict import model_of
from bench.plan.spec import PlanError
from bench.plan.weights import parameters
from bench.report.numbers import units
from bench.report.numbers.layout import Section, value_text
from bench.report.numbers.predicted import MEASURED_AS
from bench.report.numbers.summary import CaseSummary

SLOT = "sharding"
NONE = "none"
PHASE_PEAKS: Mapping[str, str] = {f"{phase}_peak_bytes": phase for phase in MEASURED_AS}
"""Metric to phase."""
CAUSE_PEAKS: Mapping[str, str] = {f"peak_{cause}_bytes": cause for cause, _ in PEAK_CAUSES}
"""Metric to cause."""
EXPOSED, SENT = "exposed_communication_share", "communicated_bytes"
TOLD = (*PHASE_PEAKS, EXPOSED, SENT, *(f"{kind}_bytes" for kind in COLLECTIVES))
"""Metrics that the views of sharded steps need of each case."""
WORLD_SIZE = "world_size"
SIZES = ("layers", "hidden_size", "intermediate_size", "heads", "kv_heads", "head_dim", "vocab_size")
"""Of a model, those that decide on its weights."""
SHAPE = frozenset({
    "model", "architecture", *SIZES, "tied_embeddings", "norm_eps", "rope_theta", "rope_factor", "max_position", "sliding_window",
})  # fmt: skip
"""Parameters of a step that say which model it trains."""


def shares_steps(cases: Iterable[CaseSummary]) -> bool:
    """Whether it is asked of training steps how they are shared out."""
    return any(SLOT in case.case.subject and (case.case.world_size > 1 or case.case.subject[SLOT] != NONE) for case in cases)


def stage(case: CaseSummary) -> str:
    """What fills the slot; nothing where there is none."""
    return case.case.subject.get(SLOT, "")


def ranks_words(case: CaseSummary) -> str:
    """`2 GPUs`, `1 rank`."""
    ranks = case.case.world_size
    return f"{ranks} {rank_word(case)}{'' if ranks == 1 else 's'}"


def rank_word(case: CaseSummary) -> str:
    """What a rank is to a reader."""
    return "GPU" if case.case.device == "cuda" else "rank"


def model_weights(case: CaseSummary) -> int | None:
    """How many; None where the memory model does not know the model's sizes."""
    try:
        return parameters(model_of(case.case.params))
    except (PlanError, TypeError, ValueError):
        return None  # TypeError, ValueError: an imported row may lack sizes, or hold what is none


def weights_words(count: int) -> str:
    """`1.24 G weights`."""
    return f"{units.scaled(count, units.COUNT)} weights"


def places(section: Section, case: CaseSummary, but: Collection[str]) -> str:
    """The model and the axes of the section with the case's values, but for some: `layers 4 · seq len 2048`; nothing where none varies."""
    words = "" if "model" in but else model_words(section, case)
    return " · ".join(
        filter(None, (words, *(value_text(axis, case.axis(axis)) for axis in section.axes if axis not in {*but, *SHAPE})))
    )


def model_words(section: Section, case: CaseSummary) -> str:
    """Which of the section's models the case trains, `llama-3-8b · layers 8`; nothing where there is only one."""
    own = [other for other in section.cases if other.axis("model") == case.axis("model")]
    several = len({other.axis("model") for other in section.cases}) > 1
    varied = (axis for axis in SIZES if len({other.axis(axis) for other in own}) > 1)
    name = (str(case.axis("model")),) if several else ()
    return " · ".join((*name, *(value_text(axis, case.axis(axis)) for axis in varied)))


def alike(case: CaseSummary, but: Collection[str]) -> tuple[object, ...]:
    """What cases have in common that differ in these axes and in how they share alone."""
    subject = tuple(sorted((slot, name) for slot, name in case.case.subject.items() if slot != SLOT))
    params = tuple(sorted((name, value) for name, value in case.case.params.items() if name not in but))
    of = case.case
    ranks = None if WORLD_SIZE in but else of.world_size
    return (of.workload, subject, case.arm, str(of.pass_), of.dtype, of.device, of.cache, of.timer, ranks, params)
