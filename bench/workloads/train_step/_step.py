"""One training step: gradients cleared, forward and backward of each micro-batch, update.

The loss of a step is the mean over all its labels. Each micro-batch gives the mean over its own, so it weighs as many labels as it has;
all have the same number here, and accumulation gives what one large batch would.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from bench.declare import Implementation
from bench.workloads.precision import Numerics
from bench.workloads.train_step._driver import Driver
from bench.workloads.train_step._spec import TrainStepSpec
from bench.workloads.train_step._stability import FirstUpdate
from bench.workloads.train_step._unanalysed import hearing

if TYPE_CHECKING:
    import torch


def unheard(phase: str) -> None:
    """Who is not interested in phases."""


class TrainingStep:
    """A filled decoder with its loss and its optimizer; a call is a step, which changes the weights and returns `{"loss": ...}`."""

    def __init__(
        self,
        spec: TrainStepSpec,
        numerics: Numerics,
        implementations: Mapping[str, Implementation],
        driver: Driver,
        *,
        changes: Mapping[str, Any],
        algorithm: str,
        tolerance: float | None,
        seed: int,
        modeling: ModuleType,
        rotation: Callable[..., Any] | None,
    ) -> None:
        self.spec = spec
        self.numerics = numerics
        self.implementations = implementations
        self.model = driver.parts.model
        self.driver = driver
        """Runs the forward, the backward and the update."""
        self.update = driver.update
        self.changes = changes
        """What the builders of the slots that change the model returned."""
        self.algorithm = algorithm
        """Of the optimizer, by the name of its reference."""
        self.tolerance = tolerance
        """The widest that an implementation or the optimizer declares; None where all must compute what plain PyTorch computes."""
        self.seed = seed
        self._modeling = modeling
        self._rotation = rotation
        self.first_update = FirstUpdate()
        self.unanalysed: dict[str, str] = {}
        """Kernels that torch could not analyse while it compiled the first calls, with the cause."""
        self.inputs: Mapping[str, torch.Tensor] = {}
        """Those of the last call."""
        self.calls = 0

    def __call__(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return self.phased(inputs, unheard)

    def prepare(self, calls: int) -> None:
        """Lets go of the gradients of the step before, so that a step's peak holds its own."""
        self.update.clear_gradients()

    def phased(self, inputs: Mapping[str, torch.Tensor], begin: Callable[[str], None]) -> dict[str, torch.Tensor]:
        """The same; `begin` is told `forward`, `loss`, `backward` (each once a micro-batch) and `optimizer` when they begin."""
        self.calls += 1
        with self.running(), hearing(self.unanalysed) if self.first_update.looks else contextlib.nullcontext():
            losses = self.differentiate(inputs, begin)
            begin("optimizer")
            if self.first_update.looks:
                self.first_update.update(self, losses)
            else:
                self.update.step()
        return {"loss": losses}

    def differentiate(self, inputs: Mapping[str, torch.Tensor], begin: Callable[[str], None]) -> torch.Tensor:
        """Leaves the (scaled) gradients in the weights, and returns the step's loss. Only within `running`."""
        self.inputs = inputs
        self.update.clear_gradients()
        losses = []
        for index, micro_batch in enumerate(self.micro_batches(inputs), start=1):
            with self.driver.micro_batch(last=index == self.spec.accumulation):
                begin("forward")
                loss = self.micro_loss(micro_batch, begin) / self.spec.accumulation
                begin("backward")
                self.driver.backward(loss * self.spec.loss_weight)
            losses.append(loss.detach())
        return sum(losses[1:], losses[0])

    def micro_loss(self, micro_batch: Mapping[str, torch.Tensor], begin: Callable[[str], None]) -> torch.Tensor:
        """Mean over the labels of one micro-batch; differentiable. Only within `running`."""
        return self.driver.forward(micro_batch, begin)

    def micro_batches(self, inputs: Mapping[str, torch.Tensor]) -> Iterator[dict[str, torch.Tensor]]:
        """Views of the step's inputs; positions are the same for all."""
        for index in range(self.spec.accumulation):
            rows = slice(index * self.spec.batch, (index + 1) * self.spec.batch)
            yield {
                "input_ids": inputs["input_ids"][rows],
                "labels": inputs["labels"][rows],
                "position_ids": inputs["position_ids"],
            }

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """With gradients, and with the slot's rotation in the place of the modeling module's.

        Other models of the same family may live in this process, so it is put back. The backward is within too: checkpointed layers run
        their forward again there.
        """
        import torch

        own = self._modeling.apply_rotary_pos_emb
        if self._rotation is not None:
            self._modeling.apply_rotary_pos_emb = self._rotation  # type: ignore[attr-defined]
        try:
            with torch.enable_grad():
                yield
        finally:
            self._modeling.apply_rotary_pos_emb = own  # type: ignore[attr-defined]
