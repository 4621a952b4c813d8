"""Compiled layers with checkpoints: the same losses, less kept, and one graph for what runs again in the backward.

Traced, differentiated and cut into forward and backward as for inductor; the kernels of it are written in the slow test alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from transformers.models.llama.modeling_llama import LlamaMLP

from bench.catalogue import load_catalogue
from bench.workloads.compile import is_compiled
from bench.workloads.train_step import WORKLOAD
from bench.workloads.train_step._memory import memory_findings
from bench.workloads.train_step._witness import proofs
from tests.workloads.training import losses, step_of, training

CHECKPOINTING = ("none", "full", "every_second", "selective")
# Torch's own, when it first compiles; of all tests here, since any of them may be the one that makes what they share.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


@dataclass(frozen=True, slots=True)
class Seen:
    losses: list[float]
    saved_bytes: float | None
    graphs: int
    breaks: list[str]
    unproved: dict[str, str]


def seen(fills: dict[str, str], precision: str = "fp32") -> Seen:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    step = step_of(training(precision, fills=fills))
    learned = losses(step, 2)
    unproved = {slot: proof.detail for slot, proof in proofs(step).items() if proof.verdict != "proved"}
    counters = torch._dynamo.utils.counters
    found = Seen(
        learned,
        memory_findings(step).get("saved_bytes"),
        counters["stats"]["unique_graphs"],
        list(counters["graph_break"]),
        unproved,
    )
    torch._dynamo.reset()
    return found


@pytest.fixture(scope="module")
def without_inductor() -> Iterator[None]:
    """The same way from Python to a forward and a backward graph, which are then run as they are."""
    compile_with = torch.compile

    def to_graphs(function: Any = None, **options: Any) -> Any:
        return compile_with(function, **{**options, "backend": "aot_eager_decomp_partition"})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "compile", to_graphs)
        yield


@pytest.fixture(scope="module")
def compiled(without_inductor: None) -> dict[str, Seen]:
    return {name: seen({"attention": "sdpa_flash", "compile": "layer", "checkpointing": name}) for name in CHECKPOINTING}


@pytest.mark.parametrize("checkpointing", CHECKPOINTING)
def test_compiled_layers_learn_the_same_with_every_checkpoint(compiled: dict[str, Seen], checkpointing: str) -> None:
    plain = losses(step_of(training()), 2)
    assert compiled[checkpointing].losses == pytest.approx(plain, abs=2e-5)
    assert compiled[checkpointing].unproved == {}


def test_compiled_layers_keep_less_the_more_they_compute_again(compiled: dict[str, Seen]) -> None:
    full, second, none = (compiled[name].saved_bytes for name in ("full", "every_second", "none"))
    assert full is not None
    assert second is not None
    assert none is not None
    assert full < second < none
    eager = seen({"attention": "sdpa_flash", "checkpointing": "full"}).saved_bytes
    assert eager is not None
    assert full < 1.2 * eager, "the compiled backward keeps what the checkpoint was to compute again"


@pytest.mark.parametrize(("checkpointing", "graphs"), [("none", 1), ("full", 1), ("every_second", 2), ("selective", 1)])
def test_layers_that_are_alike_share_one_graph_with_their_checkpoint_in_it(
    compiled: dict[str, Seen], checkpointing: str, graphs: int
) -> None:
    assert compiled[checkpointing].breaks == []
    assert compiled[checkpointing].graphs == graphs


def test_a_checkpoint_with_hooks_stays_around_the_compiled_layer(
    without_inductor: None, compiled: dict[str, Seen], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformers.modeling_utils.save_on_cpu", lambda **_: torch.autograd.graph.save_on_cpu())
    offloaded = seen({"attention": "sdpa_flash", "compile": "layer", "checkpointing": "full_offloaded"})
    assert offloaded.losses == pytest.approx(compiled["full"].losses, abs=2e-5)
    assert (offloaded.unproved, offloaded.graphs) == ({}, 1)


def test_a_mask_is_there_before_layers_are_traced_so_that_what_runs_again_is_the_same_graph(
    without_inductor: None, compiled: dict[str, Seen]
) -> None:
    eager = seen({"attention": "eager", "compile": "layer", "checkpointing": "full"})
    assert (eager.breaks, eager.graphs) == ([], 1)
    assert eager.losses == pytest.approx(compiled["full"].losses, abs=2e-5)


@pytest.mark.slow
def test_what_inductor_makes_of_a_checkpointed_layer_learns_the_same_in_16_bits() -> None:
    plain = losses(step_of(training("bf16_pure")), 2)
    found = seen({"attention": "sdpa_flash", "compile": "layer", "checkpointing": "full"}, "bf16_pure")
    assert found.losses == pytest.approx(plain, abs=2e-2)
    assert (found.unproved, found.graphs, found.breaks) == ({}, 1, [])


@pytest.mark.parametrize(
    ("sharding", "below"), [("none", False), ("ddp", False), ("zero2", False), ("fsdp2_kept", True), ("zero3", True)]
)
def test_a_layer_whose_weights_hooks_fetch_is_compiled_below_its_checkpoint(sharding: str, below: bool) -> None:
    spec = WORKLOAD.spec(training("bf16_master", fills={"compile": "layer", "checkpointing": "full", "sharding": sharding}))
    model = step_of(training("bf16_pure", fills={"checkpointing": "full"})).model
    load_catalogue().implementation("compile", "layer").builder(spec)(model)
    for one in model.model.layers:
        assert is_compiled(one)
        assert hasattr(one._gradient_checkpointing_func, "_torchdynamo_orig_callable") is not below


def test_a_layer_with_a_call_that_cannot_be_traced_is_compiled_around_it(
    without_inductor: None, compiled: dict[str, Seen], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Traced with its checkpoint, one such call would leave all of the layer eager."""
    mlp = LlamaMLP.forward

    @torch._dynamo.disable
    def untraced(self: Any, hidden: torch.Tensor) -> torch.Tensor:
        return mlp(self, hidden)

    monkeypatch.setattr(LlamaMLP, "forward", untraced)
    broken = seen({"attention": "sdpa_flash", "compile": "layer", "checkpointing": "full"})
    assert broken.losses == pytest.approx(compiled["full"].losses, abs=2e-5)
    assert broken.graphs > 0


def test_a_checkpoint_from_outside_stays_around_the_compiled_layer() -> None:
    spec = WORKLOAD.spec(training("bf16_pure", fills={"compile": "layer", "checkpointing": "full"}))
    model = step_of(training("bf16_pure", fills={"checkpointing": "full"})).model
    for one in model.model.layers:
        one._gradient_checkpointing_func = torch.utils.checkpoint.checkpoint
    load_catalogue().implementation("compile", "layer").builder(spec)(model)
    assert all(one._gradient_checkpointing_func is torch.utils.checkpoint.checkpoint for one in model.model.layers)
