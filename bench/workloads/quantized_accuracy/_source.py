"""Tokens with a right answer: after tokens a and b comes what a random table says of the pair.

A walk that followed the table would soon run in circles and see few pairs, so three tokens in ten are drawn at random; the label is what
the table says all the same. There is nothing but the table to be learned, vocab_size^2 facts, so a model that has room for all of them
reaches 100 %, and one that guesses 1 / vocab_size. Where room is scarce every weight counts, and coarse weights forget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

RANDOM_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class Source:
    """A table, and the generator that walks are drawn from; both on the CPU."""

    table: torch.Tensor
    """(vocab_size, vocab_size) of the token after tokens a and b."""
    generator: torch.Generator

    def batch(self, sequences: int, seq_len: int) -> dict[str, torch.Tensor]:
        """int64: input_ids and labels (sequences, seq_len), position_ids (1, seq_len). Nobody can know the first label of a sequence."""
        import torch

        vocab = self.table.shape[0]
        tokens = list(torch.randint(vocab, (2, sequences), generator=self.generator))
        for _ in range(seq_len - 1):
            drawn = torch.randint(vocab, (sequences,), generator=self.generator)
            strays = torch.rand(sequences, generator=self.generator) < RANDOM_SHARE
            tokens.append(torch.where(strays, drawn, self.table[tokens[-2], tokens[-1]]))
        walk = torch.stack(tokens, dim=1)
        return {
            "input_ids": walk[:, 1:].contiguous(),
            "labels": self.table[walk[:, :-1], walk[:, 1:]],
            "position_ids": torch.arange(seq_len)[None],
        }


def make_source(vocab_size: int, seed: int) -> Source:
    """The table and the walks that belong to a seed."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    return Source(torch.randint(vocab_size, (vocab_size, vocab_size), generator=generator), generator)
