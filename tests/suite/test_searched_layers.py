"""The number of a model's layers can be searched, as its parameters can: how large a model trains is a question of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.catalogue import load_catalogue
from bench.errors import SuiteError
from bench.suite import expand, load_suite, parse_filters

SUITES = Path(__file__).parents[2] / "suites"


def test_a_search_of_layers_begins_with_the_fewest_and_a_filter_asks_for_others() -> None:
    catalogue = load_catalogue()
    suite = load_suite(SUITES / "largest_model.yaml", catalogue, profile="cpu")
    first = expand(suite, catalogue, device="cpu")
    assert {case.params["layers"] for case in first.cases} == {2}
    assert {case.params["hidden_size"] for case in first.cases} == {512}
    asked = expand(suite, catalogue, device="cpu", filters=parse_filters(["layers=8"]))
    assert {case.params["layers"] for case in asked.cases} == {8}


def test_no_other_field_of_a_shape_can_be_searched(tmp_path: Path) -> None:
    text = (SUITES / "largest_model.yaml").read_text().replace("axis: layers", "axis: hidden_size")
    (tmp_path / "other.yaml").write_text(text)
    with pytest.raises(SuiteError, match="hidden_size"):
        load_suite(tmp_path / "other.yaml", load_catalogue(), profile="cpu")


@pytest.mark.parametrize("name", ["zero", "zero_vs_fsdp", "offload_step", "largest_model"])
def test_suites_of_sharing_expand_on_a_cpu_and_on_a_gpu(name: str) -> None:
    catalogue = load_catalogue()
    for profile, device in (("cpu", "cpu"), ("quick", "cuda"), (None, "cuda")):
        found = expand(load_suite(SUITES / f"{name}.yaml", catalogue, profile=profile), catalogue, device=device)
        assert len(found.cases) >= 2
