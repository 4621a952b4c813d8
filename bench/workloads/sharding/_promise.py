"""Whether a rank holds what its way of sharing promises: the whole of weights, gradients and states, or its share of them.

A share is 1/N of the whole and may be off by what pads it. fully_shard cuts the first dimension of each tensor, so by a row of each at
most; DeepSpeed pads a whole list of tensors to a multiple of a few elements for each rank in stages 1 and 2, and each tensor by less than
an element a rank in stage 3, where weights that are small on purpose are whole besides.

Only what is learned has gradients, an fp32 copy and states. Of states AdamW's two are promised; of optimizers with other states nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.declare import dtype_bytes
from bench.workloads.precision import Numerics

ADAMW_STATES = 2
SLACK_BYTES = 4096
"""Alignment of flat buffers, counts of steps."""
KINDS = ("weights", "gradients", "masters", "states")
EVERYTHING = frozenset(KINDS)


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes that this rank holds of each; None where nobody has looked."""

    weights: int | None
    gradients: int | None
    masters: int | None
    states: int | None


@dataclass(frozen=True, slots=True)
class Promise:
    """What a rank is to hold."""

    whole_weight_bytes: int
    """Of all weights, frozen ones too, before they were shared."""
    learned_elements: int
    numerics: Numerics
    """Of what the update works on."""
    plain_adamw: bool
    """Whether there are AdamW's two states in the dtype of what is updated."""
    ranks: int
    shared: frozenset[str]
    """Which of the four are shared out."""
    uneven: Mapping[str, int] = field(default_factory=dict)
    """By how many elements a share of each may differ."""

    def bytes_of(self, kind: str) -> int:
        """Of `weights`, `gradients`, `masters` or `states` on one rank."""
        learned = self.learned_elements
        whole = {
            "weights": self.whole_weight_bytes,
            "gradients": learned * dtype_bytes(self.numerics.weights),
            "masters": learned * dtype_bytes(self.numerics.master) if self.numerics.master else 0,
            "states": ADAMW_STATES * learned * dtype_bytes(self.numerics.updated),
        }[kind]
        return whole // self.ranks if kind in self.shared else whole

    def facts(self) -> dict[str, str]:
        """In words which of the four are shared out and which lie whole on each rank: `shared_out`, `kept_whole`."""
        kinds = [kind for kind in KINDS if kind != "masters" or self.numerics.master]
        return {
            "shared_out": ", ".join(kind for kind in kinds if kind in self.shared),
            "kept_whole": ", ".join(kind for kind in kinds if kind not in self.shared),
        }

    def broken_by(self, held: Held) -> str | None:
        """The first of the four that is not as promised, in words."""
        for kind in KINDS:
            found = getattr(held, kind)
            if found is None or (kind == "states" and not self.plain_adamw):
                continue
            wanted = self.bytes_of(kind)
            parts = ADAMW_STATES if kind == "states" else 1
            slack = SLACK_BYTES + parts * 4 * self.uneven.get(kind, 0)
            if abs(found - wanted) > slack:
                return f"{kind} are {found:,} bytes on this rank, where {wanted:,} were promised"
        return None
