"""The named model shapes are those that were published: their parameters add up to the published numbers."""

from __future__ import annotations

import pytest

from bench.catalogue import ModelShape, load_catalogue

PUBLISHED = {
    "llama-2-7b": 6_738_415_616,
    "llama-3-8b": 8_030_261_248,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3-70b": 70_553_706_496,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-8b": 8_190_735_360,
    "mistral-7b": 7_248_023_552,
    "phi-3-mini": 3_821_079_552,
    "gemma-2-9b": 9_241_705_984,
    "gemma-3-4b": 3_880_263_168,
}
"""Parameters of the checkpoints (of gemma-3-4b its text model)."""


def parameters(shape: ModelShape) -> int:
    """Embeddings, projections, gated mlp and norms of a decoder, with what the model's family adds to them."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    layer = shape.hidden_size * (2 * queries + 2 * keys) + 3 * shape.hidden_size * shape.intermediate_size
    layer += (4 if shape.name.startswith("gemma") else 2) * shape.hidden_size
    if shape.name.startswith("qwen2.5"):
        layer += queries + 2 * keys
    if shape.name.startswith(("qwen3", "gemma-3")):
        layer += 2 * shape.head_dim
    embeddings = shape.vocab_size * shape.hidden_size * (1 if shape.tied_embeddings else 2)
    return shape.layers * layer + embeddings + shape.hidden_size


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_parameters_of_a_shape_add_up_to_the_published_number(name: str) -> None:
    assert parameters(load_catalogue().models[name]) == PUBLISHED[name]


def test_every_shape_has_a_source_and_whole_groups_of_heads() -> None:
    models = load_catalogue().models
    assert {"tiny", "deepseek-v2-lite"} <= set(models)
    for name, shape in models.items():
        assert shape.name == name
        assert shape.source
        assert shape.heads % shape.kv_heads == 0
        assert shape.dims()["head_dim"] == shape.head_dim


def test_the_head_dimension_of_values_is_that_of_keys_unless_a_model_says_otherwise() -> None:
    models = load_catalogue().models
    assert models["llama-3-8b"].dims()["value_head_dim"] == 128
    latent = models["deepseek-v2-lite"].dims()
    assert (latent["head_dim"], latent["value_head_dim"]) == (192, 128)


def test_a_shape_says_its_family_its_window_and_how_its_rotation_is_stretched() -> None:
    models = load_catalogue().models
    assert {name: shape.architecture for name, shape in models.items() if shape.architecture != "llama"} == {
        "qwen2.5-7b": "qwen2",
        "qwen2.5-14b": "qwen2",
        "qwen2.5-72b": "qwen2",
        "qwen3-8b": "qwen3",
        "mistral-7b": "mistral",
        "phi-3-mini": "phi3",
        "gemma-2-9b": "gemma2",
        "gemma-3-4b": "gemma3_text",
        "deepseek-v2-lite": "deepseek_v2",
    }
    windows = {name: shape.sliding_window for name, shape in models.items() if shape.sliding_window is not None}
    assert windows == {"phi-3-mini": 2047, "gemma-2-9b": 4096, "gemma-3-4b": 1024}
    factors = {name: shape.rope_factor for name, shape in models.items() if shape.rope_factor is not None}
    assert factors == {"llama-3.1-8b": 8.0, "llama-3.2-1b": 32.0}
    assert models["llama-3-8b"].dims()["sliding_window"] is None
