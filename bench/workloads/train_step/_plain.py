"""The step in plain PyTorch, which a subject's learning is compared with: transformers' own eager model, written-out losses and updates.

It shares with the subject what is not in question: the numbers at the beginning, the data, the dtypes, and which weights learn. Attention
is transformers' eager one under a mask that is written out here; loss, clipping and scaling are written out too, and the update is the
optimizer's own algorithm (`optimizer/_algorithms.py`), one tensor at a time. Nothing is compiled, checkpointed or quantized.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
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
        self._learned = [weight for weight in self._model.parameters() if weight.requires_grad]
        self._kept = [weight.detach().to(torch_dtype(numerics.updated), copy=True) for weight in self._learned]
        self._algorithm = REFERENCES[algorithm]
        self._hyper = OptimizerSpec(dtype=numerics.updated, lr=spec.lr)
        self._states: list[dict[str, torch.Tensor]] = [{} for _ in self._learned]
        self._masks = _masks(spec, device)
        self._scale = numerics.scale
        self._steps = 0

    def __call__(self, inputs: Mapping[str, torch.Tensor]) -> float:
        import torch

        with torch.enable_grad():
            loss = self._differentiate(inputs)
        gradients = [weight.grad.to(kept.dtype) / self._scale for weight, kept in zip(self._learned, self._kept, strict=True)]
        for weight in self._learned:
            weight.grad = None
        norm = float(sum(gradient.double().square().sum() for gradient in gradients) ** 0.5)
        if self._numerics.scaling == "dynamic" and not norm < float("inf"):
            self._scale /= 2.0
            return loss
        if self._spec.clip_norm:
            shorter = min(1.0, self._spec.clip_norm / (norm + 1e-6))
            gradients = [gradient * shorter for gradient in gradients]
        self._steps += 1
        with torch.no_grad():
            for index, (weight, gradient, states) in enumerate(zip(self._learned, gradients, self._states, strict=True)):
                self._kept[index] = self._algorithm(self._hyper, self._steps, self._kept[index], gradient, states)
                weight.copy_(self._kept[index])
        return loss

    def _differentiate(self, inputs: Mapping[str, torch.Tensor]) -> float:
        import torch

        spec, total = self._spec, 0.0
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
            total += float(loss.detach()) / spec.accumulation
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
