"""torchao's CPUOffloadOptimizer needs a GPU: a stand-in with its parts shows what a step sees of it, and refusals are in words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bench.catalogue import load_catalogue
from bench.declare import Unsupported
from bench.workloads.offloading import STATES_TO_HOST_BY_TORCHAO
from bench.workloads.offloading._torchao import HostOptimizer, refuse_what_comes_too_late
from bench.workloads.precision import NUMERICS
from bench.workloads.sharding._config import configuration
from bench.workloads.sharding._holdings import refuse_offloading
from bench.workloads.train_step import WORKLOAD
from bench.workloads.train_step._update import Update
from tests.workloads.training import training

SMALL = 4096


class OnTheHost:
    """As torchao's keeps weights: a host copy with an optimizer each, and one optimizer for small tensors."""

    def __init__(self, weights: list[Any], optimizer_class: Any, *, offload_gradients: bool) -> None:
        assert not offload_gradients
        self.param_d2h_map: dict[Any, Any] = {}
        self.optim_dict: dict[Any, Any] = {}
        for weight in weights:
            if weight.numel() >= SMALL:
                self.param_d2h_map[weight] = copy = weight.detach().clone()
                self.optim_dict[weight] = optimizer_class([{"params": copy}])
        small = [weight for weight in weights if weight.numel() < SMALL]
        self.d_opt = optimizer_class([{"params": small}]) if small else None

    def step(self) -> None:
        for weight, optimizer in self.optim_dict.items():
            copy = self.param_d2h_map[weight]
            copy.grad = weight.grad.clone()
            optimizer.step()
            weight.data.copy_(copy)
        if self.d_opt is not None:
            self.d_opt.step()


def _adamw(weights: list[Any]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(weights, lr=0.1)


@pytest.fixture
def weights() -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(1)
    return [torch.nn.Parameter(torch.randn(size, generator=generator)) for size in ((64, 64), (64,))]


def test_a_step_sees_one_optimizer_of_its_own_weights_and_learns_the_same(
    weights: list[torch.nn.Parameter], monkeypatch: pytest.MonkeyPatch
) -> None:
    ao = pytest.importorskip("torchao.optim")
    monkeypatch.setattr(ao, "CPUOffloadOptimizer", OnTheHost)
    alone = [torch.nn.Parameter(weight.detach().clone()) for weight in weights]

    update = Update(NUMERICS["fp32"], weights, lambda made: HostOptimizer(made, _adamw), 0.0)  # type: ignore[arg-type, return-value]
    plain = Update(NUMERICS["fp32"], alone, _adamw, 0.0)
    for _ in range(3):
        for one, other in zip(weights, alone, strict=True):
            one.grad = other.grad = torch.ones_like(one)
        update.step()
        plain.step()
    for one, other in zip(weights, alone, strict=True):
        assert torch.equal(one, other)
    assert update.outside_the_optimizer() == (0, 2)
    assert update.skipped_steps == 0
    assert [set(state) for state in update.optimizer.state.values()] == [{"step", "exp_avg", "exp_avg_sq"}] * 2
    assert list(update.optimizer.state) == weights


@pytest.mark.parametrize(
    ("precision", "clip_norm", "words"),
    [
        ("bf16_master", 0.0, "an fp32 copy of the weights, as in precision bf16_master"),
        ("fp16_amp_dynamic", 0.0, "the loss's scale is taken off"),
        ("fp32", 1.0, r"gradients are clipped \(clip_norm: 0 leaves them\)"),
    ],
)
def test_what_would_change_gradients_after_they_were_copied_is_refused_in_words(
    precision: str, clip_norm: float, words: str
) -> None:
    with pytest.raises(Unsupported, match=f"while the backward runs, before {words}"):
        refuse_what_comes_too_late(NUMERICS[precision], clip_norm)
    refuse_what_comes_too_late(NUMERICS["bf16_pure"], 0.0)


def test_it_is_refused_on_a_cpu_by_declaration() -> None:
    impl = load_catalogue().implementation("offloading", "optimizer_cpu_ao")
    assert impl.declared_refusal(training("fp32")) == "optimizer_cpu_ao runs on cuda, not on cpu"


def test_who_shares_a_step_says_that_torchao_is_for_one_process() -> None:
    parts: Any = SimpleNamespace(offloading=STATES_TO_HOST_BY_TORCHAO, device=torch.device("cuda"), numerics=NUMERICS["fp32"])
    parts.spec = WORKLOAD.spec(training("fp32"))
    for refused in (lambda: refuse_offloading(parts, "ddp"), lambda: configuration(parts, 2, nvme_folder=None)):
        with pytest.raises(Unsupported, match="states to the host by torchao needs sharding=none"):
            refused()
