"""What a plain matrix product is: out (m, n) = a (m, k) @ b (k, n). Its largest sizes show what the matrix units reach here.

It contains no code of any technique, so it serves as a canary: a run whose product is slower than yesterday's was made on another
machine, or on the same one in another state. It is also the measured ceiling that other rows' FLOP/s are held against.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from bench.declare import Bound, Param, Pick, SlotKind, Workload, dtype_bytes, fill_normal, torch_dtype
from bench.records import Case, Cost, Pass

if TYPE_CHECKING:
    import torch

SMALL = 192
SLICE_ROWS = 64


@dataclass(frozen=True, slots=True)
class MatmulSpec:
    """out (m, n) = a (m, k) @ b (k, n), all row-major in `dtype`."""

    m: int
    n: int
    k: int
    dtype: str


class Matmul(Workload):
    name = "matmul"
    version = 1
    slots: ClassVar[Mapping[str, SlotKind]] = {"matmul": SlotKind.FUNCTION}
    params = (
        Param("m", int, minimum=1, description="rows of a"),
        Param("n", int, minimum=1, description="columns of b"),
        Param("k", int, minimum=1, description="columns of a, rows of b"),
    )

    def spec(self, case: Case) -> MatmulSpec:
        params: Mapping[str, Any] = case.params
        return MatmulSpec(int(params["m"]), int(params["n"]), int(params["k"]), case.dtype)

    def cost(self, spec: MatmulSpec, pass_: Pass) -> Cost:
        """2 m n k forward (a product and an addition per term), twice that backward (one product per input).

        Bytes: a, b and out once forward; a, b, grad_out, grad_a and grad_b once backward.
        """
        flops = 2 * spec.m * spec.n * spec.k
        a, b, out = spec.m * spec.k, spec.k * spec.n, spec.m * spec.n
        forward, backward = (flops, a + b + out), (2 * flops, 2 * a + 2 * b + out)
        parts = {Pass.FORWARD: [forward], Pass.BACKWARD: [backward], Pass.FORWARD_BACKWARD: [forward, backward]}[pass_]
        return Cost(flops=sum(p[0] for p in parts), bytes=sum(p[1] for p in parts) * dtype_bytes(spec.dtype))

    def small_spec(self, spec: MatmulSpec) -> MatmulSpec:
        return dataclasses.replace(spec, m=min(spec.m, SMALL), n=min(spec.n, SMALL), k=min(spec.k, SMALL))

    def make_inputs(self, spec: MatmulSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        import torch

        def normal(rows: int, columns: int) -> torch.Tensor:
            return fill_normal(torch.empty(rows, columns, dtype=torch_dtype(spec.dtype), device=device), generator)

        return {"a": normal(spec.m, spec.k), "b": normal(spec.k, spec.n)}

    def redraw(self, spec: MatmulSpec, inputs: Mapping[str, torch.Tensor], generator: torch.Generator) -> None:
        for tensor in inputs.values():
            fill_normal(tensor, generator)

    def bind(self, spec: MatmulSpec, built: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]) -> Bound:
        product = built["matmul"]
        return Bound(lambda inputs: {"out": product(inputs["a"], inputs["b"])})

    def reference(
        self, spec: MatmulSpec, inputs: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        return {"out": inputs["a"] @ inputs["b"]}

    def slice(self, spec: MatmulSpec) -> tuple[MatmulSpec, Pick] | None:
        """The last rows of a and of the product; b whole, and its gradient too, since the others' outer gradient is zero."""
        rows = min(spec.m, SLICE_ROWS)

        def pick(name: str, tensor: torch.Tensor) -> torch.Tensor | None:
            return tensor if name.removeprefix("grad_") == "b" else tensor[-rows:]

        return dataclasses.replace(spec, m=rows), pick


WORKLOAD = Matmul()
