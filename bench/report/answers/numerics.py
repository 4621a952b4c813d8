"""In which numbers a way to train computes: times are held against each other where these are the same, and are told apart elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from bench.plan.spec import DEFAULTS

SLOTS = ("precision", "linear", "qat")
"""What fills them decides in which formats weights are kept, multiplied and updated."""
OPTIMIZERS = ("adamw_foreach", "adamw_forloop", "adamw_fused")
"""One algorithm, whose states are kept in the format of what is updated: they differ in how it is launched."""


def other_numerics(slots: Mapping[str, str]) -> Mapping[str, str]:
    """Slot to what fills it, of those by which a way computes in other numbers than the plainest code; empty where it does not."""
    found = {slot: slots[slot] for slot in SLOTS if slots.get(slot, DEFAULTS[slot]) != DEFAULTS[slot]}
    optimizer = slots.get("optimizer", DEFAULTS["optimizer"])
    return MappingProxyType(found if optimizer in OPTIMIZERS else {**found, "optimizer": optimizer})
