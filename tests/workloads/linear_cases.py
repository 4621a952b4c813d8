"""Makes tiny cases of the linear workload."""

from __future__ import annotations

import dataclasses
from typing import Any

from bench.records import Case
from tests.factories import case

SHAPE = {
    "hidden_size": 256,
    "intermediate_size": 704,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 32,
    "value_head_dim": 64,
    "vocab_size": 512,
}
PARAMS = {
    "layer": "gate_proj",
    "tokens": 48,
    "bias": False,
    "compile": "none",
    "weight_grad": False,
    "weight_outliers": 0.0,
    "activation_outliers": 0.0,
    "outlier_factor": 20.0,
    "weights": "random",
    "layer_index": 0,
}


def linear(subject: str, **changes: Any) -> Case:
    """A tiny case, 48 tokens of 256 features to 704; `params` are merged into the usual ones."""
    made = case(subject, params={**SHAPE, **PARAMS, **changes.pop("params", {})}, **changes)
    return dataclasses.replace(made, workload="linear", subject={"linear": subject})


def small_enough(name: str) -> dict[str, int]:
    """Parameters that keep a test short: a CPU multiplies float8 numbers one by one."""
    return {"hidden_size": 128, "intermediate_size": 64, "tokens": 32} if name.startswith("float8_training") else {}
