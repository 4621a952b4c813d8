"""What rotary position embedding is: inputs, semantics, reference, cost.

Each head of q and k is cut into halves (a, b), and at position p turned by the angles t = p * theta^(-2i / head_dim), i from 0 on:

    (a, b)  ->  (a * cos t - b * sin t,  b * cos t + a * sin t)

This is the half-rotation of transformers' Llama; the paper (Su et al., 2021, arXiv:2104.09864) turns neighbouring numbers instead, which
is the same up to their order. q is (batch, heads, seq_len, head_dim), k the same with kv_heads, both views of (batch, seq_len, heads,
head_dim) memory, as projections leave them; the outputs are alike. The slot is a function fn(q, k, cos, sin) -> (q', k'). cos and sin
are (1, seq_len, head_dim), both halves alike, computed in fp32 and rounded to the dtype of q: a model makes them once for all layers, so
they are resident and no part of a call.

A function may write its results over q and k, and gradients over the outer ones, if it says so: in a model a projection has just made
them and nobody else reads them. See `_lending.py`: the copies it works on are made before the clock starts and are in no peak.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from bench.declare import Bound, Param, Pick, SlotKind, Workload, dtype_bytes, fill_normal, torch_dtype
from bench.records import Case, Cost, Pass
from bench.workloads.rms_norm._spread import spread
from bench.workloads.rope._lending import lending

if TYPE_CHECKING:
    import torch

SMALL_ROWS = 33
SLICE_ELEMENTS = 2**20


@dataclass(frozen=True, slots=True)
class RopeSpec:
    """Rotation of q (batch, heads, seq_len, head_dim) and k (batch, kv_heads, ...); tokens stand from `first_position` on."""

    batch: int
    heads: int
    kv_heads: int
    head_dim: int
    seq_len: int
    theta: float
    dtype: str
    training: bool = True
    first_position: int = 0
    position_step: int = 1
    """From one token to the next: more than 1 in a part of a larger problem."""

    def __post_init__(self) -> None:
        if self.head_dim % 2:
            raise ValueError(f"head_dim must be even to be cut into halves, not {self.head_dim}")


class Rope(Workload):
    name = "rope"
    version = 1
    slots: ClassVar[Mapping[str, SlotKind]] = {"rope": SlotKind.FUNCTION}
    params = (
        Param("seq_len", int, minimum=1, description="tokens per sequence"),
        Param("batch", int, default=1, minimum=1, description="sequences"),
    )
    dims = ("heads", "kv_heads", "head_dim", "rope_theta")

    def spec(self, case: Case) -> RopeSpec:
        params: Mapping[str, Any] = case.params
        return RopeSpec(
            batch=int(params["batch"]),
            heads=int(params["heads"]),
            kv_heads=int(params["kv_heads"]),
            head_dim=int(params["head_dim"]),
            seq_len=int(params["seq_len"]),
            theta=float(params["rope_theta"]),
            dtype=case.dtype,
            training=case.pass_.differentiates,
        )

    def cost(self, spec: RopeSpec, pass_: Pass) -> Cost:
        """Two products and a sum per element; the backward turns the other way, so it costs the same.

        Bytes: each element of q and k read and written once, and half of cos and sin read, since their halves are alike.
        """
        tokens = spec.batch * spec.seq_len
        elements = tokens * (spec.heads + spec.kv_heads) * spec.head_dim
        calls = 2 if pass_ is Pass.FORWARD_BACKWARD else 1
        moved = (2 * elements + spec.seq_len * spec.head_dim) * dtype_bytes(spec.dtype)
        return Cost(flops=calls * 3 * elements, bytes=calls * moved, tokens=tokens)

    def small_spec(self, spec: RopeSpec) -> RopeSpec:
        return dataclasses.replace(spec, batch=min(spec.batch, 2), seq_len=min(spec.seq_len, SMALL_ROWS))

    def make_inputs(self, spec: RopeSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        import torch

        def normal(heads: int) -> torch.Tensor:
            shape = (spec.batch, spec.seq_len, heads, spec.head_dim)
            return fill_normal(torch.empty(shape, dtype=torch_dtype(spec.dtype), device=device), generator).transpose(1, 2)

        return {"q": normal(spec.heads), "k": normal(spec.kv_heads)}

    def redraw(self, spec: RopeSpec, inputs: Mapping[str, torch.Tensor], generator: torch.Generator) -> None:
        for tensor in inputs.values():
            fill_normal(tensor, generator)

    def bind(self, spec: RopeSpec, built: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]) -> Bound:
        rope = built["rope"]
        made: dict[torch.device, tuple[torch.Tensor, torch.Tensor]] = {}

        def turn(q: torch.Tensor, k: torch.Tensor) -> Any:
            if q.device not in made:
                made[q.device] = tables(spec, q.device)
            return rope(q, k, *made[q.device])

        turned, prepare = lending(turn, rope)

        def forward(inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            q, k = turned(inputs["q"], inputs["k"])
            return {"q_out": q, "k_out": k}

        return Bound(forward, prepare=prepare)

    def reference(
        self, spec: RopeSpec, inputs: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        q, k = inputs["q"], inputs["k"]
        cos, sin = (table.to(q.dtype) for table in tables(spec, q.device))
        return {"q_out": rotated(q, cos, sin), "k_out": rotated(k, cos, sin)}

    def slice(self, spec: RopeSpec) -> tuple[RopeSpec, Pick] | None:
        """All heads of evenly spread rows of every sequence, the last among them, where the angles are largest."""
        rows, count = spread(spec.seq_len, SLICE_ELEMENTS // (spec.batch * (spec.heads + spec.kv_heads) * spec.head_dim))

        def pick(name: str, tensor: torch.Tensor) -> torch.Tensor | None:
            return tensor[:, :, rows]

        first, step = spec.first_position + rows.start * spec.position_step, rows.step * spec.position_step
        return dataclasses.replace(spec, seq_len=count, first_position=first, position_step=step), pick


def tables(spec: RopeSpec, device: torch.device | str) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin, (1, seq_len, head_dim) in the spec's dtype, as transformers' LlamaRotaryEmbedding makes them."""
    import torch

    even = torch.arange(0, spec.head_dim, 2, dtype=torch.float32, device=device)
    positions = spec.first_position + spec.position_step * torch.arange(spec.seq_len, dtype=torch.float32, device=device)
    angles = positions[None, :, None] * (1.0 / (spec.theta ** (even / spec.head_dim)))
    both = torch.cat((angles, angles), dim=-1)
    return both.cos().to(torch_dtype(spec.dtype)), both.sin().to(torch_dtype(spec.dtype))


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """One of q and k, operation by operation as transformers' Llama writes it."""
    import torch

    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return x * cos.unsqueeze(1) + torch.cat((-second, first), dim=-1) * sin.unsqueeze(1)


WORKLOAD = Rope()
