"""Each layer keeps the results of its matrix products and of its attention, and computes what is cheap again.

torch's selective checkpoint contexts, with the policy that its documentation proposes: dear operators must be saved, the rest is
computed again. An attention that torch's dispatcher does not see as one operator is computed again too, but for its products.
"""

from __future__ import annotations

import functools
from typing import Any

from bench.declare import implementation
from bench.workloads.checkpointing import DTYPES, REQUIRES, checkpointed
from bench.workloads.train_step._change import Change

SAVED = ("aten::mm", "aten::addmm", "aten::bmm", "aten::_scaled_mm", "aten::_int_mm")
SAVED_ATTENTION = ("aten::_scaled_dot_product_", "aten::_flash_attention_forward", "flash_attn::_flash_attn")
"""Beginnings of the names of operators that are a whole attention forward."""


def saved(name: str) -> bool:
    """Whether the result of the operator of that name (`namespace::operator`) is kept."""
    return name in SAVED or (name.startswith(SAVED_ATTENTION) and "backward" not in name)


@implementation(requires=REQUIRES, dtypes=DTYPES, passes=["step"])
def selective(spec: Any) -> Change:
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

    def policy(_: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        name = operator.name().split(".")[0]
        return CheckpointPolicy.MUST_SAVE if saved(name) else CheckpointPolicy.PREFER_RECOMPUTE

    return checkpointed(1, functools.partial(create_selective_checkpoint_contexts, policy))
