"""What RMS normalisation is: inputs, semantics, reference, cost.

    out = weight * x / sqrt(mean over the last dimension of x^2 + eps)

x is (batch, seq_len, hidden_size), contiguous. Statistics are taken in at least fp32, the product with the weight in x's dtype, as
Llama does. The slot is a module: a builder takes the plain module, which owns the weight, and returns the one that replaces it; the
replacement owns a parameter named `weight` of shape (hidden_size,), since that is the name under which checkpoints know it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from bench.declare import Bound, NormSpec, Param, Pick, SlotKind, Workload, dtype_bytes, fill_normal, torch_dtype
from bench.records import Case, Cost, Pass

if TYPE_CHECKING:
    import torch

SMALL_ROWS = 33
SLICE_ELEMENTS = 2**20


class RmsNorm(Workload):
    name = "rms_norm"
    version = 1
    slots: ClassVar[Mapping[str, SlotKind]] = {"rms_norm": SlotKind.MODULE}
    params = (
        Param("seq_len", int, minimum=1, description="tokens per sequence"),
        Param("batch", int, default=1, minimum=1, description="sequences"),
        Param("eps", float, default=1e-5, minimum=0.0, description="added to the mean square"),
    )
    dims = ("hidden_size",)

    def spec(self, case: Case) -> NormSpec:
        params: Mapping[str, Any] = case.params
        return NormSpec(
            batch=int(params["batch"]),
            seq_len=int(params["seq_len"]),
            hidden_size=int(params["hidden_size"]),
            eps=float(params["eps"]),
            dtype=case.dtype,
            training=case.pass_.differentiates,
        )

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
        return dataclasses.replace(spec, batch=min(spec.batch, 2), seq_len=min(spec.seq_len, SMALL_ROWS))

    def make_inputs(self, spec: NormSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        import torch

        shape = (spec.batch, spec.seq_len, spec.hidden_size)
        return {"x": fill_normal(torch.empty(shape, dtype=torch_dtype(spec.dtype), device=device), generator)}

    def make_parameters(self, spec: NormSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        import torch

        drawn = 1.0 + 0.1 * torch.randn(spec.hidden_size, generator=generator, device=generator.device)
        return {"weight": drawn.to(device=device, dtype=torch_dtype(spec.dtype))}

    def redraw(self, spec: NormSpec, inputs: Mapping[str, torch.Tensor], generator: torch.Generator) -> None:
        for tensor in inputs.values():
            fill_normal(tensor, generator)

    def bind(self, spec: NormSpec, built: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]) -> Bound:
        plain = plain_module(spec)(parameters["weight"])
        module = built["rms_norm"](plain)
        return Bound(lambda inputs: {"out": module(inputs["x"])}, {"weight": module.weight})

    def reference(
        self, spec: NormSpec, inputs: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        import torch

        x = inputs["x"].to(torch.promote_types(inputs["x"].dtype, torch.float32))
        normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + spec.eps)
        return {"out": parameters["weight"] * normed.to(inputs["x"].dtype)}

    def slice(self, spec: NormSpec) -> tuple[NormSpec, Pick] | None:
        """The last rows of the last sequence, `SLICE_ELEMENTS` of them at most."""
        rows = min(spec.seq_len, max(1, SLICE_ELEMENTS // spec.hidden_size))

        def pick(name: str, tensor: torch.Tensor) -> torch.Tensor | None:
            return tensor if name.removeprefix("grad_") == "weight" else tensor[-1:, -rows:]

        return dataclasses.replace(spec, batch=1, seq_len=rows), pick


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
