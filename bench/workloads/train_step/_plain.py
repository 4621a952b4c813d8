"""The step in plain PyTorch, which a subject's learning is compared with: transformers' own eager model, written-out losses and updates.

It shares with the subject what is not in question: the numbers at the beginning, the data, the dtypes, and which weights learn. Attention
is transformers' eager one under a mask that is written out here; loss, clipping and scaling are written out too, and the update is the
optimizer's own algorithm (`optimizer/_algorithms.py`). Nothing is compiled, checkpointed or quantized.

On a GPU launching the kernels of so small a model takes longer than running them. So gradients, copies of the weights and states lie one
behind the other in one tensor each: what is done number by number is one kernel then instead of one a weight, with the same results. An
algorithm that knows shapes gets each weight's part in its shape.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bench.declare import Implementation, torch_dtype
from bench.workloads.attention._masks import visible
from bench.workloads.optimizer._algorithms import REFERENCES
from bench.workloads.optimizer._recipe import OptimizerSpec
from bench.workloads.precision import Numerics
from bench.workloads.train_step._architectures import windows
from bench.workloads.train_step._data import IGNORED
from bench.workloads.train_step._model import ADAPTERS_AFTER, make_model
from bench.workloads.train_step._spec import TrainStepSpec

if TYPE_CHECKING:
    import torch

NUMBER_BY_NUMBER = frozenset({"adamw", "lion", "sgd"})
"""Algorithms to which all weights together are one long tensor."""


class PlainStep:
    """A call is a step, which changes the weights and returns the loss. `shaken`: seed by which each weight starts an ulp off, or None."""

    def __init__(
        self,
        spec: TrainStepSpec,
        numerics: Numerics,
        adaptation: Implementation,
        algorithm: str,
        seed: int,
        device: torch.device,
        *,
        shaken: int | None = None,
    ) -> None:
        import torch

        self._spec, self._numerics = spec, numerics
        self._model = make_model(spec, seed, device, numerics.weights, "eager")
        if shaken is not None:
            _shake(self._model, _eps(numerics.compute), shaken)
        torch.manual_seed(seed + ADAPTERS_AFTER)
        self._model = adaptation.builder(spec)(self._model)
        named = [(name, weight) for name, weight in self._model.named_parameters() if weight.requires_grad]
        self._names, self._learned = [name for name, _ in named], [weight for _, weight in named]
        self._shapes = [weight.shape for weight in self._learned]
        self._sizes = [weight.numel() for weight in self._learned]
        # What is updated: the master copy, or the weights as they are. Adapters are fp32 beside frozen weights of any dtype.
        kept = [weight.detach() for weight in self._learned]
        self._kept = _joined([weight.to(torch_dtype(numerics.master)) for weight in kept] if numerics.master else kept)
        self._algorithm = REFERENCES[algorithm]
        self._apart = algorithm not in NUMBER_BY_NUMBER
        self._hyper = OptimizerSpec(dtype=numerics.updated, lr=spec.lr)
        self._states: list[dict[str, torch.Tensor]] = [{} for _ in self._learned]
        self._masks = _masks(spec, device)
        self._scale = numerics.scale
        self._steps = 0

    def __call__(self, inputs: Mapping[str, torch.Tensor]) -> float:
        import torch

        with torch.enable_grad():
            losses = self._differentiate(inputs)
        gradients = _joined([weight.grad for weight in self._learned]).to(self._kept.dtype)
        for weight in self._learned:
            weight.grad = None
        if self._scale != 1.0:
            gradients = gradients / self._scale
        squares = gradients.double().square().split(self._sizes)
        # All that the host needs to know of a step, read at once: each reading waits for the device.
        told = torch.stack([*(square.sum() for square in squares), *(loss.double() for loss in losses)]).tolist()
        norm = math.sqrt(_added(told[: len(squares)]))
        loss = _added([one / self._spec.accumulation for one in told[len(squares) :]])
        if self._numerics.scaling == "dynamic" and not norm < float("inf"):
            self._scale /= 2.0
            return loss
        if self._spec.clip_norm:
            gradients = gradients * min(1.0, self._spec.clip_norm / (norm + 1e-6))
        self._steps += 1
        with torch.no_grad():
            self._kept = self._updated(gradients)
            torch._foreach_copy_(self._learned, self._parts(self._kept))
        return loss

    def gradients(self, inputs: Mapping[str, torch.Tensor], scale: float) -> dict[str, torch.Tensor]:
        """Of the weights as they are, by name, in fp64: made under that scale, which is taken off, and not clipped. Nothing is updated."""
        import torch

        self._scale = scale
        with torch.enable_grad():
            self._differentiate(inputs)
        found = {
            name: weight.grad.double() / scale
            for name, weight in zip(self._names, self._learned, strict=True)
            if weight.grad is not None
        }
        for weight in self._learned:
            weight.grad = None
        return found

    def _differentiate(self, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        """Leaves the scaled gradients in the weights; returns the loss of each micro-batch."""
        import torch

        spec, losses = self._spec, []
        compute = torch_dtype(self._numerics.compute)
        for index in range(spec.accumulation):
            rows = slice(index * spec.batch, (index + 1) * spec.batch)
            ids, labels = inputs["input_ids"][rows], inputs["labels"][rows]
            with torch.autocast(ids.device.type, compute) if self._numerics.autocast else contextlib.nullcontext():
                logits = self._model(
                    input_ids=ids, position_ids=inputs["position_ids"], attention_mask=self._masks, use_cache=False
                ).logits
            loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
            (loss / spec.accumulation * spec.loss_weight * self._scale).backward()
            losses.append(loss.detach())
        return losses

    def _updated(self, gradients: torch.Tensor) -> torch.Tensor:
        """All weights after one update, joined as the gradients are."""
        if not self._apart:
            return self._algorithm(self._hyper, self._steps, self._kept, gradients, self._states[0])
        parts = zip(self._parts(self._kept), self._parts(gradients), self._states, strict=True)
        return _joined([self._algorithm(self._hyper, self._steps, *part) for part in parts])

    def _parts(self, joined: torch.Tensor) -> list[torch.Tensor]:
        """Views of it in the shapes of the weights."""
        return [part.view(shape) for part, shape in zip(joined.split(self._sizes), self._shapes, strict=True)]


def _joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """A new tensor of one dimension with all their numbers."""
    import torch

    return torch.cat([tensor.flatten() for tensor in tensors])


def _added(numbers: Sequence[float]) -> float:
    """Rounded after each addition, as a device adds; `sum` carries the rest along from Python 3.12 on."""
    total = 0.0
    for number in numbers:
        total += number
    return total


def _masks(spec: TrainStepSpec, device: torch.device) -> Any:
    """What is added to the scores: (1, 1, seq_len, seq_len), or one by kind of layer where a family has two kinds."""
    import torch

    def mask(window: int | None) -> torch.Tensor:
        seen = visible(spec.attention(window, 1.0, "fp32"), device)
        return torch.zeros(seen.shape, device=device).masked_fill_(~seen, torch.finfo(torch.float32).min)[None, None]

    of_layers = set(windows(spec.shape))
    if len(of_layers) == 1:
        return mask(of_layers.pop())
    return {"full_attention": mask(None), "sliding_attention": mask(spec.shape.sliding_window)}


def _eps(dtype: str) -> float:
    """Spacing at 1 of the numbers that a compute dtype multiplies; tf32 is stored as fp32 and has 10 bits."""
    import torch

    return 2.0**-10 if dtype == "tf32" else float(torch.finfo(torch_dtype(dtype)).eps)


def _shake(model: Any, eps: float, seed: int) -> None:
    """Moves each weight by up to the spacing of the dtype that is computed in."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            factor = 1.0 + eps * (2.0 * torch.rand(weight.shape, generator=generator) - 1.0)
            weight.copy_(weight.float() * factor.to(weight.device))
