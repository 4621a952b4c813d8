"""The causes of a real call's peak, on this machine's CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from bench.declare import Bound
from bench.records import Pass
from bench.worker.attribution_trace import explain_peak
from bench.worker.memory_cpu import peak_bytes
from bench.worker.step import Step

WIDTH, ROWS, LAYERS = 256, 512, 4
FLOAT = 4


class Model(torch.nn.Module):
    def __init__(self, checkpointed: bool) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS))
        self.checkpointed = checkpointed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:

            def block(x: torch.Tensor, layer: torch.nn.Module = layer) -> torch.Tensor:
                made: torch.Tensor = torch.tanh(layer(x))
                return made

            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return x


def training_step(checkpointed: bool = False) -> Step:
    model = Model(checkpointed)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)

    def phased(inputs: Mapping[str, torch.Tensor], mark: Callable[[str], None]) -> Mapping[str, torch.Tensor]:
        mark("forward")
        optimizer.zero_grad(set_to_none=True)
        out = model(inputs["x"])
        mark("loss")
        loss = (out * 2).square().mean()
        mark("backward")
        loss.backward()
        mark("optimizer")
        optimizer.step()
        return {"loss": loss.detach()}

    def holdings() -> dict[str, Sequence[torch.Tensor]]:
        states = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor)]
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        return {"parameters": list(model.parameters()), "gradients": gradients, "optimizer_states": states}

    bound = Bound(
        lambda inputs: phased(inputs, lambda _name: None),
        {f"w{n}": parameter for n, parameter in enumerate(model.parameters())},
        phased=phased,
        holdings=holdings,
    )
    step = Step(bound, {"x": torch.randn(ROWS, WIDTH)}, {}, Pass.STEP)
    for _ in range(2):
        step.prepare()
        step()
    return step


def causes_of(step: Step) -> tuple[dict[str, int], Any]:
    measurements, facts = explain_peak(step)
    causes = {m.metric.removeprefix("peak_").removesuffix("_bytes"): int(m.samples[0]) for m in measurements}
    return causes, facts["memory_explained"]


def test_a_training_steps_peak_is_split_to_the_byte() -> None:
    causes, facts = causes_of(training_step())
    assert sum(causes.values()) == facts["peak_bytes"]
    weights = LAYERS * WIDTH * WIDTH * FLOAT
    activation = ROWS * WIDTH * FLOAT
    assert causes["parameters"] == weights
    assert causes["optimizer_states"] == 2 * weights + LAYERS * FLOAT  # AdamW counts its steps in tensors
    assert causes["inputs"] == activation
    assert causes["unattributed"] == 0
    # At the loss every tanh is saved, and what the square saves is the loss's.
    assert facts["phase"] in ("loss", "backward")
    assert causes["saved_activations"] == LAYERS * activation
    assert activation <= causes["loss"] <= 2 * activation + 1024


def test_the_disturbed_and_the_undisturbed_peak_agree() -> None:
    step = training_step()
    net, total = peak_bytes(step)
    causes, facts = causes_of(step)
    assert facts["peak_bytes"] == pytest.approx(total.samples[0], rel=0.005)
    residents = causes["parameters"] + causes["optimizer_states"] + causes["inputs"]
    assert total.samples[0] - net.samples[0] == residents


class MadeForward(torch.autograd.Function):
    """A loss that makes its gradients with its forward, and keeps them until they are asked for."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(torch.ones_like(x), torch.ones_like(table))
        return x.sum() + table.sum()

    @staticmethod
    def backward(ctx: Any, *outer: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        of_x, of_table = (gradient.mul_(outer[0]) for gradient in ctx.saved_tensors)
        return of_x, of_table


def test_a_gradient_that_lay_among_the_saved_is_added_to_in_place_as_without_a_trace() -> None:
    table = torch.nn.Parameter(torch.randn(8 * ROWS, WIDTH))

    def tied(inputs: Mapping[str, torch.Tensor], mark: Callable[[str], None]) -> Mapping[str, torch.Tensor]:
        mark("forward")
        table.grad = None
        x = torch.nn.functional.embedding(inputs["tokens"], table)
        mark("loss")
        loss = MadeForward.apply(x, table)
        mark("backward")
        loss.backward()
        return {"loss": loss.detach()}

    bound = Bound(
        lambda inputs: tied(inputs, lambda _name: None),
        {"table": table},
        phased=tied,
        holdings=lambda: {"parameters": [table], "gradients": [] if table.grad is None else [table.grad]},
    )
    step = Step(bound, {"tokens": torch.arange(ROWS)}, {}, Pass.STEP)
    step()
    _, total = peak_bytes(step)
    _, facts = causes_of(step)
    assert facts["peak_bytes"] == total.samples[0]


def test_checkpointing_trades_saved_activations_for_its_own_inputs() -> None:
    plain, _ = causes_of(training_step())
    causes, _ = causes_of(training_step(checkpointed=True))
    activation = ROWS * WIDTH * FLOAT
    # The first checkpoint keeps the input, which is an input; the others what lies between.
    assert causes["checkpoints"] == (LAYERS - 1) * activation
    assert causes["saved_activations"] < plain["saved_activations"]
    assert plain["checkpoints"] == 0


def test_gradients_that_are_gone_before_the_call_ends_are_gradients_all_the_same() -> None:
    step = training_step()
    weights = list(step.leaves)
    for weight in weights:
        weight.grad = None

    def forgetful(inputs: Mapping[str, torch.Tensor], mark: Callable[[str], None]) -> Mapping[str, torch.Tensor]:
        mark("backward")
        loss = sum((weight * 1e-3).sum() for weight in weights)
        assert isinstance(loss, torch.Tensor)
        loss.backward()
        copies = [weight.grad.double() for weight in weights if weight.grad is not None]
        for weight in weights:
            weight.grad = None
        return {"loss": loss.detach(), "copies": torch.stack([copy.sum() for copy in copies])}

    bound = Bound(lambda inputs: forgetful(inputs, lambda _name: None), phased=forgetful, holdings=lambda: {"parameters": weights})
    causes, _ = causes_of(Step(bound, step.inputs, {}, Pass.STEP))
    assert causes["gradients"] == LAYERS * WIDTH * WIDTH * FLOAT


def test_the_timeline_goes_through_the_step_in_order_and_names_phases() -> None:
    _, facts = causes_of(training_step())
    moments = facts["timeline"]
    assert [moment["at_s"] for moment in moments] == sorted(moment["at_s"] for moment in moments)
    phases = list(dict.fromkeys(moment["phase"] for moment in moments if moment["phase"]))
    assert phases == ["forward", "loss", "backward", "optimizer"]
    assert max(sum(moment["bytes"].values()) for moment in moments) == facts["peak_bytes"]


def test_temporaries_are_told_with_the_operator_that_made_them() -> None:
    step = training_step()

    def greedy(inputs: Mapping[str, torch.Tensor], mark: Callable[[str], None]) -> Mapping[str, torch.Tensor]:
        mark("forward")
        made = torch.ones(8 * ROWS, WIDTH).exp()
        return {"loss": made.sum()}

    bound = Bound(lambda inputs: greedy(inputs, lambda _name: None), phased=greedy, holdings=dict)
    causes, facts = causes_of(Step(bound, step.inputs, {}, Pass.STEP))
    assert causes["temporaries"] >= 8 * ROWS * WIDTH * FLOAT
    assert any("aten::exp" in temporary["where"] for temporary in facts["temporaries"])
    assert any("test_attribution_trace.py" in temporary["where"] for temporary in facts["temporaries"])


def test_what_tells_no_holdings_is_not_explained() -> None:
    assert explain_peak(Step(Bound(lambda inputs: inputs), {}, {}, Pass.FORWARD)) == ((), {})
