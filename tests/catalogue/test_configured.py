"""A model that has no name here comes from its config.json, and rows say its sizes and never where the file lay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.catalogue import load_catalogue
from bench.catalogue.configured import FIELDS, config_file, shape_of_config, varied_by
from bench.catalogue.shapes import ModelShape, read_models
from bench.errors import SelectionError, SuiteError
from bench.suite import expand, load_suite
from bench.workloads.train_step import WORKLOAD

SUITE = Path(__file__).parents[2] / "suites" / "train_step.yaml"
WITHOUT_LATENTS = sorted(name for name, shape in read_models().items() if shape.architecture != "deepseek_v2")


def written(folder: Path, shape: ModelShape, **changes: Any) -> Path:
    """The config.json of a named shape, as transformers 5 writes it."""
    rotation = {"rope_theta": shape.rope_theta, "rope_type": "default"}
    if shape.rope_factor is not None:
        rotation |= {"rope_type": "llama3", "factor": shape.rope_factor}
    config = {
        "model_type": shape.architecture,
        **{key: getattr(shape, name) for name, key in FIELDS.items()},
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "tie_word_embeddings": shape.tied_embeddings,
        "sliding_window": shape.sliding_window,
        "rope_parameters": rotation,
        **changes,
    }
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return folder / "config.json"


@pytest.mark.parametrize("name", WITHOUT_LATENTS)
def test_a_named_model_is_known_again_by_its_configuration(name: str, tmp_path: Path) -> None:
    shape = read_models()[name]
    assert shape_of_config(written(tmp_path, shape)).dims() == shape.dims()
    alike = varied_by(written(tmp_path, shape), WORKLOAD.dims)
    assert read_models()[alike.pop("from")].dims() == shape.dims()
    assert alike == {}


def test_the_way_in_which_older_versions_wrote_rotary_frequencies_is_read_too(tmp_path: Path) -> None:
    shape = read_models()["llama-3.2-1b"]
    older = {"rope_parameters": None, "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 32.0}}
    assert shape_of_config(written(tmp_path, shape, **older)).dims() == shape.dims()


def test_cases_of_a_configuration_hold_its_sizes_and_no_path(tmp_path: Path) -> None:
    path = written(tmp_path / "mine", read_models()["tiny"], num_hidden_layers=3, vocab_size=640)
    assert config_file(str(tmp_path / "mine")) == config_file(str(path)) == path
    catalogue = load_catalogue()
    for said in (path, path.parent):
        suite = load_suite(SUITE, catalogue, profile="cpu", sets=[f"model={said}"])
        cases = expand(suite, catalogue, device="cpu").cases
        assert {case.params["model"] for case in cases} == {"tiny(layers=3,vocab_size=640)"}
        assert {(case.params["layers"], case.params["vocab_size"], case.params["hidden_size"]) for case in cases} == {(3, 640, 128)}
        assert str(tmp_path) not in json.dumps(suite.to_data())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "mamba"}, "'mamba' is none that is known here"),
        ({"hidden_size": None}, "lacks hidden_size"),
        ({"hidden_size": "wide"}, "cannot be read"),
        ({"attention_bias": True}, "no field for attention_bias"),
        ({"kv_lora_rank": 512}, "no field for latent attention"),
        ({"hidden_act": "gelu"}, "no field for the activation gelu"),
        ({"partial_rotary_factor": 0.5}, "no field for partial_rotary_factor"),
        ({"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 2.0}}, "only those with"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}}, "only default, llama3"),
    ],
)
def test_what_no_shape_can_say_is_refused_in_words(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = written(tmp_path, read_models()["tiny"], **changes)
    with pytest.raises(SelectionError) as refused:
        varied_by(path, WORKLOAD.dims)
    assert words in str(refused.value)
    with pytest.raises(SuiteError) as told:
        load_suite(SUITE, load_catalogue(), profile="cpu", sets=[f"model={path}"])
    assert words in str(told.value)


def test_text_that_is_no_json_is_refused_and_a_file_that_is_not_there_is_an_unknown_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(SelectionError, match="cannot be read as a config"):
        varied_by(tmp_path / "config.json", WORKLOAD.dims)
    with pytest.raises(SuiteError, match=r"unknown model .*: no config.json is there; name the file, or the folder that holds it"):
        load_suite(SUITE, load_catalogue(), profile="cpu", sets=["model=./no.json"])
