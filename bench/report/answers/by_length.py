"""What to switch on to train a model at several lengths on one GPU: ways that are measured there, and what is predicted of the others.

The fastest is so among those that train all weights in the plainest code's numerics. What computes in other numbers, as float8 products or
8-bit states do, is another question: it is told beside it, never in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from bench.judge.thresholds import FEWEST, MARGIN
from bench.plan.costs import MeasuredStep
from bench.plan.devices import gpu_named
from bench.plan.fits import OPTIMIZER_TOKENS, Choice, choices
from bench.plan.moments import Target
from bench.plan.predict import peak_bytes
from bench.plan.rounding import needed_bytes
from bench.plan.spec import PlanError, TrainSpec, model_named
from bench.report.answers.numerics import OPTIMIZERS, other_numerics
from bench.report.answers.trained import Step, Trained, way_of

FLASH: Mapping[str, str] = MappingProxyType({"attention": "sdpa_flash", "optimizer": "adamw_fused"})
"""What transformers 5 does by itself: `get_correct_attn_implementation` takes SDPA, which gets no mask where nothing is padded and so runs
FlashAttention, and `TrainingArguments.optim` is adamw_torch_fused."""
LIGER: Mapping[str, str] = MappingProxyType(
    {**FLASH, "rms_norm": "liger", "rope": "liger", "swiglu": "liger", "linear_cross_entropy": "liger"}
)
CHECKPOINTED: Mapping[str, str] = MappingProxyType({**LIGER, "checkpointing": "full"})
EIGHT_BIT: Mapping[str, str] = MappingProxyType({**CHECKPOINTED, "optimizer": "adamw8bit_bnb"})
COMPILED: Mapping[str, str] = MappingProxyType({**FLASH, "linear_cross_entropy": "chunked", "compile": "layer"})


@dataclass(frozen=True, slots=True)
class Way:
    """One line of the table: what it is called, and what fills its slots."""

    name: str
    slots: Mapping[str, str]
    where_measured: bool = False
    """Whether it is told only where some length of it was measured."""

    @property
    def all_weights(self) -> bool:
        """Whether the model's own weights learn."""
        return self.slots.get("adaptation", "full") == "full"

    @property
    def other_numerics(self) -> Mapping[str, str]:
        """Slot to what makes it compute in other numbers than the plainest code; empty where nothing does."""
        return other_numerics(self.slots)


WAYS: Sequence[Way] = (
    Way("eager attention, plain layers", {}),
    Way("FlashAttention, fused AdamW, as transformers comes", FLASH),
    Way("FlashAttention, fused AdamW, full checkpointing", {**FLASH, "checkpointing": "full"}, where_measured=True),
    Way("fused kernels", LIGER),
    Way("fused kernels, FlashAttention-4", {**LIGER, "attention": "flash_attn4"}, where_measured=True),
    Way("compiled layers", COMPILED, where_measured=True),
    Way("compiled layers, float8", {**COMPILED, "linear": "float8_training_tensorwise"}, where_measured=True),
    Way("fused kernels, full checkpointing", CHECKPOINTED),
    Way("fused kernels, checkpoints on the host", {**LIGER, "checkpointing": "full_offloaded"}, where_measured=True),
    Way("fused kernels, full checkpointing, 8-bit AdamW", EIGHT_BIT),
    Way("fused kernels, full checkpointing, fp32 master weights", {**CHECKPOINTED, "precision": "bf16_master"}),
    Way("fused kernels, full checkpointing, autocast", {**CHECKPOINTED, "precision": "bf16_amp"}, where_measured=True),
    Way(
        "fused kernels, full checkpointing, fp32 master weights, 8-bit AdamW",
        {**EIGHT_BIT, "precision": "bf16_master"},
        where_measured=True,
    ),
    Way("LoRA, fused kernels", {**LIGER, "adaptation": "lora"}),
    Way("LoRA, fused kernels, full checkpointing", {**CHECKPOINTED, "adaptation": "lora"}),
    Way("QLoRA, fused kernels, full checkpointing, 8-bit AdamW", {**EIGHT_BIT, "adaptation": "lora", "linear": "nf4_bnb"}),
)
"""From the plainest code, by way of what transformers does where nobody says anything, to what fits where nothing else does."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A way at a length."""

    way: Way
    seq_len: int
    trained: Trained | None
    predicted_bytes: int | None
    """None where there are no formulas."""
    fits: bool | None
    """By the prediction."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """The table of one model on one GPU."""

    model: str
    gpu: str
    memory_bytes: int
    lengths: tuple[int, ...]
    rows: tuple[tuple[Way, tuple[Cell, ...]], ...]
    fastest: Mapping[int, Cell]
    """Length to the way of the lowest measured time that trains all weights in the plainest code's numerics; none where none has a time."""
    beside: Mapping[int, int]
    """Length to how many ways that is the fastest of."""
    not_apart: Mapping[int, tuple[Cell, ...]]
    """Length to those of them that so few trials cannot tell from the fastest."""
    otherwise: Mapping[int, int]
    """Length to how many ways have a time that was measured on other hardware or by another method."""
    in_other_numerics: Mapping[int, tuple[Cell, ...]]
    """Length to those that had less time than the fastest, or are all that has one, but compute in other numbers: the fastest of each."""
    expected: Mapping[int, Choice | None]
    """Length to what `bench plan` puts first among those that fit and train all weights, in the same numerics where any of them does."""


def by_length(
    model: str, gpu: str, lengths: Sequence[int], found: Mapping[Step, Trained], steps: Iterable[MeasuredStep]
) -> Lengths:
    """The table of `WAYS`. `found` was measured on that GPU. Raises PlanError for a model or GPU that is not known."""
    spec, device = model_named(model), gpu_named(gpu)
    target, known = Target(workspace_bytes=device.workspace_bytes), tuple(steps)

    def cell(way: Way, seq_len: int) -> Cell:
        there = found.get(Step(model, seq_len, way_of(way.slots)))
        try:
            slots: dict[str, Any] = dict(way.slots)
            peak = peak_bytes(spec, TrainSpec(seq_len=seq_len, **slots), target)
        except PlanError:
            return Cell(way, seq_len, there, None, None)
        return Cell(way, seq_len, there, peak, needed_bytes(peak) <= device.memory_bytes)

    def first(seq_len: int) -> Choice | None:
        asked = TrainSpec(seq_len=seq_len, attention=FLASH["attention"])
        for optimizers in (OPTIMIZERS, OPTIMIZER_TOKENS):
            ways = choices(spec, asked, device.memory_bytes, most=2, steps=known, gpu=gpu, target=target, optimizers=optimizers)
            if best := next((way for way in ways[1:] if way.fits and way.train.adaptation == "full"), None):
                return best
        return None

    rows = [(way, tuple(cell(way, seq_len) for seq_len in lengths)) for way in WAYS]
    shown = tuple(row for row in rows if not row[0].where_measured or any(cell.trained is not None for cell in row[1]))
    timed = {seq_len: comparable([cells[place] for _, cells in shown]) for place, seq_len in enumerate(lengths)}
    fastest = {seq_len: max(cells, key=_tokens_per_s) for seq_len, cells in timed.items() if cells}
    all_timed = {seq_len: _timed([cells[place] for _, cells in shown]) for place, seq_len in enumerate(lengths)}
    return Lengths(
        model, gpu, device.memory_bytes, tuple(lengths), shown,
        fastest,
        {seq_len: len(cells) for seq_len, cells in timed.items()},
        {seq_len: tuple(cell for cell in timed[seq_len] if _not_apart(cell, best)) for seq_len, best in fastest.items()},
        {seq_len: len(all_timed[seq_len]) - len(cells) for seq_len, cells in timed.items()},
        {
            seq_len: _in_other_numerics([cells[place] for _, cells in shown], fastest.get(seq_len))
            for place, seq_len in enumerate(lengths)
        },
        {seq_len: first(seq_len) for seq_len in lengths},
    )  # fmt: skip


def comparable(cells: Sequence[Cell]) -> list[Cell]:
    """Of those with a time that train all weights in the plainest code's numerics what was measured as the newest was.

    That is: with the same hardware, method and workload.
    """
    return _on_newest_ground(_timed(cells))


def _on_newest_ground(cells: Sequence[Cell]) -> list[Cell]:
    known = [(cell, found) for cell in cells if (found := cell.trained) is not None]
    newest = max(known, key=lambda entry: entry[1].run.id)[1].common_ground if known else None
    return [cell for cell, found in known if found.common_ground == newest]


def _timed(cells: Sequence[Cell]) -> list[Cell]:
    """Those with a time that train all weights in the plainest code's numerics."""
    return [cell for cell in cells if cell.way.all_weights and not cell.way.other_numerics and _tokens_per_s(cell)]


def _in_other_numerics(cells: Sequence[Cell], best: Cell | None) -> tuple[Cell, ...]:
    """Of each other numerics the fastest that trains all weights, as far as it was measured as the best was and had less time than it."""
    others = [cell for cell in cells if cell.way.all_weights and cell.way.other_numerics and _tokens_per_s(cell)]
    if best is None or best.trained is None:
        beside = _on_newest_ground(others)
    else:
        ground = best.trained.common_ground
        beside = [cell for cell in others if cell.trained is not None and cell.trained.common_ground == ground]
        beside = [cell for cell in beside if _tokens_per_s(cell) > _tokens_per_s(best)]
    found: dict[frozenset[tuple[str, str]], Cell] = {}
    for cell in sorted(beside, key=_tokens_per_s, reverse=True):
        found.setdefault(frozenset(cell.way.other_numerics.items()), cell)
    return tuple(found.values())


def _not_apart(cell: Cell, best: Cell) -> bool:
    """Whether it is so near the fastest that its trials, or so few of them, do not show who is faster."""
    first, second = (None if one.trained is None else one.trained.tokens_per_s for one in (best, cell))
    if cell is best or first is None or second is None or second.median < first.median * (1 - MARGIN):
        return False
    return min(first.n, second.n) < FEWEST or second.high >= first.low


def _tokens_per_s(cell: Cell) -> float:
    """0 where there is no time."""
    return 0.0 if cell.trained is None or cell.trained.tokens_per_s is None else cell.trained.tokens_per_s.median
