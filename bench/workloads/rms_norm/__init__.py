"""What RMS normalisation is: inputs, semantics, reference, cost.

    out = weight * x / sqrt(mean over the last dimension of x^2 + eps)

x is (batch, seq_len, hidden_size), contiguous. Statistics are taken in at least fp32, the product with the weight in x's dtype, as
Llama does. The slot is a module: a builder takes the plain module, which owns the weight, and returns the one that replaces it; the
replacement owns a parameter named `weight` of shape (hidden_size,), since that is the name under which checkpoints know it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from bench.declare import Bound, NormSpec, Param, Pick, SlotKind, Workload, dtype_bytes, fill_normal
from bench.records import Case, Check, Cost, Pass
from bench.workloads.rms_norm._rows import PARAMS, eps_checks, fewer_rows, normal_rows, numbers_near, spec_of, spread_rows
from bench.workloads.rope._lending import lending

if TYPE_CHECKING:
    import torch


class RmsNorm(Workload):
    name = "rms_norm"
    version = 1
    slots: ClassVar[Mapping[str, SlotKind]] = {"rms_norm": SlotKind.MODULE}
    params = (*PARAMS, Param("eps", float, default=1e-5, minimum=0.0, description="added to the mean square"))
    dims = ("hidden_size",)

    def spec(self, case: Case) -> NormSpec:
        return spec_of(case)

    def cost(self, spec: NormSpec, pass_: Pass) -> Cost:
        """Counted by hand per element: forward 4 (square, add, two products); backward 11, of which 3 make the weight's gradient.

        Bytes: x and out once forward; x, grad_out and grad_x once backward; the weight, and its gradient backward.
        """
        elements = spec.batch * spec.seq_len * spec.hidden_size
        size = dtype_bytes(spec.dtype)
        forward = (4 * elements, (2 * elements + spec.hidden_size) * size)
        backward = (11 * elements, (3 * elements + 2 * spec.hidden_size) * size)
        parts = {Pass.FORWARD: [forward], Pass.BACKWARD: [backward], Pass.FORWARD_BACKWARD: [forward, backward]}[pass_]
        return Cost(flops=sum(p[0] for p in parts), bytes=sum(p[1] for p in parts), tokens=spec.batch * spec.seq_len)

    def small_spec(self, spec: NormSpec) -> NormSpec:
        return fewer_rows(spec)

    def make_inputs(self, spec: NormSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        return {"x": normal_rows(spec, device, generator)}

    def make_parameters(self, spec: NormSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        return {"weight": numbers_near(1.0, spec, device, generator)}

    def redraw(self, spec: NormSpec, inputs: Mapping[str, torch.Tensor], generator: torch.Generator) -> None:
        for tensor in inputs.values():
            fill_normal(tensor, generator)

    def bind(self, spec: NormSpec, built: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]) -> Bound:
        plain = plain_module(spec)(parameters["weight"])
        module = built["rms_norm"](plain)
        norm, prepare = lending(module, module)
        return Bound(lambda inputs: {"out": norm(inputs["x"])}, {"weight": module.weight}, prepare)

    def reference(
        self, spec: NormSpec, inputs: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        import torch

        x = inputs["x"].to(torch.promote_types(inputs["x"].dtype, torch.float32))
        normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + spec.eps)
        return {"out": parameters["weight"] * normed.to(inputs["x"].dtype)}

    def slice(self, spec: NormSpec) -> tuple[NormSpec, Pick] | None:
        return spread_rows(spec, {"weight"})

    def property_checks(self, spec: NormSpec, bind: Callable[[Any], Bound], device: str, generator: torch.Generator) -> list[Check]:
        return eps_checks(self, spec, "out", bind, device, generator)


def plain_module(spec: NormSpec) -> Any:
    """The class of the module that models carry, operation by operation as transformers' LlamaRMSNorm; made from its weight."""
    import torch

    class RMSNorm(torch.nn.Module):
        def __init__(self, weight: torch.Tensor) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(weight)
            self.variance_epsilon = spec.eps

        def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
            dtype = hidden_states.dtype
            hidden_states = hidden_states.to(torch.promote_types(dtype, torch.float32))
            variance = hidden_states.pow(2).mean(-1, keepdim=True)
            hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
            return self.weight * hidden_states.to(dtype)

    return RMSNorm


WORKLOAD = RmsNorm()
