"""All that a workload's or an implementation's file needs to import. Light: torch is imported only inside functions.

A folder is a question, a file is an answer. `bench/workloads/<slot>/__init__.py` holds the workload (a subclass of `Workload`, one
instance named `WORKLOAD`): what is computed, on which inputs, how it is checked and what it costs. Every other file there holds
functions decorated with `@implementation`: one way each to do it. The folder gives the slot, the function gives the name.

A builder receives its slot's own frozen spec and never a case, so one file serves alone (a micro-benchmark makes the spec from a
case) and inside a model (a training step makes it from the model's config). What a builder returns depends on the slot's kind:

    FUNCTION    fn(*tensors) -> tensor or tuple       attention, rope, losses
    MODULE      fn(module) -> module                  norms, mlp, linear: takes the plain module, returns the one that replaces it
    OPTIMIZER   fn(parameters) -> torch.optim.Optimizer
    MODEL       fn(model) -> model                    checkpointing, sharding, compile
"""

from bench.declare.implementations import OWN_DTYPE, PRODUCTS, Implementation, ProofPatterns, implementation
from bench.declare.specs import AttentionSpec, NormSpec
from bench.declare.tensors import DTYPES, dtype_bytes, fill_normal, torch_dtype
from bench.declare.workload import Bound, Param, Pick, SlotKind, Workload
from bench.errors import Unavailable, Unsupported
from bench.records import DEVICES

__all__ = [
    "DEVICES",
    "DTYPES",
    "OWN_DTYPE",
    "PRODUCTS",
    "AttentionSpec",
    "Bound",
    "Implementation",
    "NormSpec",
    "Param",
    "Pick",
    "ProofPatterns",
    "SlotKind",
    "Unavailable",
    "Unsupported",
    "Workload",
    "dtype_bytes",
    "fill_normal",
    "implementation",
    "torch_dtype",
]
