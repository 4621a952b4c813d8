"""How the parts of a whole look: causes of a peak, phases of a step. A colour and a pattern each, so that neither is the only cue.

The patterns are defined once on the page; charts fill with `url(#part3)`.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.report.numbers.memory import CAUSE_WORDS, CAUSES
from bench.report.numbers.summary import PHASES

_STROKES = (
    "",
    "M-1 7L7 -1M5 13L13 5M-1 13L13 -1",
    "M0 3H12M0 9H12",
    "M-1 5L5 11M-1 -1L13 13M7 1L13 7",
    "M3 0V12M9 0V12",
    "M3 3h1.6v1.6h-1.6zM9 9h1.6v1.6h-1.6z",
)
_HATCHES = ("", "///", "---", "xxx", "|||", "...")
"""The same strokes as matplotlib spells them."""
_LOOKS: Mapping[str, tuple[int, int]] = {
    "parameters": (2, 0), "gradients": (1, 1), "optimizer_states": (3, 2), "inputs": (5, 5), "checkpoints": (6, 4),
    "saved_activations": (4, 3), "loss": (7, 1), "temporaries": (5, 3), "other_residents": (0, 4), "allocator_slack": (6, 5),
    "unattributed": (0, 1), "forward_s": (2, 0), "backward_s": (1, 1), "optimizer_s": (3, 2),
}  # fmt: skip
"""Part to colour of the page and strokes."""
ORDER = (*CAUSES, *PHASES)
HATCHES: tuple[str, ...] = tuple(_HATCHES[_LOOKS[part][1]] for part in ORDER)
"""By the number of a part, for a drawing that is no part of the page."""
WORDS: Mapping[str, str] = {**CAUSE_WORDS, **{phase: phase.removesuffix("_s") for phase in PHASES}}


def number(part: str) -> int:
    """The number of a part's pattern on the page."""
    return ORDER.index(part)


def colour_of(number: int) -> int:
    """The page's colour for the part of this number."""
    return _LOOKS[ORDER[number]][0]


def pattern_definitions() -> str:
    """SVG definitions of all patterns, for one hidden drawing of the page."""
    made = []
    for part in ORDER:
        colour, strokes = _LOOKS[part]
        lines = f'<path d="{_STROKES[strokes]}" fill="none" stroke="var(--card)" stroke-width="1.3"/>' if _STROKES[strokes] else ""
        made.append(
            f'<pattern id="part{number(part)}" width="12" height="12" patternUnits="userSpaceOnUse">'
            f'<rect width="12" height="12" fill="var(--s{colour})"/>{lines}</pattern>'
        )
    return "".join(made)
