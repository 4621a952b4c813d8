"""Does it still learn the same? Fifty steps of a small model of the same family, beside the same steps in plain PyTorch.

Three curves of the loss over the same data from the same weights: the subject's; that of plain PyTorch in the subject's own dtypes
(`_plain.py`); that of plain PyTorch in fp32. The error is the mean distance of the first from the second, and may be

    2 * (noise + dtype) + 1e-4 * first loss + tolerance * what was learned

noise: the largest distance of the plain curve from itself when each weight starts up to an ulp off (two draws): how much the training
amplifies a rounding. dtype: the distance of the plain curve from that in fp32, since different kernels round in different places and no
rounding should cost more than all of them. A ten-thousandth, because in fp32 both are next to nothing, while kernels add in different
orders. tolerance: the widest that an implementation declares, since an update that is off by that share changes what is learned by
about it. In bf16 all this is some 0.002 to 0.03 nats, where attention without its causal mask is 0.07 to 0.09 off, and a learning
rate 20 % too high 0.007 to 0.08 (0.08 where the family learns fast).

Where ranks share a step, each gets its own part of every batch, and plain PyTorch gets the whole as that many more micro-batches: the same
gradient, if it is a mean over ranks.

Plain curves are the same for all arms that have the same dtypes, data, learning weights and algorithm, and may have been computed by an
earlier trial of the run (`_curves.py`). Whom they fail is compared with curves that its own process computes; only these say no.

The gap to fp32 at the end of the curve is a finding (`loss_gap`), no fault: losing accuracy may be the very thing to be shown.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from bench.records import Check
from bench.workloads.precision import Numerics
from bench.workloads.train_step._architectures import architecture_of
from bench.workloads.train_step._curves import Curves, all_built_in, key_of
from bench.workloads.train_step._data import make_batch
from bench.workloads.train_step._handed import FirstHanded, handed_checks
from bench.workloads.train_step._plain import PlainStep
from bench.workloads.train_step._spec import RANDOM, DecoderShape, TrainStepSpec
from bench.workloads.train_step._step import TrainingStep

if TYPE_CHECKING:
    import torch

Asked = TypeVar("Asked")

STEPS = 50
LAST = 10
"""Steps at the end over which the gap to fp32 is taken."""
SHAKES = (1, 2)
FLOOR = 1e-4
LEARNING_RATE = 1e-3
SMALL_HIDDEN, SMALL_INTERMEDIATE, SMALL_LAYERS, SMALL_VOCAB = 64, 128, 2, 256
SMALL_BATCH, SMALL_SEQ_LEN = 4, 32
FEWEST_PER_TEXT = 8


def small_spec(spec: TrainStepSpec) -> TrainStepSpec:
    """The same family, head dimension, packing and fills, small enough to be trained in a second or so."""
    shape = spec.shape
    kv_heads = 1 if shape.kv_heads < shape.heads else 2
    tied_width = architecture_of(shape).shares_width
    small: DecoderShape = dataclasses.replace(
        shape,
        hidden_size=2 * shape.head_dim if tied_width else SMALL_HIDDEN,
        intermediate_size=SMALL_INTERMEDIATE,
        layers=min(shape.layers, SMALL_LAYERS),
        heads=2,
        kv_heads=kv_heads,
        vocab_size=min(shape.vocab_size, SMALL_VOCAB),
        sliding_window=shape.sliding_window and min(shape.sliding_window, SMALL_SEQ_LEN // 2),
    )
    documents = spec.documents and min(spec.documents, SMALL_SEQ_LEN // FEWEST_PER_TEXT)
    if documents is not None:
        small = dataclasses.replace(small, sliding_window=shape.sliding_window and SMALL_SEQ_LEN)
    return dataclasses.replace(
        spec,
        shape=small,
        batch=min(spec.batch, SMALL_BATCH) if spec.packing == "padded" else SMALL_BATCH,
        seq_len=SMALL_SEQ_LEN,
        accumulation=min(spec.accumulation, 2),
        documents=documents,
        dropout=0.0,
        lr=LEARNING_RATE,
        weights=RANDOM,
    )


def compare_learning(
    step: TrainingStep, generator: torch.Generator, curves: Curves | None = None
) -> tuple[list[Check], float | None]:
    """The checks, and the gap of the loss to fp32 over the last steps (nats; None where it is not finite).

    `curves` are those of plain PyTorch that other trials have left; none by default.
    """
    driver = step.driver
    curves = curves or Curves(None)
    spec = dataclasses.replace(step.spec, accumulation=step.spec.accumulation * driver.ranks)
    device = driver.parts.device
    adaptation = step.implementations["adaptation"]
    drawn = [make_batch(spec, generator) for _ in range(STEPS)]
    batches = [{name: tensor.to(device) for name, tensor in batch.items()} for batch in drawn]

    def with_plain(numerics: Numerics, shaken: int | None, ask: Callable[[PlainStep], Asked]) -> Asked:
        made = PlainStep(spec, numerics, adaptation, step.algorithm, step.seed, device, shaken=shaken)
        with in_full_fp32() if step.numerics.compute == "tf32" != numerics.compute else contextlib.nullcontext():
            return ask(made)

    def plain(numerics: Numerics, shaken: int | None = None) -> list[float]:
        return with_plain(numerics, shaken, lambda made: [made(batch) for batch in batches])

    def shared(numerics: Numerics, shaken: int | None = None) -> list[float]:
        return curves.curve(repr((key, numerics, shaken)), lambda: plain(numerics, shaken))

    first = FirstHanded(step)
    losses = [driver.mean(step.phased(part_of(batch, driver.rank, driver.ranks), first.begin)["loss"]) for batch in batches]
    # After the subject's own steps: they too may throw a switch that plain steps then compute by.
    key = key_of(spec, adaptation, step.algorithm, step.seed, device, drawn)
    found, gap = _compared(step, losses, shared)
    if not found.passed and curves.taken:
        curves.taken = 0
        found, gap = _compared(step, losses, plain)
    elif found.passed and all_built_in(step.implementations.values()):
        curves.leave()
    if not driver.judged and found.error is not None:
        found = dataclasses.replace(found, passed=True, limit=None, detail=f"told and not judged: {found.detail}")
    handed, checks = first.found, [found]
    if handed is not None:
        batch, scale = batches[handed.index], handed.scale
        exact = with_plain(FP32, None, lambda made: made.gradients(batch, 1.0))
        own = lambda shaken: with_plain(step.numerics, shaken, lambda made: made.gradients(batch, scale))  # noqa: E731
        checks += handed_checks(handed, spec.clip_norm, own, exact)
    return checks, gap if math.isfinite(gap) else None


def _compared(step: TrainingStep, losses: Sequence[float], plain: Callable[..., list[float]]) -> tuple[Check, float]:
    """The check of the subject's losses against `plain(numerics, shaken)`, and their gap to fp32."""
    alike = plain(step.numerics)
    noise = max(distance(plain(step.numerics, seed), alike) for seed in SHAKES)
    in_fp32 = alike if step.numerics == FP32 else plain(FP32)
    plain_error = noise + distance(alike, in_fp32)
    error = distance(losses, alike)
    limit = 2.0 * plain_error + FLOOR * in_fp32[0] + (step.tolerance or 0.0) * (max(in_fp32) - min(in_fp32))
    gap = sum(losses[-LAST:]) / LAST - sum(in_fp32[-LAST:]) / LAST
    return _curve_check(losses, alike, error, plain_error, limit), gap


@contextlib.contextmanager
def in_full_fp32() -> Iterator[None]:
    """Products of fp32 in full, in a process that makes them in tf32."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def part_of(batch: Mapping[str, torch.Tensor], rank: int, ranks: int) -> dict[str, torch.Tensor]:
    """One rank's micro-batches of a batch for all of them; what has no sequences of its own (positions) is everybody's."""
    rows = batch["input_ids"].shape[0] // ranks
    mine = slice(rank * rows, (rank + 1) * rows)
    return {name: tensor[mine] if tensor.shape[0] == rows * ranks else tensor for name, tensor in batch.items()}


FP32 = Numerics("fp32", "fp32")


def distance(losses: Sequence[float], others: Sequence[float]) -> float:
    """Mean absolute difference, step by step; NaN where one is."""
    return sum(abs(loss - other) for loss, other in zip(losses, others, strict=True)) / len(losses)


def _curve_check(losses: Sequence[float], alike: Sequence[float], error: float, plain_error: float, limit: float) -> Check:
    lost = next((index for index, loss in enumerate(losses, start=1) if not math.isfinite(loss)), None)
    if lost is not None:
        plain_too = next((index for index, loss in enumerate(alike, start=1) if not math.isfinite(loss)), None)
        also = f"; plain PyTorch in the same dtypes loses it at step {plain_too}" if plain_too else ""
        return Check("loss_curve", "small", None, None, None, False, f"the loss is not finite from step {lost} on{also}")
    if not math.isfinite(limit):
        return Check("loss_curve", "small", None, None, None, False, "plain PyTorch in the same dtypes does not stay finite")
    detail = f"mean distance of {len(losses)} losses, from {losses[0]:.3f} to {losses[-1]:.3f} nats; plain PyTorch: {alike[-1]:.3f}"
    if error > limit:
        beyond = (index for index, pair in enumerate(zip(losses, alike, strict=True), start=1) if abs(pair[0] - pair[1]) > limit)
        detail = f"{detail}; first farther off than the limit at step {next(beyond)}"
    return Check("loss_curve", "small", error, plain_error, limit, error <= limit, detail)
