"""What layer normalisation is: inputs, semantics, reference, cost.

    out = weight * (x - mean) / sqrt(variance + eps) + bias,   both statistics over the last dimension, the variance without correction

x is (batch, seq_len, hidden_size), contiguous. Statistics, scale and shift are computed in at least fp32 and rounded once, at the end.
The slot is a module: a builder takes the plain module, which owns `weight` and `bias` of shape (hidden_size,), and returns the one that
replaces it; the replacement owns both under these names, since checkpoints know them so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from bench.declare import Bound, NormSpec, Param, Pick, SlotKind, Workload, dtype_bytes, fill_normal
from bench.records import Case, Check, Cost, Pass
from bench.workloads.rms_norm._rows import PARAMS, eps_checks, fewer_rows, normal_rows, numbers_near, spec_of, spread_rows

if TYPE_CHECKING:
    import torch


class LayerNorm(Workload):
    name = "layer_norm"
    version = 1
    slots: ClassVar[Mapping[str, SlotKind]] = {"layer_norm": SlotKind.MODULE}
    params = (*PARAMS, Param("eps", float, default=1e-5, minimum=0.0, description="added to the variance"))
    dims = ("hidden_size",)

    def spec(self, case: Case) -> NormSpec:
        return spec_of(case)

    def cost(self, spec: NormSpec, pass_: Pass) -> Cost:
        """Counted by hand per element, of the formula above and its derivative.

        Forward 7: sum, difference, square and its sum, three of scale and shift. Backward 13: with n the normalised x and g the outer
        gradient, n again (2), g * weight (1), the two means (3), dx = (g * weight - n * mean_1 - mean_2) / deviation (4), and the sums of
        g * n and g for weight and bias (3). Bytes: x and out once forward; x, grad_out and grad_x once backward; weight and bias
        forward; the weight and two gradients backward.
        """
        elements = spec.batch * spec.seq_len * spec.hidden_size
        size = dtype_bytes(spec.dtype)
        forward = (7 * elements, (2 * elements + 2 * spec.hidden_size) * size)
        backward = (13 * elements, (3 * elements + 3 * spec.hidden_size) * size)
        parts = {Pass.FORWARD: [forward], Pass.BACKWARD: [backward], Pass.FORWARD_BACKWARD: [forward, backward]}[pass_]
        return Cost(flops=sum(p[0] for p in parts), bytes=sum(p[1] for p in parts), tokens=spec.batch * spec.seq_len)

    def small_spec(self, spec: NormSpec) -> NormSpec:
        return fewer_rows(spec)

    def make_inputs(self, spec: NormSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        return {"x": normal_rows(spec, device, generator)}

    def make_parameters(self, spec: NormSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        return {
            "weight": numbers_near(1.0, spec, device, generator),
            "bias": numbers_near(0.0, spec, device, generator),
        }

    def redraw(self, spec: NormSpec, inputs: Mapping[str, torch.Tensor], generator: torch.Generator) -> None:
        for tensor in inputs.values():
            fill_normal(tensor, generator)

    def bind(self, spec: NormSpec, built: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]) -> Bound:
        module = built["layer_norm"](plain_module(spec)(parameters["weight"], parameters["bias"]))
        return Bound(lambda inputs: {"out": module(inputs["x"])}, {"weight": module.weight, "bias": module.bias})

    def reference(
        self, spec: NormSpec, inputs: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        return {"out": normalised(inputs["x"], parameters["weight"], parameters["bias"], spec.eps)}

    def slice(self, spec: NormSpec) -> tuple[NormSpec, Pick] | None:
        return spread_rows(spec, {"weight", "bias"})

    def property_checks(self, spec: NormSpec, bind: Callable[[Any], Bound], device: str, generator: torch.Generator) -> list[Check]:
        return eps_checks(self, spec, "out", bind, device, generator)


def normalised(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    """The formula, operation by operation, rounded to the dtype of x at the end."""
    import torch

    wide = torch.promote_types(x.dtype, torch.float32)
    centred = x.to(wide) - x.to(wide).mean(-1, keepdim=True)
    scaled = centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + eps)
    return (weight.to(wide) * scaled + bias.to(wide)).to(x.dtype)


def plain_module(spec: NormSpec) -> Any:
    """The class of the plain module; made from its weight and bias."""
    import torch

    class LayerNormModule(torch.nn.Module):
        def __init__(self, weight: torch.Tensor, bias: torch.Tensor) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(weight)
            self.bias = torch.nn.Parameter(bias)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return normalised(x, self.weight, self.bias, spec.eps)

    return LayerNormModule


WORKLOAD = LayerNorm()
