"""What a SwiGLU is: a gated MLP whose activation is SiLU, act(g) = g / (1 + exp(-g)). Llama's, Mistral's and Qwen's block.

Shapes, parts, slot and cost are told in `_gated.py`. (Shazeer, 2020, arXiv:2002.05202, names the family.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from bench.declare import SlotKind
from bench.workloads.swiglu._gated import GatedMlp

if TYPE_CHECKING:
    import torch


class SwiGlu(GatedMlp):
    """Counted by hand per element of gate, with s = 1 / (1 + exp(-g)). Forward 5: s (3), g * s, and the product with up. Backward 10: s
    and g * s again (4), the gradient of up (1), and that of gate, outer * up * (s + g * s * (1 - s)) (5).
    """

    name = "swiglu"
    version = 1
    slots: ClassVar[Mapping[str, SlotKind]] = {"swiglu": SlotKind.MODULE}
    activation_flops = (5, 10)

    def activate(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        import torch

        return torch.nn.functional.silu(gate) * up


WORKLOAD = SwiGlu()
