"""The optimizer: which one it became, what its states hold, and the copy that a list of tensors costs at the update."""

from __future__ import annotations

from collections.abc import Iterator

from bench.audit.finding import Finding, fine, look, wrong
from bench.audit.whole import Audit
from bench.audited import Audited, Optimizer
from bench.report.numbers import units

WIDE = "float32"
IN_8_BITS = ("Adam", "SGD", "RMSprop", "Adagrad", "Lion", "LAMB", "LARS")
"""Optimizers that bitsandbytes has with 8-bit states, by the beginning of their classes' names."""
NEAR_THE_PEAK = 0.95
MUCH = 0.30
"""Of the peak, from which on states are the thing to shrink."""
FEW_WIDE = 0.10
"""Of the numbers: more of them in 32 bits, and 8-bit states save less than people think."""


def find(audit: Audit) -> Iterator[Finding]:
    seen = audit.first
    if seen is None or not seen.optimizers:
        return
    yield from _asked(audit, seen)
    for one in seen.optimizers:
        yield from _second_copy(seen, one)
        yield from _eight_bits(audit, one)
        yield from _pages(one)
    yield from _states(audit, seen)
    yield from _all_trained(seen)


def kind_of(one: Optimizer) -> str:
    """`AdamW of torch, fused`."""
    how = "fused" if one.fused else "foreach" if one.foreach else "one tensor at a time" if one.foreach is False else None
    bits = f"{one.optimizer_bits}-bit" if one.optimizer_bits else None
    paged = "paged" if one.paged else None
    return ", ".join(part for part in (f"{one.class_name} of {one.package}", how, bits, paged) if part)


def state_bytes(one: Optimizer) -> int:
    return sum(state.bytes for state in one.states)


def _asked(audit: Audit, seen: Audited) -> Iterator[Finding]:
    asked = audit.asked("optim")
    if not isinstance(asked, str):
        return
    ran = "; ".join(kind_of(one) for one in seen.optimizers)
    wants = {
        "a fused update": ("fused" in asked, any(one.fused for one in seen.optimizers)),
        "8-bit states": ("8bit" in asked, any(_narrow_elements(one) for one in seen.optimizers)),
        "pages": ("paged" in asked, any(one.paged for one in seen.optimizers)),
    }
    missing = [what for what, (wanted, there) in wants.items() if wanted and not there]
    if missing:
        yield wrong(
            "optimizer", f"optim {asked} was asked for, and {ran} runs: no {' and no '.join(missing)}",
            "an optimizer that is handed to the Trainer, or DeepSpeed's configuration, wins over optim",
        )  # fmt: skip
    else:
        yield fine("optimizer", f"optim {asked} was asked for, and {ran} runs")


def _second_copy(seen: Audited, one: Optimizer) -> Iterator[Finding]:
    """Temporaries of the update, as they were seen where it is the peak, else that the update's own peak comes near it."""
    memory = seen.memory
    if not one.foreach or one.fused or memory is None:
        return
    copy = sum(cause.bytes for cause in memory.causes if cause.cause == "temporaries")
    at_the_update = memory.phase_peaks.get("optimizer")
    if memory.phase == "optimizer" and copy:
        yield look(
            "foreach_copy",
            f"{one.class_name} foreach keeps a second copy at the step: {units.size(copy)}, and the update is the peak",
            "fused=True needs none (optim=adamw_torch_fused)"
            if "Adam" in one.class_name
            else "foreach=False updates one tensor at a time",
            copy_bytes=copy,
            peak_bytes=memory.peak_bytes,
        )
    elif at_the_update is not None and at_the_update >= NEAR_THE_PEAK * memory.peak_bytes:
        yield look(
            "foreach_copy",
            f"{one.class_name} foreach updates lists of tensors, and the update comes near the peak of {units.size(memory.peak_bytes)}",
            "fused=True needs no copy (optim=adamw_torch_fused)" if "Adam" in one.class_name else None,
            optimizer_peak_bytes=at_the_update,
            peak_bytes=memory.peak_bytes,
        )


def _narrow_elements(one: Optimizer) -> int:
    return sum(state.elements for state in one.states if state.dtype in ("uint8", "int8"))


def _eight_bits(audit: Audit, one: Optimizer) -> Iterator[Finding]:
    if one.optimizer_bits != 8 and "8bit" not in one.class_name.lower():
        return
    narrow = _narrow_elements(one)
    wide = sum(
        state.elements
        for state in one.states
        if state.dtype == WIDE and state.elements > 1 and state.what.startswith(("exp_avg", "state"))
    )
    total = narrow + wide
    if not total or (not narrow and "torchao" in one.package):
        return  # torchao's states are tensors of its own, whose pieces are not seen from outside
    numbers = {
        "states_in_32_bits_share": wide / total,
        "states_bytes": state_bytes(one),
        "small_tensor_elements": one.small_tensor_elements,
    }
    if not narrow:
        yield wrong(
            "eight_bit_states",
            f"{one.class_name} was to keep 8-bit states, and all of them are 32-bit",
            f"tensors of fewer than {one.small_tensor_elements} numbers stay 32-bit: lower min_8bit_size, or train larger ones"
            if one.small_tensor_elements
            else None,
            **numbers,
        )
    elif wide / total > FEW_WIDE:
        yield look(
            "eight_bit_states",
            f"{one.class_name} keeps 8-bit states, but {wide / total:.0%} of them are 32-bit".replace("%", " %"),
            "small tensors and embeddings stay 32-bit: min_8bit_size, GlobalOptimManager",
            **numbers,
        )
    else:
        yield fine("eight_bit_states", f"{one.class_name} keeps 8-bit states: {units.size(state_bytes(one))} in all", **numbers)


def _pages(one: Optimizer) -> Iterator[Finding]:
    if one.paged and one.states and not any(state.place == "managed" for state in one.states):
        yield look(
            "paged_states", f"{one.class_name} is paged, and none of its states lies in managed memory: pages do nothing here",
            states_bytes=state_bytes(one),
        )  # fmt: skip


def _states(audit: Audit, seen: Audited) -> Iterator[Finding]:
    memory = seen.memory
    states = [state for one in seen.optimizers for state in one.states]
    if memory is None or not states or not memory.peak_bytes:
        return
    wide = sum(state.bytes for state in states if state.dtype == WIDE and state.place == memory.device)
    share = wide / memory.peak_bytes
    if share >= MUCH:
        yield look(
            "wide_states",
            f"optimizer states in fp32 are {share:.0%} of the peak: {units.size(wide)}".replace("%", " %"),
            "8-bit states need a quarter of it" if all(one.class_name.startswith(IN_8_BITS) for one in seen.optimizers) else None,
            states_bytes=wide,
            peak_share=share,
        )


def _all_trained(seen: Audited) -> Iterator[Finding]:
    """Numbers that ask for gradients and that nobody updates; not told where ranks share the weights."""
    if seen.model is None or seen.sharding is None or seen.sharding.kind not in ("none", "ddp"):
        return
    updated = sum(one.elements for one in seen.optimizers)
    left = seen.model.trained_elements - updated
    if left > 0:
        yield look(
            "not_updated",
            f"{left} numbers ask for gradients, and no optimizer updates them",
            "requires_grad_(False) spares their gradients",
            not_updated=left,
            trained=seen.model.trained_elements,
        )
