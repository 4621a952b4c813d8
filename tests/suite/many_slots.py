"""A lone file with a workload of four slots that all have a default: a small training step as far as the suite language sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.catalogue import Catalogue, load_catalogue

PLUGIN = """
from bench.declare import Bound, Param, SlotKind, Workload, implementation
from bench.records import Cost


class Step(Workload):
    name = "step"
    version = 1
    slots = {slot: SlotKind.FUNCTION for slot in ("step", "step_norm", "step_rope", "step_precision")}
    params = (Param("size", int, minimum=2), Param("layers", int, default=1, minimum=1), Param("dropout", float, default=0.0))
    defaults = {slot: "plain" for slot in slots}
    shorthands = {"layers": ("step_norm", "step_rope"), "fused": ("step_norm", "step_rope")}
    dtype_slot = "step_precision"
    constants = frozenset({"x"})

    def spec(self, case):
        if case.params["size"] == 4097:
            raise ValueError("4097 is a size that nobody can have")
        return case.params["size"]

    def cost(self, spec, pass_):
        return Cost()

    def small_spec(self, spec):
        return 2

    def make_inputs(self, spec, device, generator):
        import torch

        return {"x": torch.randn(4, generator=generator)}

    def bind(self, spec, built, parameters):
        return Bound(lambda inputs: {"y": built["step"](inputs["x"])})

    def reference(self, spec, inputs, parameters):
        return {"y": inputs["x"] * 2}

    def slice(self, spec):
        return spec, lambda name, tensor: tensor


WORKLOAD = Step()


def way(slot, name, largest=None, dtypes=("fp32", "bf16")):
    def build(spec):
        def call(x):
            import torch

            if largest is not None and spec > largest:
                torch.empty(2**50)
            if name == "raises" and spec > 8:
                raise ArithmeticError("too much")
            if name == "large":
                torch.ones(2**26).sum()
            return x * 2

        return call

    build.__name__ = name
    return implementation(workload=slot, dtypes=dtypes)(build)


a = way("step", "plain", 100)
b = way("step", "flash", 24)
c = way("step", "raises")
l = way("step", "large")
d = way("step_norm", "plain")
e = way("step_norm", "liger")
f = way("step_norm", "compiled")
g = way("step_rope", "plain")
h = way("step_rope", "liger")
i = way("step_precision", "plain", dtypes=("fp32",))
j = way("step_precision", "bf16_amp", dtypes=("bf16",))
k = way("step_precision", "undecided", dtypes=("bf16", "fp16"))
"""

SUITE: dict[str, Any] = {
    "schema": 1,
    "name": "steps",
    "question": "What should be switched on?",
    "workload": "step",
    "sweep": {"size": [16], "pass": ["forward"]},
}

PLAIN_SUBJECT = {"step": "plain", "step_norm": "plain", "step_rope": "plain", "step_precision": "plain"}


def plugin_in(folder: Path) -> Path:
    """The file, written to `folder`."""
    path = folder / "step_workload.py"
    path.write_text(PLUGIN)
    return path


def catalogue_in(folder: Path) -> Catalogue:
    return load_catalogue([plugin_in(folder)])


def subject(**changes: str) -> dict[str, str]:
    return {**PLAIN_SUBJECT, **changes}
