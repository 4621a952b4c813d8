"""Each layer's input alone is kept, in pinned memory of the host; copied there in the forward and back in the backward."""

from __future__ import annotations

from typing import Any

from bench.declare import implementation
from bench.workloads.checkpointing import DTYPES, REQUIRES, checkpointed
from bench.workloads.train_step._change import Change


@implementation(requires=REQUIRES, devices=["cuda"], dtypes=DTYPES, passes=["step"])
def full_offloaded(spec: Any) -> Change:
    """transformers' `offload=True`, over `save_on_cpu`: both copies run on the stream that computes. On a CPU there is nowhere to go."""
    return checkpointed(1, offload=True)
