"""Labels of tokens, some of them ignored: how many, which, how they are drawn, and how sure the logits are of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

IGNORED = -100
"""The label that PyTorch, transformers and Liger leave out by default."""


def ignored_among(tokens: int, share: float) -> int:
    """How many of `tokens` labels are ignored: the share, rounded, at least one of two where it is above 0, and never all."""
    return min(max(round(tokens * share), 1), tokens - 1) if share > 0.0 else 0


def draw_labels(labels: torch.Tensor, vocab_size: int, ignored_tokens: int, generator: torch.Generator) -> None:
    """Fills (tokens,) int64 labels with words of the vocabulary, each as likely, and exactly `ignored_tokens` of -100."""
    import torch

    drawn = torch.randint(vocab_size, labels.shape, generator=generator, device=generator.device)
    drawn[torch.randperm(len(drawn), generator=generator, device=generator.device)[:ignored_tokens]] = IGNORED
    labels.copy_(drawn)


def raise_logits(logits: torch.Tensor, labels: torch.Tensor, generator: torch.Generator) -> None:
    """Adds to each label's logit an amount between 0 and 2 log(vocabulary), each as likely: the label's probability is anything."""
    import torch

    with torch.no_grad():
        amounts = torch.rand(len(labels), 1, generator=generator, device=generator.device) * 2.0 * math.log(logits.shape[-1])
        logits.scatter_add_(1, labels.clamp(min=0)[:, None], amounts.to(logits))
