"""The families of decoders that a step can be made of: what their parts are called in transformers, and what is special about them.

Whatever a family has that a slot does not know is either untouched by the slot, or refused in words here and in `_fill.py`: a model that
computes something else would be worse than none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from bench.declare import Unsupported
from bench.workloads.train_step._spec import DecoderShape


@dataclass(frozen=True, slots=True)
class Architecture:
    """A family, by the names in `transformers.models.<module>`."""

    module: str
    prefix: str
    """What its classes begin with, such as `Llama` of LlamaRMSNorm."""
    model: str
    config: str
    plain_norm: bool = True
    """Whether its norm multiplies by the weight, as the slot rms_norm does, and not by 1 + weight."""
    gated_by_silu: bool = True
    """Whether its mlp is a SwiGLU with three projections, as the slot swiglu has it."""
    other_mlp: str = ""
    """What the mlp is otherwise."""
    silu: bool = True
    """Whether its mlp has a SiLU at all, in however many projections."""
    shares_width: bool = False
    """Whether its heads share out the hidden size, whatever a shape's head_dim is."""
    windowed: bool = False
    """Whether its layers, or some of them, have the attention window of a shape."""
    ends_with_norm: bool = False
    """Whether a norm comes after the mlp, within a layer."""


def _family(module: str, prefix: str, **special: object) -> Architecture:
    return Architecture(module, prefix, f"{prefix}ForCausalLM", f"{prefix}Config", **special)  # type: ignore[arg-type]


ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
    {
        "llama": _family("llama", "Llama"),
        "qwen2": _family("qwen2", "Qwen2", shares_width=True),
        "qwen3": _family("qwen3", "Qwen3"),
        "mistral": _family("mistral", "Mistral", windowed=True),
        "phi3": _family(
            "phi3",
            "Phi3",
            gated_by_silu=False,
            other_mlp="one projection for gate and up together",
            shares_width=True,
            windowed=True,
        ),
        "gemma3_text": Architecture(
            "gemma3",
            "Gemma3",
            "Gemma3ForCausalLM",
            "Gemma3TextConfig",
            plain_norm=False,
            gated_by_silu=False,
            other_mlp="a GeGLU",
            silu=False,
            windowed=True,
            ends_with_norm=True,
        ),
    }
)
"""transformers' `model_type` to the family."""

REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "gemma2": "its attention caps the logits (softcap), which no implementation of the slot attention computes",
        "deepseek_v2": "it has latent attention and a mixture of experts, which the slots attention and swiglu do not describe",
    }
)
"""Families that named shapes have and steps cannot be made of, with the reason."""

FEWEST_TOKENS = 3
"""From which on there is a factor between 1 and the size of the vocabulary that has no divisor in common with it (`_data.py`)."""

GEMMA3_PERIOD = 6
"""Every sixth layer of Gemma 3 sees everything, the others have a window."""


def refuse_impossible(shape: DecoderShape) -> None:
    """Raises ValueError, in words, for sizes that do not make a decoder of its family; nothing of a family that is refused anyway."""
    family = ARCHITECTURES.get(shape.architecture)
    if family is None:
        return
    if family.shares_width and shape.heads * shape.head_dim != shape.hidden_size:
        raise ValueError(f"{shape.architecture} shares its hidden size out among its heads: hidden_size must be heads * head_dim")
    if shape.sliding_window is not None and not family.windowed:
        raise ValueError(f"{shape.architecture} has no attention window here: leave sliding_window out of the shape")
    if shape.heads % shape.kv_heads:
        raise ValueError(f"heads ({shape.heads}) must be a multiple of kv_heads ({shape.kv_heads})")
    if shape.head_dim % 2:
        raise ValueError(f"head_dim ({shape.head_dim}) must be even: the rotation turns its numbers two by two")
    if shape.vocab_size < FEWEST_TOKENS:
        raise ValueError(
            f"vocab_size ({shape.vocab_size}) must be at least {FEWEST_TOKENS}: the source draws from that many tokens"
        )


def architecture_of(shape: DecoderShape) -> Architecture:
    """The family of a shape. Raises Unsupported, in words, for one that no step can be made of."""
    if shape.architecture in REFUSED:
        raise Unsupported(f"no training step of {shape.architecture}: {REFUSED[shape.architecture]}")
    if shape.architecture not in ARCHITECTURES:
        raise Unsupported(f"no training step of {shape.architecture}; known: {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[shape.architecture]


def windows(shape: DecoderShape) -> tuple[int | None, ...]:
    """The attention window of each layer; None where it sees everything before."""
    if shape.architecture == "gemma3_text":
        return tuple(None if (layer + 1) % GEMMA3_PERIOD == 0 else shape.sliding_window for layer in range(shape.layers))
    return (shape.sliding_window,) * shape.layers
