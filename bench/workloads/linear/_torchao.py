"""torchao's layers, made from a plain one as its documentation says: `quantize_(module, config)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

REQUIRES = ["torchao>=0.18"]


def quantized(config: Callable[[torch.nn.Linear], Any]) -> Any:
    """The way from a plain layer to a quantized one, by the configuration that `config` makes for it."""
    from torchao.quantization import quantize_

    def convert(plain: torch.nn.Linear) -> torch.nn.Module:
        quantize_(plain, config(plain))
        return plain

    return convert
