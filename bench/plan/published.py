"""Formulas that others have published, kept apart from ours: what their figures say, and what real code does at the same shape.

Rajbhandari et al., ZeRO, arXiv:1910.02054, figure 1 and table 1        states by stage
DeepSpeed 0.19, runtime/zero, estimate_zero2/3_model_states             its estimators, which print GB and divide by 2^30
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench.plan.layer import decoder_layer, dims_of
from bench.plan.spec import ModelSpec, PlanError, TrainSpec, model_named

GB, GIB = 10**9, 2**30
ADAM_STATES = 12
"""Bytes of fp32 weights and both moments of Adam for each weight: K of the ZeRO paper."""


def zero_states(parameters: float, stage: int, ranks: int) -> float:
    """Bytes of 16-bit weights, 16-bit gradients and states on one GPU; stage 0 is plain data parallelism."""
    if not 0 <= stage <= 3:
        raise PlanError(f"ZeRO has the stages 0 to 3, not {stage}")
    whole, shared = [(4 + ADAM_STATES, 0), (4, ADAM_STATES), (2, 2 + ADAM_STATES), (0, 4 + ADAM_STATES)][stage]
    return parameters * (whole + shared / ranks)


def deepspeed_estimate(parameters: float, largest_layer: float, stage: int, ranks: int, *, offload: str = "none") -> float:
    """What `estimate_zero{2,3}_model_states_mem_needs` says for one GPU. Raises PlanError for stages without an estimator."""
    if stage == 2:
        return 2 * parameters + (0 if offload != "none" else 18 * parameters / ranks)
    if stage == 3:
        return 4 * largest_layer + {"none": 18, "optimizer": 2, "parameters": 0}[offload] * parameters / ranks
    raise PlanError(f"DeepSpeed has estimators of stages 2 and 3, not of {stage}")


@dataclass(frozen=True, slots=True)
class Figure:
    """One published figure with what the formula gives, and how."""

    what: str
    formula: str
    size_bytes: float
    unit: int
    """In which it was published: 1e9 or 2^30."""
    published: float | None
    """In that unit; None for what only we say."""


def founding_figures() -> tuple[Figure, ...]:
    """The memory that the question began with: an 8B model in mixed precision, and a Llama-3-8B at a context of 16384 tokens."""
    parameters, tokens = 8 * GB, 16384
    model = model_named("llama-3-8b")
    scores = 5 * model.heads * tokens * tokens
    width = 10 * model.intermediate_size * tokens
    states = [
        Figure(f"8B parameters: {what}", f"{size} bytes each", size * parameters, GB, size * 8.0)
        for what, size in (("fp32 copy", 4), ("first moment", 4), ("second moment", 4), ("16-bit gradients", 2))
    ]
    return (
        *states,
        Figure("attention scores of one layer", "5·a·s²·b", scores, GIB, 40.0),
        Figure("mlp of one layer", "10·i·s·b", width, GIB, 2.2),
        Figure("all 32 layers (published as 1.35 TB)", "32·(5·a·s²·b + 10·i·s·b)", 32 * (scores + width), GIB, 1350.0),
    )


def real_code() -> tuple[Figure, ...]:
    """What decoders of transformers save at that shape (batch 1, 16384 tokens, bf16) in all layers, and what checkpoints leave of it."""
    model, asked = model_named("llama-3-8b"), TrainSpec(seq_len=16384)
    flash = replace(asked, attention="sdpa_flash")
    liger = replace(flash, rms_norm="liger", rope="liger", swiglu="liger")
    ways = (
        ("eager attention", replace(asked, attention="eager")),
        ("SDPA's math", replace(asked, attention="sdpa_math")),
        ("flash attention", flash),
        ("flash attention and Liger's layers", liger),
    )
    found = [
        Figure(f"{what}: saved by 32 layers", "read off traces", float(saved_by_layers(model, way)), GIB, None)
        for what, way in ways
    ]
    tape = decoder_layer(model, liger, dims_of(model, liger), cuda=True)
    resident = tape.source.size * model.layers + tape.backward(in_place=True, again=True).highest
    found.append(
        Figure("the same, checkpointed: inputs of all layers, and all of one", "32·(2·h·t) + a layer", float(resident), GIB, None)
    )
    return tuple(found)


def saved_by_layers(model: ModelSpec, train: TrainSpec) -> int:
    """Bytes that autograd keeps of all decoder layers."""
    tape = decoder_layer(model, train, dims_of(model, train), cuda=True)
    return tape.forward(saving=True).left_bytes * model.layers


def zero_figures() -> tuple[Figure, ...]:
    """The example of the ZeRO paper's first figure: 7.5B parameters, 64 GPUs."""
    names = ("plain data parallelism", "ZeRO 1: states", "ZeRO 2: and gradients", "ZeRO 3: and weights")
    formulas = ("(2+2+12)·Ψ", "(2+2)·Ψ + 12·Ψ/64", "2·Ψ + (2+12)·Ψ/64", "(2+2+12)·Ψ/64")
    return tuple(
        Figure(name, formula, zero_states(7.5 * GB, stage, 64), GB, published)
        for stage, (name, formula, published) in enumerate(zip(names, formulas, (120.0, 31.4, 16.6, 1.9), strict=True))
    )
