"""A table is learned by heart, the model is quantized for real, and what it still knows is counted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch

from bench.catalogue import load_catalogue
from bench.declare import Bound, Unsupported
from bench.records import Case, Pass
from bench.workloads.qat._torchao import fake_quantized
from bench.workloads.quantized_accuracy import WORKLOAD
from bench.workloads.quantized_accuracy._learned import Scheme, conversion_checks, learn, proof_of, rate, scheme_of
from bench.workloads.quantized_accuracy._source import RANDOM_SHARE, make_source
from tests.workloads.training import SHAPE

CPU = torch.device("cpu")
TINY = {"hidden_size": 32, "intermediate_size": 32, "heads": 2, "kv_heads": 2, "head_dim": 16, "vocab_size": 12}
CONVERTED = [{"ptq": "int8_dynamic"}, {"ptq": "int4"}, {"qat": "int8_dynamic"}, {"qat": "int4"}]


def case(fills: dict[str, str] | None = None, **params: Any) -> Case:
    """A step of a model with room for the table, on few tokens."""
    values = {param.name: param.default for param in WORKLOAD.params} | {"seq_len": 16, "batch": 16, "learning_steps": 2}
    return Case(
        workload=WORKLOAD.name,
        workload_version=WORKLOAD.version,
        subject={**WORKLOAD.defaults, **(fills or {})},
        pass_=Pass.STEP,
        dtype="fp32",
        device="cpu",
        cache="warm",
        timer="wall",
        params={"model": "tiny", **values, **SHAPE, **TINY, **params},
    )


def bound_of(of: Case) -> Bound:
    torch.set_num_threads(1)
    catalogue = load_catalogue()
    implementations = {slot: catalogue.implementation(slot, name) for slot, name in of.subject.items()}
    return WORKLOAD.bind(WORKLOAD.spec(of), implementations, {"seed": torch.tensor(7)})


def step_of(fills: dict[str, str] | None = None) -> Any:
    return bound_of(case(fills)).forward


def scheme(step: Any) -> Scheme:
    return scheme_of(step.spec, step.implementations)


def test_labels_are_what_the_table_says_of_the_two_tokens_before() -> None:
    source = make_source(12, seed=3)
    batch = source.batch(50, 40)
    ids, labels = batch["input_ids"], batch["labels"]
    assert torch.equal(labels[:, 1:], source.table[ids[:, :-1], ids[:, 1:]])
    followed = float((ids[:, 1:] == labels[:, :-1]).double().mean())
    assert followed == pytest.approx(1 - RANDOM_SHARE * 11 / 12, abs=0.04)
    assert len(torch.unique(ids[:, :-1] * 12 + ids[:, 1:])) == 144


def test_a_seed_has_its_own_table_and_walks_and_the_next_batch_is_another() -> None:
    one, again, other = make_source(12, 3), make_source(12, 3), make_source(12, 4)
    first = one.batch(2, 8)["input_ids"]
    assert torch.equal(first, again.batch(2, 8)["input_ids"])
    assert not torch.equal(first, one.batch(2, 8)["input_ids"])
    assert not torch.equal(one.table, other.table)


def test_the_learning_rate_rises_stays_and_falls() -> None:
    rates = [rate(index, 200) for index in range(200)]
    assert rates[0] == pytest.approx(0.05)
    assert set(rates[20:120]) == {1.0}
    assert rates[120:] == sorted(rates[120:], reverse=True)
    assert rates[-1] == pytest.approx(0.05, abs=0.01)


def test_a_model_with_room_for_the_table_learns_it_and_stays_as_it_is() -> None:
    step = step_of()
    learned = learn(step, scheme(step), make_source(12, 7), 60, CPU)
    assert learned.accuracy > 3 / 12  # who guesses is right once in twelve
    assert (learned.quantized, learned.linears) == (0, 14)


def test_a_model_is_trained_for_its_format_from_the_middle_on_and_goes_on_learning() -> None:
    plain, wanted = step_of(), scheme(step_of({"qat": "int4"}))
    seen: list[tuple[int, int]] = []
    plain.update.optimizer.register_step_post_hook(lambda *_: seen.append((len(seen), fake_quantized(plain.model))))
    weight = plain.model.model.layers[0].mlp.up_proj.weight
    learned = learn(plain, wanted, make_source(12, 7), 4, CPU)
    assert seen == [(0, 0), (1, 0), (2, 14), (3, 14)]
    assert plain.update.optimizer.state[weight]["step"] == 4
    assert learned.quantized == learned.linears == 14
    assert learned.weight_bytes < 0.6 * sum(held.numel() * held.element_size() for held in step_of().model.parameters())


@pytest.mark.parametrize("fills", CONVERTED, ids=lambda fills: " ".join(f"{slot}={name}" for slot, name in fills.items()))
def test_converted_weights_are_the_trained_ones_in_the_format(fills: dict[str, str]) -> None:
    step = step_of(fills)
    checks = conversion_checks(step, scheme(step), make_source(12, 7), CPU)
    assert [check.tensor for check in checks] == ["converted_weights", *(["converted_output"] if "qat" in fills else [])]
    assert [check for check in checks if not check.passed] == []
    assert checks[0].detail == "14 of 14 linear layers of the blocks are quantized"


def failed(fills: dict[str, str], spoil: Callable[[Any, Callable[[Any], Any]], Any]) -> list[str]:
    """Names of the checks that a conversion fails which `spoil(model, convert)` makes."""
    step = step_of(fills)
    real = scheme(step)
    spoiled = dataclasses.replace(real, convert=lambda model: spoil(model, real.convert))
    return [check.tensor for check in conversion_checks(step, spoiled, make_source(12, 7), CPU) if not check.passed]


def test_a_conversion_that_loses_more_than_its_format_is_caught() -> None:
    def coarser(model: Any, convert: Callable[[Any], Any]) -> Any:
        with torch.no_grad():
            model.model.layers[0].mlp.up_proj.weight.mul_(1.2)
        return convert(model)

    assert failed({"ptq": "int4"}, coarser) == ["converted_weights"]
    assert failed({"qat": "int8_dynamic"}, coarser) == ["converted_weights", "converted_output"]


def test_a_conversion_that_leaves_a_layer_out_is_caught() -> None:
    def all_but_one(model: Any, convert: Callable[[Any], Any]) -> Any:
        mlp = model.model.layers[0].mlp
        kept, mlp.up_proj = mlp.up_proj, torch.nn.Identity()
        convert(model)
        mlp.up_proj = kept
        return model

    assert failed({"ptq": "int4"}, all_but_one) == ["converted_weights"]


def test_findings_are_of_the_converted_model_and_the_proof_of_what_was_asked() -> None:
    of = case({"qat": "int4"})
    spec, bound = WORKLOAD.spec(of), bound_of(of)
    inputs = WORKLOAD.make_inputs(spec, "cpu", torch.Generator().manual_seed(1))
    bound.forward(inputs)
    found = WORKLOAD.findings(spec, bound)
    assert 0.0 <= found["accuracy"] <= 1.0
    assert found["weight_bytes"] < 25_000
    proofs = WORKLOAD.proofs(spec, bound)
    assert {slot for slot, proof in proofs.items() if proof.verdict != "proved"} == set()
    assert proofs["ptq"].detail == "14 of 14 linear layers of the model that was asked are quantized"


def test_a_model_that_was_not_converted_is_no_proof_and_one_that_should_not_be_is_none_either() -> None:
    step = step_of()
    plain = learn(step, scheme(step), make_source(12, 7), 1, CPU)
    assert proof_of(plain, "int4").verdict == "disproved"
    assert proof_of(plain, None).verdict == "proved"
    assert proof_of(dataclasses.replace(plain, quantized=14), None).verdict == "disproved"


def test_a_format_comes_after_training_or_with_it_and_not_twice() -> None:
    with pytest.raises(Unsupported, match=r"qat.*or quantized after training \(ptq\), not both"):
        bound_of(case({"qat": "int4", "ptq": "int4"}))
