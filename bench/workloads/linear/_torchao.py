"""torchao's layers, made from a plain one as its documentation says: `quantize_(module, config)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bench.declare import Unsupported

if TYPE_CHECKING:
    import torch

    from bench.workloads.linear import LinearSpec

FEW_ROWS = 16
"""So many rows and fewer are what int8 products of some releases of torch refuse on a GPU."""

REQUIRES = ["torchao>=0.18"]


def quantized(config: Callable[[torch.nn.Linear], Any]) -> Any:
    """The way from a plain layer to a quantized one, by the configuration that `config` makes for it."""
    from torchao.quantization import quantize_

    def convert(plain: torch.nn.Linear) -> torch.nn.Module:
        quantize_(plain, config(plain))
        return plain

    return convert


def multiplying_int8(convert: Callable[[torch.nn.Linear], torch.nn.Module], spec: LinearSpec) -> Any:
    """`convert`, where int8 products on the weight's device take the rows of `spec`. Raises Unsupported in torch's words where not.

    torchao would multiply in fp32 instead, without a word.
    """
    import torch

    rows = spec.batch * spec.seq_len
    taken = rows > FEW_ROWS

    def checked(plain: torch.nn.Linear) -> torch.nn.Module:
        nonlocal taken
        if not taken:
            x, weight = (
                torch.zeros(size, plain.in_features, dtype=torch.int8, device=plain.weight.device) for size in (rows, FEW_ROWS)
            )
            try:
                torch._int_mm(x, weight.t())
            except RuntimeError as error:
                raise Unsupported(f"torch has no int8 product of {rows} rows here, and torchao would use fp32: {error}") from error
            taken = True
        return convert(plain)

    return checked
