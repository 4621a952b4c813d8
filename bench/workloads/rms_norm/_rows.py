"""What the workloads of norms share: one spec from a case, a small problem, rows that can be computed alone, numbers for weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from bench.declare import NormSpec, Param, Pick, fill_normal, torch_dtype
from bench.records import Case
from bench.workloads.rms_norm._spread import spread

if TYPE_CHECKING:
    import torch

SMALL_ROWS = 33
SLICE_ELEMENTS = 2**20

PARAMS = (
    Param("seq_len", int, minimum=1, description="tokens per sequence"),
    Param("batch", int, default=1, minimum=1, description="sequences"),
)


def spec_of(case: Case) -> NormSpec:
    params: Mapping[str, Any] = case.params
    return NormSpec(
        batch=int(params["batch"]),
        seq_len=int(params["seq_len"]),
        hidden_size=int(params["hidden_size"]),
        eps=float(params["eps"]),
        dtype=case.dtype,
        training=case.pass_.differentiates,
    )


def fewer_rows(spec: NormSpec) -> NormSpec:
    """At most two sequences of `SMALL_ROWS`; rows as wide as they are, since kernels differ by that."""
    return dataclasses.replace(spec, batch=min(spec.batch, 2), seq_len=min(spec.seq_len, SMALL_ROWS))


def normal_rows(spec: NormSpec, device: str, generator: torch.Generator) -> torch.Tensor:
    """Standard normal numbers, (batch, seq_len, hidden_size)."""
    import torch

    shape = (spec.batch, spec.seq_len, spec.hidden_size)
    return fill_normal(torch.empty(shape, dtype=torch_dtype(spec.dtype), device=device), generator)


def numbers_near(centre: float, spec: NormSpec, device: str, generator: torch.Generator) -> torch.Tensor:
    """(hidden_size,) numbers within some tenths of `centre`, as a trained norm's weights are."""
    import torch

    drawn = centre + 0.1 * torch.randn(spec.hidden_size, generator=generator, device=generator.device)
    return drawn.to(device=device, dtype=torch_dtype(spec.dtype))


def spread_rows(spec: NormSpec, whole: Collection[str]) -> tuple[NormSpec, Pick]:
    """Evenly spread rows of every sequence, about `SLICE_ELEMENTS` numbers; parameters, named in `whole`, are taken whole."""
    rows, count = spread(spec.seq_len, SLICE_ELEMENTS // (spec.batch * spec.hidden_size))

    def pick(name: str, tensor: torch.Tensor) -> torch.Tensor | None:
        return tensor if name.removeprefix("grad_") in whole else tensor[:, rows]

    return dataclasses.replace(spec, seq_len=count), pick
