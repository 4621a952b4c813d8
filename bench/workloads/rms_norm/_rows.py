"""What the workloads of norms share: one spec from a case, a small problem, rows that can be computed alone, numbers for weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from bench.declare import Bound, NormSpec, Param, Pick, Workload, fill_normal, torch_dtype
from bench.records import Case, Check
from bench.workloads.rms_norm._spread import spread

if TYPE_CHECKING:
    import torch

SMALL_ROWS = 33
SLICE_ELEMENTS = 2**20
EPS_LIMIT = 0.05
LEAST_EPS = {"fp16": 1e-6}
"""By dtype, where numbers of its root are no longer held well."""

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


def eps_checks(
    workload: Workload, spec: NormSpec, name: str, bind: Callable[[Any], Bound], device: str, generator: torch.Generator
) -> list[Check]:
    """Whether eps is the one that was asked for: the output `name` of rows as small as its root.

    Beside a mean square of 1 no eps is seen in 16 bits. Here one that is forgotten makes a fifth of the output at least, and one that
    is a tenth nearly as much.
    """
    import torch

    if spec.eps <= LEAST_EPS.get(spec.dtype, 0.0):
        return []
    part = fewer_rows(spec)
    bound = bind(part)
    inputs = {key: rows.mul_(spec.eps**0.5) for key, rows in workload.make_inputs(part, device, generator).items()}
    with torch.no_grad():
        exact = workload.reference(
            part,
            {key: rows.double() for key, rows in inputs.items()},
            {key: parameter.detach().double() for key, parameter in bound.parameters.items()},
        )[name]
        got = bound.forward(inputs)[name].double()
    error = float((got - exact).norm() / exact.norm())
    words = "relative root mean square, of rows as small as the root of eps"
    return [Check(f"{name} beside eps", "small", error, None, EPS_LIMIT, error <= EPS_LIMIT, words)]
