"""What a precision is in a training step: the dtype of each thing that is kept, the one in which is computed, and how losses are scaled.

    name               weights   gradients   master   computed in   loss
    fp32, tf32         fp32      fp32        -        fp32, tf32    as it is
    fp16_pure          fp16      fp16        -        fp16          as it is
    fp16_amp_unscaled  fp32      fp32        -        fp16          as it is
    fp16_amp_static    fp32      fp32        -        fp16          times 1024
    fp16_amp_dynamic   fp32      fp32        -        fp16          times a power of 2 that grows, and shrinks after an overflow
    bf16_amp           fp32      fp32        -        bf16          as it is
    bf16_pure          bf16      bf16        -        bf16          as it is
    bf16_master        bf16      bf16        fp32     bf16          as it is
    fp16_master        fp16      fp16        fp32     fp16          times a power of 2 that grows, and shrinks after an overflow

Optimizer states follow the weights, or the master copy where there is one. `amp` is torch.autocast: it casts each weight on the way into
a product and computes there in 16 bits, while norms and the stream between the layers stay fp32. fp16 has no numbers below 6e-8: a
gradient that is smaller is zero, and what it should have taught is lost without a word. Scaling the loss lifts the gradients by the
same factor, which is taken off before the update (Micikevicius et al., 2017, arXiv:1710.03740, section 3.2).

The slot's builder gets the step's spec and returns one `Numerics`. Each implementation declares one dtype, that of computing, which is
the case's: steps of different precision are different points and are never simply compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

STATIC_SCALE = 1024.0
DYNAMIC_SCALE = 65536.0
"""Where torch.amp.GradScaler begins."""


@dataclass(frozen=True, slots=True)
class Numerics:
    """Dtypes by our names. Raises ValueError for a scaling that is not known."""

    weights: str
    compute: str
    autocast: bool = False
    master: str | None = None
    """Of the copy that the optimizer updates, where the weights themselves are too coarse for it."""
    scaling: str = "none"
    """`none`; `static`: always times `scale`; `dynamic`: torch.amp.GradScaler, from `scale` on."""
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.scaling not in ("none", "static", "dynamic"):
            raise ValueError(f"scaling is none, static or dynamic, not {self.scaling!r}")

    @property
    def updated(self) -> str:
        """Dtype of what the optimizer updates."""
        return self.master or self.weights


NUMERICS: Mapping[str, Numerics] = MappingProxyType(
    {
        "fp32": Numerics("fp32", "fp32"),
        "tf32": Numerics("fp32", "tf32"),
        "fp16_pure": Numerics("fp16", "fp16"),
        "fp16_amp_unscaled": Numerics("fp32", "fp16", autocast=True),
        "fp16_amp_static": Numerics("fp32", "fp16", autocast=True, scaling="static", scale=STATIC_SCALE),
        "fp16_amp_dynamic": Numerics("fp32", "fp16", autocast=True, scaling="dynamic", scale=DYNAMIC_SCALE),
        "bf16_amp": Numerics("fp32", "bf16", autocast=True),
        "bf16_pure": Numerics("bf16", "bf16"),
        "bf16_master": Numerics("bf16", "bf16", master="fp32"),
        "fp16_master": Numerics("fp16", "fp16", master="fp32", scaling="dynamic", scale=DYNAMIC_SCALE),
    }
)
"""By the names of the files here. A parent without torch reads them too: what the other slots are asked for depends on it."""
