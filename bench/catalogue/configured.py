"""The shape of a model that has no name here, read from the config.json that Hugging Face keeps beside its weights."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from bench.catalogue.names import listed
from bench.catalogue.shapes import ModelShape, read_models
from bench.errors import SelectionError

CONFIG = "config.json"
FIELDS: Mapping[str, str] = {
    "hidden_size": "hidden_size",
    "intermediate_size": "intermediate_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "vocab_size": "vocab_size",
    "norm_eps": "rms_norm_eps",
    "max_position": "max_position_embeddings",
}
"""Field of a shape to the key of a config.json, where it must stand there."""
KINDS: Mapping[str, type] = {entry.name: float if str(entry.type) == "float" else int for entry in fields(ModelShape)}
TIED = frozenset({"gemma3_text"})
"""Families that tie their embeddings where a file does not say; it says only what is not usual there."""
ACTIVATIONS: Mapping[str, str] = {"gemma3_text": "gelu_pytorch_tanh"}
"""What the gate of an mlp has, where it is not `silu`."""
LLAMA3: Mapping[str, float] = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
"""The rest of that kind of frequencies, which a shape has no field for."""
ROTATIONS = ("default", "llama3")
"""Kinds of rotary frequencies that a shape can say."""


def config_file(name: str) -> Path | None:
    """The file that `name` means: itself, or the one in a folder of that name; None where it is neither."""
    path = Path(name)
    path = path / CONFIG if path.is_dir() else path
    return path if path.suffix == ".json" and path.is_file() else None


def varied_by(path: Path, dims: Collection[str]) -> dict[str, Any]:
    """The model as `{from: NAME, FIELD: [VALUE]}`: the named one of its family that it is most like, and those of `dims` that differ.

    So rows say what was trained and not where it was described. Raises SelectionError, in words, for what no shape can say.
    """
    own = shape_of_config(path)
    family = [shape for shape in read_models().values() if shape.architecture == own.architecture]
    if not family:
        known = sorted({shape.architecture for shape in read_models().values()})
        raise SelectionError(f"{path}: model_type {own.architecture!r} is none that is known here; known: {listed(known)}")
    named = [
        {"from": shape.name, **{name: [mine] for name, mine in own.dims().items() if name in dims and mine != shape.dims()[name]}}
        for shape in family
    ]
    return min(named, key=lambda form: (sum(value == [None] for value in form.values()), len(form)))


def shape_of_config(path: Path) -> ModelShape:
    """All sizes as the file gives them. Raises SelectionError where it cannot be read or says what a shape has no field for."""
    try:
        whole: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        config: dict[str, Any] = whole.get("text_config", whole)
        missing = [key for key in ("model_type", *FIELDS.values()) if config.get(key) is None]
        if missing:
            raise SelectionError(f"{path} lacks {listed(missing)}: it is no configuration of a decoder that is known here")
        _demand_sayable(path, config)
        rotation = config.get("rope_parameters") or {"rope_theta": config.get("rope_theta"), **(config.get("rope_scaling") or {})}
        kind = str(rotation.get("rope_type") or rotation.get("type") or "default")
        if kind not in ROTATIONS or rotation.get("rope_theta") is None:
            raise SelectionError(f"{path}: of rotary frequencies only {listed(ROTATIONS)} with one rope_theta are known here")
        if kind == "llama3" and any(rotation.get(name, usual) != usual for name, usual in LLAMA3.items()):
            raise SelectionError(f"{path}: of llama3's rotary frequencies only those with {dict(LLAMA3)} are known here")
        if rotation.get("partial_rotary_factor", config.get("partial_rotary_factor") or 1.0) != 1.0:
            raise SelectionError(
                f"{path}: a shape has no field for partial_rotary_factor; take a named model (`bench list models`)"
            )
        sizes: dict[str, Any] = {name: KINDS[name](config[key]) for name, key in FIELDS.items()}
        # Qwen's configurations name a window that they do not use.
        window = config.get("sliding_window") if config.get("use_sliding_window", True) else None
        return ModelShape(
            name=path.parent.name,
            source=CONFIG,
            architecture=str(config["model_type"]),
            kv_heads=int(config.get("num_key_value_heads") or sizes["heads"]),
            head_dim=int(config.get("head_dim") or sizes["hidden_size"] // sizes["heads"]),
            tied_embeddings=bool(config.get("tie_word_embeddings", config["model_type"] in TIED)),
            rope_theta=float(rotation["rope_theta"]),
            rope_factor=float(rotation["factor"]) if kind == "llama3" else None,
            sliding_window=None if window is None else int(window),
            **sizes,
        )
    except (OSError, ValueError, TypeError, AttributeError, KeyError, ZeroDivisionError) as error:
        raise SelectionError(f"{path} cannot be read as a config.json: {type(error).__name__}: {error}") from error


def _demand_sayable(path: Path, config: Mapping[str, Any]) -> None:
    usual = ACTIVATIONS.get(config["model_type"], "silu")
    activation = config.get("hidden_activation") or config.get("hidden_act") or usual
    biased = config.get("mlp_bias") or (config.get("attention_bias") and config["model_type"] != "qwen2")
    latent = config.get("kv_lora_rank") is not None
    for found, what in (
        (biased, "attention_bias or mlp_bias"),
        (latent, "latent attention (kv_lora_rank)"),
        (activation != usual, f"the activation {activation}"),
    ):
        if found:
            raise SelectionError(f"{path}: a shape has no field for {what}; take a named model (`bench list models`)")
