"""What scaled dot-product attention is: inputs, semantics, reference, cost.

    out[b, h, i] = sum over j of dropout(P)[i, j] * v[b, g, j],   P[i, :] = softmax over j of scale * <q[b, h, i], k[b, g, j]>

with g = h // (heads / kv_heads): grouped-query attention, where several query heads read one key/value head. The softmax is over the
keys that the mask leaves to query i; the four masks are told in `_masks.py`. Dropout zeroes a weight of P with probability p and
divides the survivors by 1 - p; which ones is the implementation's own affair, since no two libraries draw alike.

Layout. A transformer's projections leave (batch, seq, heads, head_dim) in memory. All tensors, the output too, are logical (batch,
heads, seq, head_dim) views of that. An implementation that computes in another layout pays for its copies, as it would in a model.

Random dropout cannot be compared with a reference, number by number. With dropout > 0 the numbers are checked at p = 0, and four
properties at the case's own p. They are visible because with V = identity the output *is* the matrix of dropped weights: the share
of zeros is p within five standard deviations, each survivor is P / (1 - p), and two calls drop different weights. Where the pass has
a backward, the gradient of V is the transpose of that matrix times the outer gradient: a backward that drops others shows there.

Cost counts the pairs (i, j) that the mask leaves, exactly: full has seq_len * kv_len of them, documents only their own. Two matrix
products forward, five backward (the scores again, dV, dP, dQ, dK), each 2 * head_dim per pair and head: backward = 2.5 x forward, as
in the paper on FlashAttention-2 (Dao, 2023, arXiv:2307.08691, section 4.1). What an implementation computes besides is not work:
neither the scores that it makes again, nor those that it makes only to hide them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from bench.declare import AttentionSpec, Bound, Param, Pick, SlotKind, Workload, dtype_bytes, fill_normal, torch_dtype
from bench.records import Case, Check, Cost, Pass
from bench.workloads.attention._masks import cut, visible, visible_pairs

if TYPE_CHECKING:
    import torch

SMALL_SEQ_LEN = 160
"""Crosses the tile edges of 32, 64 and 128 that kernels have, and is no multiple of 64."""

SLICE_SCORES = 2**20
"""Most elements of the slice's score matrices: 8 MiB each in float64."""


class Attention(Workload):
    name = "attention"
    version = 1
    slots: ClassVar[Mapping[str, SlotKind]] = {"attention": SlotKind.FUNCTION}
    params = (
        Param("seq_len", int, minimum=1, description="queries, and as many keys, per sequence"),
        Param("batch", int, default=1, minimum=1, description="sequences"),
        Param(
            "mask",
            str,
            default="causal",
            choices=("causal", "full", "sliding_window", "document"),
            description="which keys a query sees",
        ),
        Param(
            "window",
            int,
            default=1024,
            minimum=1,
            description="keys that a query sees at most under the mask sliding_window, itself among them",
            only_where=("mask", "sliding_window"),
        ),
        Param(
            "documents",
            int,
            default=8,
            minimum=1,
            description="documents of unequal length packed into each sequence under the mask document",
            only_where=("mask", "document"),
        ),
        Param("dropout", float, default=0.0, minimum=0.0, below=1.0, description="probability that an attention weight is dropped"),
    )
    dims = ("heads", "kv_heads", "head_dim")

    def spec(self, case: Case) -> AttentionSpec:
        params: Mapping[str, Any] = case.params
        heads, kv_heads, head_dim = int(params["heads"]), int(params["kv_heads"]), int(params["head_dim"])
        seq_len, mask = int(params["seq_len"]), str(params["mask"])
        if heads % kv_heads:
            raise ValueError(f"heads ({heads}) must be a multiple of kv_heads ({kv_heads})")
        return AttentionSpec(
            batch=int(params["batch"]),
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            seq_len=seq_len,
            kv_len=seq_len,
            mask=mask,
            dropout=float(params["dropout"]),
            scale=1.0 / math.sqrt(head_dim),
            dtype=case.dtype,
            training=case.pass_.differentiates,
            window=int(params["window"]) if mask == "sliding_window" else None,
            document_lengths=cut(seq_len, int(params["documents"])) if mask == "document" else None,
        )

    def cost(self, spec: AttentionSpec, pass_: Pass) -> Cost:
        """FLOPs by the essay above; bytes = each of q, k, v, out once forward, and q, k, v, out and four gradients backward."""
        forward = 4 * spec.batch * spec.heads * spec.head_dim * visible_pairs(spec)
        backward = forward * 5 // 2
        queries = spec.batch * spec.heads * spec.seq_len * spec.head_dim
        keys = spec.batch * spec.kv_heads * spec.kv_len * spec.head_dim
        forward_bytes = (2 * queries + 2 * keys) * dtype_bytes(spec.dtype)
        backward_bytes = 2 * forward_bytes
        return Cost(
            flops={Pass.FORWARD: forward, Pass.BACKWARD: backward, Pass.FORWARD_BACKWARD: forward + backward}[pass_],
            bytes={
                Pass.FORWARD: forward_bytes,
                Pass.BACKWARD: backward_bytes,
                Pass.FORWARD_BACKWARD: forward_bytes + backward_bytes,
            }[pass_],
            tokens=spec.batch * spec.seq_len,
        )

    def small_spec(self, spec: AttentionSpec) -> AttentionSpec:
        kv_heads = min(spec.kv_heads, 2)
        return dataclasses.replace(
            _shortened(spec, SMALL_SEQ_LEN),
            batch=min(spec.batch, 2),
            kv_heads=kv_heads,
            heads=kv_heads * (spec.heads // spec.kv_heads),
            dropout=0.0,
        )

    def make_inputs(self, spec: AttentionSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        import torch

        def normal(heads: int, length: int) -> torch.Tensor:
            shape = (spec.batch, length, heads, spec.head_dim)
            return fill_normal(torch.empty(shape, dtype=torch_dtype(spec.dtype), device=device), generator).transpose(1, 2)

        return {
            "q": normal(spec.heads, spec.seq_len),
            "k": normal(spec.kv_heads, spec.kv_len),
            "v": normal(spec.kv_heads, spec.kv_len),
        }

    def redraw(self, spec: AttentionSpec, inputs: Mapping[str, torch.Tensor], generator: torch.Generator) -> None:
        for tensor in inputs.values():
            fill_normal(tensor, generator)

    def bind(self, spec: AttentionSpec, built: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]) -> Bound:
        attention = built["attention"]
        return Bound(lambda inputs: {"out": attention(inputs["q"], inputs["k"], inputs["v"])})

    def reference(
        self, spec: AttentionSpec, inputs: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        return {"out": weights(spec, inputs["q"], inputs["k"]) @ _repeated(inputs["v"], spec)}

    def slice(self, spec: AttentionSpec) -> tuple[AttentionSpec, Pick] | None:
        """The last key/value head of the last sequence, and the last rows of its query heads that fit in `SLICE_SCORES`.

        All keys are there, so the mask of these rows is what it was: queries stand where they stood, counted from the end.
        """
        if spec.dropout > 0.0:
            return None
        group = spec.heads // spec.kv_heads
        rows = min(spec.seq_len, max(1, SLICE_SCORES // (group * spec.kv_len)))
        part = dataclasses.replace(spec, batch=1, heads=group, kv_heads=1, seq_len=rows)

        def pick(name: str, tensor: torch.Tensor) -> torch.Tensor | None:
            if name.removeprefix("grad_") in ("k", "v"):
                return tensor[-1:, -1:]
            return tensor[-1:, -group:, -rows:]

        return part, pick

    def property_checks(
        self, spec: AttentionSpec, bind: Callable[[Any], Bound], device: str, generator: torch.Generator
    ) -> list[Check]:
        if spec.dropout == 0.0:
            return []
        length = min(spec.kv_len, spec.head_dim)
        part = dataclasses.replace(_shortened(self.small_spec(spec), length), dropout=spec.dropout)
        bound, inputs = bind(part), self.make_inputs(part, device, generator)
        inputs["v"] = _identity(inputs["v"])
        checks = _dropout_checks(part, bound, inputs)
        return [*checks, _dropped_gradient_check(part, bound, inputs, generator)] if spec.training else checks


def _shortened(spec: AttentionSpec, longest: int) -> AttentionSpec:
    """The same at no more than `longest` queries and keys; a window and documents shrink with them, so that they still hide keys."""
    kv_len = min(spec.kv_len, longest)
    lengths = spec.document_lengths
    return dataclasses.replace(
        spec,
        seq_len=min(spec.seq_len, longest),
        kv_len=kv_len,
        window=spec.window and min(spec.window, max(1, kv_len // 3)),
        document_lengths=lengths if lengths is None or spec.kv_len <= longest else cut(kv_len, min(len(lengths), kv_len)),
    )


def weights(spec: AttentionSpec, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """P without dropout, (batch, heads, seq_len, kv_len); the softmax is computed in at least fp32, as transformers does."""
    import torch

    scores = q @ _repeated(k, spec).transpose(-1, -2) * spec.scale
    scores = scores.masked_fill(~visible(spec, q.device), float("-inf"))
    return scores.softmax(-1, dtype=torch.promote_types(q.dtype, torch.float32)).to(q.dtype)


def _repeated(kv: torch.Tensor, spec: AttentionSpec) -> torch.Tensor:
    group = spec.heads // spec.kv_heads
    return kv if group == 1 else kv.repeat_interleave(group, dim=1)


def _identity(v: torch.Tensor) -> torch.Tensor:
    """The same layout with row j all zeros but for a 1 at j."""
    import torch

    identity = torch.zeros_like(v)
    identity.diagonal(dim1=-2, dim2=-1).fill_(1)
    return identity


def _dropped_gradient_check(
    spec: AttentionSpec, bound: Bound, inputs: Mapping[str, torch.Tensor], generator: torch.Generator
) -> Check:
    """The gradient of v = identity against the weights that this very call left in its output."""
    import torch

    leaves = {name: tensor.detach().requires_grad_() for name, tensor in inputs.items()}
    with torch.enable_grad():
        out = bound.forward(leaves)["out"]
    outer = fill_normal(torch.empty_like(out.detach()), generator)
    gradient = torch.autograd.grad(out, leaves["v"], outer, allow_unused=True)[0] if out.requires_grad else None
    if gradient is None:
        return Check("dropout_grad_v", "small", None, None, None, False, "the subject gave none")
    kept = out.detach()[..., : spec.kv_len] != 0

    def of(dtype: torch.dtype) -> torch.Tensor:
        dropped = weights(spec, inputs["q"].to(dtype), inputs["k"].to(dtype)) * kept / (1.0 - spec.dropout)
        of_heads = dropped.transpose(-1, -2) @ outer.to(dtype)
        return of_heads.unflatten(1, (spec.kv_heads, -1)).sum(2).double()

    with torch.no_grad():
        exact, plain = of(torch.float64), of(outer.dtype)
        error, plain_error = float((gradient.double() - exact).abs().max()), float((plain - exact).abs().max())
        eps, accumulator_eps = (torch.finfo(dtype).eps for dtype in (outer.dtype, torch.promote_types(outer.dtype, torch.float32)))
        rounding = 8.0 * eps * float(exact.square().mean().sqrt()) + 32.0 * accumulator_eps * float(exact.abs().max())
    limit = 2.0 * plain_error + rounding  # the rule of every other gradient, see records.Check
    finite = math.isfinite(error)
    return Check("dropout_grad_v", "small", error if finite else None, plain_error, limit, finite and error <= limit)


def _dropout_checks(spec: AttentionSpec, bound: Bound, inputs: Mapping[str, torch.Tensor]) -> list[Check]:
    """Of the weights that are left, with v = identity."""
    import torch

    with torch.no_grad():
        first, second = (bound.forward(inputs)["out"][..., : spec.kv_len].double() for _ in range(2))
        exact = weights(spec, inputs["q"].double(), inputs["k"].double())
        plain = weights(spec, inputs["q"], inputs["k"]).double()
    # A weight that rounds to zero in the case's dtype says nothing about dropout.
    countable = (plain > 0) & visible(spec, plain.device)
    count = int(countable.sum())
    zeros = int((first[countable] == 0).sum())
    p = spec.dropout
    rate_limit = 5.0 * math.sqrt(p * (1.0 - p) / count)
    rate_error = abs(zeros / count - p)
    survivors = countable & (first != 0)
    error = float((first - exact / (1.0 - p))[survivors].abs().max()) if bool(survivors.any()) else 0.0
    plain_error = float((plain - exact).abs().max()) / (1.0 - p)
    # Two roundings more than in P itself: 1 / (1 - p), and the product with it.
    limit = 2.0 * plain_error + 4.0 * torch.finfo(inputs["q"].dtype).eps * float(exact.max()) / (1.0 - p)
    finite = math.isfinite(error)
    differ = bool((first != second).any())
    return [
        Check(
            "dropout_rate",
            "small",
            rate_error,
            None,
            rate_limit,
            rate_error <= rate_limit,
            f"{zeros} of {count} weights are zero, at p = {p:g}",
        ),
        Check("dropout_scale", "small", error if finite else None, plain_error, limit, finite and error <= limit),
        Check("dropout_redrawn", "small", None, None, None, differ, None if differ else "two calls dropped the same weights"),
    ]


WORKLOAD = Attention()
