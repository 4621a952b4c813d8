"""What optimizers keep for each weight, and what a step makes for a moment, by implementation of the slot `optimizer`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.plan.weights import Weight

SMALL = 4096
"""Tensors with fewer elements are left in full precision by 8-bit optimizers (bitsandbytes `min_8bit_size`, torchao's rule)."""
PAGED_FROM = 100_000
"""Elements from which bitsandbytes' paged optimizers put a state into managed memory."""
STEP_BYTES = 4
"""A count of steps for each tensor."""
TABLE_BYTES = 1024
"""256 fp32 levels: two tables for all tensors in bitsandbytes, two for each in torchao."""
BLOCKS = {"adamw8bit_ao": (256, 1.0, TABLE_BYTES), "adamw4bit_ao": (128, 0.5, 64), "adamw_fp8_ao": (256, 1.0, 0)}
"""torchao's optimizers: block that shares a scale, bytes of a number, bytes of the table of levels."""


@dataclass(frozen=True, slots=True)
class States:
    """Bytes of an optimizer for the weights that learn."""

    device_bytes: int
    host_bytes: int
    """Managed memory, whose pages may lie on either side."""
    update_bytes: int
    """Made and let go of within a step."""
    formula: str
    update_formula: str


def states(optimizer: str, learned: Sequence[Weight], element_bytes: int, device_steps: bool) -> States:
    """Of all tensors that the optimizer updates, each of numbers of `element_bytes`. Steps are counted on the device or the host."""
    device = host = 0
    for weight in learned:
        kept = _of_tensor(optimizer, weight, element_bytes)
        if optimizer.startswith("paged") and weight.elements >= PAGED_FROM:
            host += kept * weight.count
        else:
            device += kept * weight.count
        if device_steps and not optimizer.endswith("_bnb"):
            device += STEP_BYTES * weight.count
    if optimizer.endswith("8bit_bnb"):
        device += (1 if optimizer.startswith("lion") else 2) * TABLE_BYTES
    update, update_formula = _update(optimizer, learned, element_bytes)
    return States(device, host, update, _FORMULAS.get(optimizer, "2 moments of each weight"), update_formula)


_FORMULAS = {
    "sgd": "1 momentum of each weight",
    "adafactor": "rows + columns of each matrix",
    "adamw8bit_bnb": "2·(1 + 4/256) bytes a number, fp32 below 4096 numbers",
    "paged_adamw8bit_bnb": "2·(1 + 4/256) bytes a number, fp32 below 4096 numbers",
    "paged_adamw32bit_bnb": "2·4 bytes a number",
    "lion8bit_bnb": "1 + 4/256 bytes a number, fp32 below 4096 numbers",
    "adamw8bit_ao": "2·(1 + 4/256) bytes a number, and a table",
    "adamw4bit_ao": "2·(1/2 + 4/128) bytes a number, and a table",
    "adamw_fp8_ao": "2·(1 + 4/256) bytes a number",
}


def _of_tensor(optimizer: str, weight: Weight, element_bytes: int) -> int:
    numbers = weight.elements
    if optimizer == "sgd":
        return numbers * element_bytes
    if optimizer == "adafactor":
        return (sum(weight.shape) if len(weight.shape) > 1 else numbers) * element_bytes
    if optimizer == "paged_adamw32bit_bnb":
        return numbers * 8
    if optimizer.endswith("8bit_bnb"):
        moments = 1 if optimizer.startswith("lion") else 2
        return moments * (numbers + 4 * -(-numbers // 256) if numbers >= SMALL else 4 * numbers)
    if optimizer in BLOCKS:
        block, number, table = BLOCKS[optimizer]
        if numbers < SMALL or numbers % block:
            return 2 * numbers * element_bytes
        return 2 * (int(numbers * number) + 4 * (numbers // block) + table)
    return 2 * numbers * element_bytes


def _update(optimizer: str, learned: Sequence[Weight], element_bytes: int) -> tuple[int, str]:
    total = sum(weight.total for weight in learned)
    largest = max((weight.elements for weight in learned), default=0)
    if optimizer in ("adamw_foreach", "sgd"):
        return total * element_bytes, "a copy of all that is updated (foreach)"
    if optimizer == "adamw_forloop":
        return 2 * largest * element_bytes, "2 copies of the largest tensor"
    if optimizer == "adafactor":
        return 2 * largest * element_bytes, "2 copies of the largest tensor"
    if optimizer in BLOCKS:
        return largest * element_bytes, "a copy of the largest tensor"
    return 0, "in place"
