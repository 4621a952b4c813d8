"""The closed forms that answer claims which are arithmetic: bytes of states and activations, by the memory model's own formulas.

What they say is computed and never measured. Numbers are bytes, but for those that say otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.errors import SelectionError
from bench.plan.published import deepspeed_estimate, founding_figures, zero_states


def _bytes_each(parameters: float, each: float) -> float:
    """So many bytes of each parameter."""
    return parameters * each


def _founding(figure: str) -> float:
    """A figure of `bench plan --explain`, by its beginning."""
    found = [one.size_bytes for one in founding_figures() if one.what.startswith(figure)]
    if len(found) != 1:
        raise SelectionError(f"{len(found)} figures of the memory model begin with {figure!r}")
    return found[0]


def _zero(parameters: float, stage: int, ranks: int) -> float:
    """Rajbhandari et al., arXiv:1910.02054, table 1: 16-bit weights and gradients, and 12 bytes of states a parameter."""
    return zero_states(parameters, stage, ranks)


def _estimate(parameters: float, largest_layer: float, stage: int, ranks: int) -> float:
    """What DeepSpeed's estimators of model states say today."""
    return deepspeed_estimate(parameters, largest_layer, stage, ranks)


def _constants(block: int, nested: int) -> float:
    """Dettmers et al., arXiv:2305.14314, section 3: bytes a weight that quantization constants take.

    One fp32 number a block of weights; with `nested` above zero it is 8 bits, and an fp32 number for so many of them.
    """
    return 4 / block if nested == 0 else 1 / block + 4 / (block * nested)


FORMULAS: Mapping[str, Callable[..., float]] = {
    "bytes_each": _bytes_each,
    "founding": _founding,
    "zero_states": _zero,
    "deepspeed_estimate": _estimate,
    "quantization_constants": _constants,
}
"""By the name that a claim uses."""

COMMANDS: Mapping[str, str] = {"founding": "bench plan --explain"}
"""Those that another command shows as well."""
