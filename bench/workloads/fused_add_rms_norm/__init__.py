"""What the step between two blocks of a decoder is: the residual's addition and the RMS normalisation after it.

    new_residual = residual + x,   normed = weight * new_residual / sqrt(mean over the last dimension of new_residual^2 + eps)

Both are outputs: `normed` goes into the next block, `new_residual` around it. x and residual are (batch, seq_len, hidden_size),
contiguous. The sum is rounded to the dtype of x, statistics are taken in at least fp32, and the product with the weight in the dtype
of x, as Llama's layers do. The slot is a module: a builder takes the plain module, which owns the weight and is called with (x, residual),
and returns the one that replaces it, with a parameter named `weight` of shape (hidden_size,).

x and residual have the same gradient. As leaves they must not share one tensor, so autograd copies it once, in the time of every
implementation alike; in a model it flows on, and is not copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from bench.declare import Bound, NormSpec, Param, Pick, SlotKind, Workload, dtype_bytes, fill_normal
from bench.records import Case, Check, Cost, Pass
from bench.workloads.rms_norm._rows import PARAMS, eps_checks, fewer_rows, normal_rows, numbers_near, spec_of, spread_rows

if TYPE_CHECKING:
    import torch


class FusedAddRmsNorm(Workload):
    name = "fused_add_rms_norm"
    version = 1
    slots: ClassVar[Mapping[str, SlotKind]] = {"fused_add_rms_norm": SlotKind.MODULE}
    params = (*PARAMS, Param("eps", float, default=1e-5, minimum=0.0, description="added to the mean square"))
    dims = ("hidden_size",)

    def spec(self, case: Case) -> NormSpec:
        return spec_of(case)

    def cost(self, spec: NormSpec, pass_: Pass) -> Cost:
        """Counted by hand per element: an addition more than RMS normalisation each way, so forward 5 and backward 12.

        Bytes forward: x and residual are read, the sum and its norm written. Backward: the sum and the gradients of both outputs are
        read, and one gradient is written, since x and residual have the same. The weight besides, and its gradient backward.
        """
        elements = spec.batch * spec.seq_len * spec.hidden_size
        size = dtype_bytes(spec.dtype)
        forward = (5 * elements, (4 * elements + spec.hidden_size) * size)
        backward = (12 * elements, (4 * elements + 2 * spec.hidden_size) * size)
        parts = {Pass.FORWARD: [forward], Pass.BACKWARD: [backward], Pass.FORWARD_BACKWARD: [forward, backward]}[pass_]
        return Cost(flops=sum(p[0] for p in parts), bytes=sum(p[1] for p in parts), tokens=spec.batch * spec.seq_len)

    def small_spec(self, spec: NormSpec) -> NormSpec:
        return fewer_rows(spec)

    def make_inputs(self, spec: NormSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        return {name: normal_rows(spec, device, generator) for name in ("x", "residual")}

    def make_parameters(self, spec: NormSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        return {"weight": numbers_near(1.0, spec, device, generator)}

    def redraw(self, spec: NormSpec, inputs: Mapping[str, torch.Tensor], generator: torch.Generator) -> None:
        for tensor in inputs.values():
            fill_normal(tensor, generator)

    def bind(self, spec: NormSpec, built: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]) -> Bound:
        module = built["fused_add_rms_norm"](plain_module(spec)(parameters["weight"]))

        def forward(inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            normed, new_residual = module(inputs["x"], inputs["residual"])
            return {"normed": normed, "new_residual": new_residual}

        return Bound(forward, {"weight": module.weight})

    def reference(
        self, spec: NormSpec, inputs: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        normed, new_residual = added_and_normalised(inputs["x"], inputs["residual"], parameters["weight"], spec.eps)
        return {"normed": normed, "new_residual": new_residual}

    def slice(self, spec: NormSpec) -> tuple[NormSpec, Pick] | None:
        return spread_rows(spec, {"weight"})

    def property_checks(self, spec: NormSpec, bind: Callable[[Any], Bound], device: str, generator: torch.Generator) -> list[Check]:
        return eps_checks(self, spec, "normed", bind, device, generator)


def added_and_normalised(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """(normed, new residual), operation by operation."""
    import torch

    total = residual + x
    wide = total.to(torch.promote_types(total.dtype, torch.float32))
    scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * scaled.to(total.dtype), total


def plain_module(spec: NormSpec) -> Any:
    """The class of the plain module; made from its weight."""
    import torch

    class AddRmsNorm(torch.nn.Module):
        def __init__(self, weight: torch.Tensor) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(weight)

        def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return added_and_normalised(x, residual, self.weight, spec.eps)

    return AddRmsNorm


WORKLOAD = FusedAddRmsNorm()
