"""Who runs a step's parts: the forward of a micro-batch, the differentiation of its loss, the update. Here: this process alone.

Where several processes share a step, or an engine owns it, a builder of the slot `sharding` brings a driver of its own. Everything else of
a step asks its driver and not the model: where the weights, gradients and states lie is the driver's to know.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.declare import torch_dtype
from bench.records import Scalar
from bench.workloads.precision import Numerics
from bench.workloads.train_step._spec import TrainStepSpec
from bench.workloads.train_step._update import Update

if TYPE_CHECKING:
    import torch

Loss = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]


@dataclass(frozen=True, slots=True)
class Parts:
    """What a driver is made of: the filled model, its loss of hidden states and labels, and the optimizer's recipe."""

    spec: TrainStepSpec
    numerics: Numerics
    model: Any
    loss: Loss
    recipe: Callable[[list[Any]], torch.optim.Optimizer]
    offloading: Any
    """What the builder of the slot offloading returned."""
    device: torch.device

    @property
    def learned(self) -> list[torch.nn.Parameter]:
        return [weight for weight in self.model.parameters() if weight.requires_grad]


class Driver:
    """Drives a step in one process. What others override is listed first."""

    rank = 0
    ranks = 1
    whole = True
    """Whether each rank's model and update hold whole weights, gradients and states, as tensors of the usual kind."""
    whole_weights = True
    """Whether the weights alone are whole: what is gathered for a while would be taken for something that autograd keeps."""
    shares_gradients = False
    """Whether `gradients` are this rank's parts, of which all ranks' together are the whole."""
    judged = True
    """Whether the step must learn what plain PyTorch learns; where not, its distance is told and nothing else."""

    def __init__(self, parts: Parts, update: Update | None = None) -> None:
        self.parts = parts
        self.update: Any = update or Update(parts.numerics, parts.learned, parts.recipe, parts.spec.clip_norm)

    def forward(self, micro_batch: Mapping[str, torch.Tensor], begin: Callable[[str], None]) -> torch.Tensor:
        """Mean over the labels of a micro-batch, differentiable; `begin` is told `loss` when that begins."""
        return loss_of(self.parts, self.parts.model.model, self.parts.loss, micro_batch, begin)

    def micro_batch(self, *, last: bool) -> AbstractContextManager[None]:
        """Around forward and backward of each micro-batch; `last` is the one after which the update comes."""
        return contextlib.nullcontext()

    def backward(self, loss: torch.Tensor) -> None:
        self.update.scaled(loss).backward()

    def gradients(self) -> list[tuple[torch.nn.Parameter, torch.Tensor]] | None:
        """Each weight with its gradient between backward and update, still scaled; None where no weight has its own then."""
        return [(weight, weight.grad) for weight in self.update.learned if weight.grad is not None]

    def told_norm(self) -> float | None:
        """L2 of all ranks' gradients of the last update, unscaled and not yet clipped, where who made it tells it itself."""
        return None

    def drop_gradients(self) -> None:
        """Ends what differentiated without an update; with an update where that must be."""
        self.update.clear_gradients()

    @contextlib.contextmanager
    def noting_learners(self, names: set[str]) -> Iterator[None]:
        """Adds, at the end of the block, the names of the weights that got a gradient within it."""
        yield
        names.update(name for name, weight in self.parts.model.named_parameters() if weight.grad is not None)

    def mean(self, loss: torch.Tensor | float) -> float:
        """Of a number over all ranks."""
        return float(loss)

    def product_dtype(self) -> torch.dtype | None:
        """In which the last layer computed, where its weight at rest does not say it."""
        return None

    def holdings(self) -> dict[str, Sequence[torch.Tensor]] | None:
        """What this process holds by cause (`parameters`, `gradients`, `optimizer_states`); None: what model and update themselves do."""
        return None

    def findings(self) -> dict[str, float]:
        """Numbers beside those that every step has."""
        return {}

    def facts(self) -> dict[str, Scalar]:
        """What was found as it is, such as the settings that an engine came to."""
        return {}

    def close(self) -> None:
        """Removes what would outlive the process."""

    def release(self) -> None:
        """Lets go of what a library would keep for as long as the process lives; nothing can be asked of the driver afterwards."""

    def missing(self) -> str | None:
        """What the promise of the slot sharding lacks, in words; None where it is kept or there is none."""
        return None


def loss_of(
    parts: Parts, decoder: Any, loss: Loss, micro_batch: Mapping[str, torch.Tensor], begin: Callable[[str], None]
) -> torch.Tensor:
    """The forward of a decoder under the precision's autocast, and the loss of what comes out of it."""
    import torch

    device = micro_batch["input_ids"].device.type
    cast = torch.autocast(device, torch_dtype(parts.numerics.compute)) if parts.numerics.autocast else contextlib.nullcontext()
    with cast:
        hidden = decoder(
            input_ids=micro_batch["input_ids"], position_ids=micro_batch["position_ids"], use_cache=False
        ).last_hidden_state
    begin("loss")
    return loss(hidden, micro_batch["labels"])
