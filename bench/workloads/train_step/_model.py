"""Makes the decoder: transformers' own class with random weights, in the right dtype and on the device from the first byte.

transformers decides at import what to do with each optional package it finds, and loads many of them. Only the family's modeling module
is imported, never `AutoModel`, and hubs are told to stay offline; nothing of it is patched.

The weights follow from a seed, the device and the dtype they are drawn in. Small models are drawn in fp32 and then rounded, so that all
precisions of a check begin with the same numbers; large ones, for which there may be no room in fp32, in their own dtype.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import TYPE_CHECKING, Any

from bench.declare import torch_dtype
from bench.workloads.train_step._architectures import architecture_of
from bench.workloads.train_step._spec import DecoderShape, TrainStepSpec

if TYPE_CHECKING:
    import torch

DRAWN_IN_FP32 = 50_000_000
"""Parameters up to which a model is drawn in fp32, whatever its dtype: 200 MB."""

INTERFACE = "stepbench"
"""Under this name transformers finds the attention that each layer carries with it (`stepbench_attention`). A name of our own: for names
that it does not know transformers makes no mask, and any with `flash` in it would be taken for a package that it must load."""

ADAPTERS_AFTER = 1
"""Added to the seed of the weights before an adaptation draws its own."""

LLAMA3_ROPE = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
"""What all published Llamas from 3.1 on have in common, beside the factor."""


def modeling(shape: DecoderShape) -> ModuleType:
    """transformers' modeling module of the shape's family, imported on the first call."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    family = architecture_of(shape)
    # A statement, not importlib: the time of statements is measured, and a later trial finds repeated what an earlier one ran.
    source: ModuleType = __import__(f"transformers.models.{family.module}.modeling_{family.module}", fromlist=[family.model])
    return source


def make_model(spec: TrainStepSpec, seed: int, device: torch.device, dtype: str, interface: str) -> Any:
    """The causal model in training mode; `interface` names its attention in transformers' AttentionInterface."""
    import torch
    from transformers import AttentionInterface

    AttentionInterface.register(INTERFACE, _attention_of_the_layer)
    shape, wanted = spec.shape, torch_dtype(dtype)
    source = modeling(shape)
    family = architecture_of(shape)
    config_module = __import__(f"transformers.models.{family.module}.configuration_{family.module}", fromlist=[family.config])
    config = getattr(config_module, family.config)(**_fields(shape, spec))
    drawn = torch.float32 if _parameters(shape) <= DRAWN_IN_FP32 else wanted
    torch.manual_seed(seed)
    with torch.device(device):
        model = getattr(source, family.model)._from_config(config, dtype=drawn, attn_implementation=interface)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(wanted)  # model.to() would round the rotary frequencies too, which stay fp32 in use
    return model.train()


def _attention_of_the_layer(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Any, **_: Any
) -> tuple[torch.Tensor, None]:
    """As transformers calls an attention: out is (batch, seq, heads, head_dim). The mask is none; the layer's spec has it."""
    return module.stepbench_attention(query, key, value).transpose(1, 2), None


def _parameters(shape: DecoderShape) -> int:
    from bench.workloads.train_step._flops import block_weights

    return block_weights(shape) + shape.vocab_size * shape.hidden_size * (1 if shape.tied_embeddings else 2)


def _fields(shape: DecoderShape, spec: TrainStepSpec) -> dict[str, Any]:
    """The configuration's fields; what is not named here stays as the family has it."""
    fields: dict[str, Any] = {
        "vocab_size": shape.vocab_size,
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "max_position_embeddings": max(shape.max_position, spec.seq_len),
        "rms_norm_eps": shape.norm_eps,
        "tie_word_embeddings": shape.tied_embeddings,
        "attention_dropout": spec.dropout,
        "use_cache": False,
        "pad_token_id": None,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    if shape.architecture == "phi3":
        fields["original_max_position_embeddings"] = fields["max_position_embeddings"]
    if architecture_of(shape).windowed:
        fields["sliding_window"] = shape.sliding_window
    if shape.architecture == "gemma3_text":
        fields["rope_theta"] = shape.rope_theta
        fields["query_pre_attn_scalar"] = shape.head_dim
    elif shape.rope_factor is not None:
        fields["rope_parameters"] = {
            "rope_type": "llama3",
            "rope_theta": shape.rope_theta,
            "factor": shape.rope_factor,
            **LLAMA3_ROPE,
        }
    else:
        fields["rope_parameters"] = {"rope_type": "default", "rope_theta": shape.rope_theta}
    if architecture_of(shape).shares_width:
        del fields["head_dim"]  # theirs is hidden_size / heads
    return fields
