"""In which numbers weights are kept and products are computed, against what was asked for."""

from __future__ import annotations

from collections.abc import Iterator

from bench.audit.finding import Finding, fine, look, wrong
from bench.audit.whole import Audit
from bench.audited import Audited

WIDE = "float32"
HALF = "float16"
SIXTEEN = ("bfloat16", HALF)
MUCH = 0.10
"""Of the time of products, from which on their dtype is worth a word."""
LEAST_KEPT = 0.005
"""Of the model's numbers: a dtype of fewer is not named."""
FEW_SKIPPED = 0.10
"""Of the updates: a scaler begins too high and skips its first ones."""


def find(audit: Audit) -> Iterator[Finding]:
    seen = audit.first
    if seen is None or seen.model is None or seen.precision is None:
        return
    engine = seen.deepspeed is not None and seen.sharding is not None and seen.sharding.kind == "deepspeed"
    yield from _weights_and_products(audit, seen, engine=engine)
    yield from _updated_in_16_bits(seen, engine=engine)
    yield from _tf32(audit, seen)
    yield from _scaler(seen)


def weight_shares(seen: Audited) -> dict[str, float]:
    """dtype to its share of the model's numbers; empty where there is none."""
    kept: dict[str, int] = {}
    for group in seen.model.parameters if seen.model is not None else ():
        kept[group.dtype] = kept.get(group.dtype, 0) + group.elements
    total = sum(kept.values())
    return {dtype: count / total for dtype, count in kept.items()} if total else {}


def _weights_and_products(audit: Audit, seen: Audited, *, engine: bool) -> Iterator[Finding]:
    """What the forward computed in; nothing where none was watched."""
    precision, shares = seen.precision, weight_shares(seen)
    if precision is None or not shares or not precision.autocast_watched:
        return
    asked = next((name for name in ("bf16", "fp16") if audit.asked(name) is True), None)
    wide = shares.get(WIDE, 0.0)
    sixteen = sum(precision.matmul_inputs.get(dtype, 0.0) for dtype in SIXTEEN)
    numbers = {"fp32_weights_share": wide, "products_in_16_bits_share": sixteen if precision.matmul_inputs else None}
    if precision.autocast_dtype is not None:
        yield fine("precision", f"autocast computes in {precision.autocast_dtype}, {_kept(shares)}", **numbers)
    elif asked and wide > 0.5 and not engine:
        yield wrong(
            "precision",
            f"{asked} was asked for, and the forward ran without autocast on fp32 weights",
            "the training loop calls the model outside autocast: use the Trainer's or accelerate's prepared model",
            **numbers,
        )
    elif wide > 0.5 and audit.configured("dtype") in SIXTEEN and not engine:
        yield wrong(
            "precision",
            f"the model's configuration says {audit.configured('dtype')}, and its weights are fp32, without autocast",
            "whatever made them wide after loading (model.float(), a default dtype, upcasting for k-bit training) is the thing to look for",
            **numbers,
        )
    elif wide > 0.5 and sixteen < 0.5 and audit.on_cuda:
        yield look(
            "precision",
            "weights are fp32 and autocast is off: products run in fp32",
            'bf16=True of the Trainer, mixed_precision="bf16" of accelerate, or torch.autocast around the forward',
            **numbers,
        )
    else:
        yield fine("precision", f"products run in the dtype of the weights, {_kept(shares)}", **numbers)


def _kept(shares: dict[str, float]) -> str:
    kept = sorted(((dtype, share) for dtype, share in shares.items() if share >= LEAST_KEPT), key=lambda one: -one[1])
    parts = [f"{share:.0%} {dtype}".replace("%", " %") for dtype, share in kept]
    return f"weights are kept in {', '.join(parts)}"


def _updated_in_16_bits(seen: Audited, *, engine: bool) -> Iterator[Finding]:
    """Weights that an optimizer updates in 16 bits: a change below 2^-8 of a bf16 weight is lost by rounding."""
    if engine or not seen.gradients or not seen.optimizers:
        return
    trained = {group.dtype: group.elements for group in seen.gradients}
    total, narrow = sum(trained.values()), sum(trained.get(dtype, 0) for dtype in SIXTEEN)
    master = any(state.dtype == WIDE and "master" in state.what for one in seen.optimizers for state in one.states)
    if total and narrow / total > 0.5 and not master:
        yield look(
            "updated_in_16_bits",
            "the optimizer updates 16-bit weights and no fp32 copy: changes below 2^-8 of a bf16 weight are lost",
            "keep fp32 weights under autocast, or an optimizer with a master copy or stochastic rounding, if the loss suffers",
            trained_in_16_bits_share=narrow / total,
        )


def _tf32(audit: Audit, seen: Audited) -> Iterator[Finding]:
    precision = seen.precision
    if precision is None or not audit.on_cuda:
        return
    share = precision.matmul_inputs.get(WIDE, 0.0)
    if share >= MUCH and precision.float32_matmul == "highest":
        yield look(
            "tf32_off",
            "TF32 is off, and products of fp32 numbers take a part of the step",
            'tf32=True of the Trainer, or torch.backends.cuda.matmul.fp32_precision = "tf32"',
            products_in_fp32_share=share,
        )


def _scaler(seen: Audited) -> Iterator[Finding]:
    precision, steps = seen.precision, seen.steps
    if precision is None or steps is None:
        return
    skipped = precision.scaler_skipped
    asked = precision.scaler_asked or steps.seen
    if skipped is not None and asked:
        share = skipped / asked
        numbers = {"skipped": skipped, "updates": asked, "scale": precision.scaler_scale}
        if share > 0.5:
            yield wrong(
                "skipped_steps",
                f"the scaler left out {skipped} of {asked} updates: gradients overflow",
                "bf16 needs no scaler; else a lower learning rate or clipping",
                **numbers,
            )
        elif share > FEW_SKIPPED:
            yield look("skipped_steps", f"the scaler left out {skipped} of {asked} updates; its first ones are usual", **numbers)
        else:
            yield fine("skipped_steps", f"the scaler left out {skipped} of {asked} updates", **numbers)
    elif precision.autocast_dtype == HALF and seen.deepspeed is None:
        yield wrong(
            "no_scaler",
            "fp16 autocast without a GradScaler: gradients below 6e-8 become zero",
            "torch.amp.GradScaler, or bf16, which needs none",
        )
