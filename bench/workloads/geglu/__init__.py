"""What a GEGLU is: a gated MLP whose activation is GELU in its tanh form. Gemma's block.

    act(g) = g / 2 * (1 + tanh(sqrt(2 / pi) * (g + 0.044715 g^3)))

Shapes, parts, slot and cost are told in `swiglu/_gated.py`. (Shazeer, 2020, arXiv:2002.05202, names the family.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from bench.declare import SlotKind
from bench.workloads.swiglu._gated import GatedMlp

if TYPE_CHECKING:
    import torch


class GeGlu(GatedMlp):
    """Counted by hand per element of gate, with t = tanh(...). Forward 10: t (6), 1 + t, two products with g / 2, the product with up.
    Backward 21: t and act(g) again (9), the gradient of up (1), and that of gate: outer * up * ((1 + t) / 2 + g / 2 * (1 - t^2) *
    sqrt(2 / pi) * (1 + 3 * 0.044715 g^2)) (11).
    """

    name = "geglu"
    version = 1
    slots: ClassVar[Mapping[str, SlotKind]] = {"geglu": SlotKind.MODULE}
    activation_flops = (10, 21)

    def activate(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        import torch

        return torch.nn.functional.gelu(gate, approximate="tanh") * up


WORKLOAD = GeGlu()
