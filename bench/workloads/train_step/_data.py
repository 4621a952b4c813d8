"""Tokens that can be learned: texts from a seeded Markov source, laid out as a batch.

After token x comes (a x + b + s k) mod vocab_size, with k drawn evenly from four: each token has four successors, so the best that a
model can reach is a loss of ln 4 = 1.386 nats, and one that has learned nothing stands at ln(vocab_size). The source belongs to
`data_seed`; the walk through it is drawn anew for each batch. Texts of endless data have a token more than is seen, the last label.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

from bench.workloads.train_step._spec import TrainStepSpec

if TYPE_CHECKING:
    import torch

IGNORED = -100
SUCCESSORS = 4


def make_batch(spec: TrainStepSpec, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """int64 on the CPU: input_ids and labels (accumulation * batch, seq_len), position_ids (1 or batch, seq_len).

    labels[i] is the token after input_ids[i], or -100 where there is none in the same text.
    """
    import torch

    sequences = spec.accumulation * spec.batch
    walk = _walk(spec, sequences, generator)
    input_ids, labels = walk[:, :-1].clone(), walk[:, 1:].clone()
    positions = torch.arange(spec.seq_len)[None]
    if spec.documents is not None:
        lengths = torch.tensor(spec.lengths[0])
        ends = lengths.cumsum(0)
        labels[:, ends - 1] = IGNORED
        positions = positions - (ends - lengths).repeat_interleave(lengths)
    elif spec.packing == "padded":
        lengths = torch.tensor([texts[0] for texts in spec.lengths]).repeat(spec.accumulation)[:, None]
        labels[positions >= lengths - 1] = IGNORED
        input_ids[positions >= lengths] = 0
    return {"input_ids": input_ids, "labels": labels, "position_ids": positions}


def _walk(spec: TrainStepSpec, sequences: int, generator: torch.Generator) -> torch.Tensor:
    """(sequences, seq_len + 1)."""
    import torch

    vocab = spec.shape.vocab_size
    source = random.Random(spec.data_seed)
    factor = next(candidate for candidate in iter(lambda: source.randrange(2, max(3, vocab)), 0) if math.gcd(candidate, vocab) == 1)
    shift, stride = source.randrange(vocab), source.randrange(1, vocab)
    device = generator.device
    token = torch.randint(vocab, (sequences,), generator=generator, device=device).cpu()
    turns = torch.randint(SUCCESSORS, (spec.seq_len, sequences), generator=generator, device=device).cpu() * stride + shift
    tokens = [token]
    for turn in turns:
        token = (token * factor + turn) % vocab
        tokens.append(token)
    return torch.stack(tokens, dim=1)
