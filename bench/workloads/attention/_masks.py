"""Which keys a query of attention sees: the masks counted, as a matrix, and how a sequence is cut into documents.

Query i stands at position p = i + kv_len - seq_len, so both sequences end together. It sees key j where

    full             always
    causal           j <= p
    sliding_window   p - window < j <= p        itself and the window - 1 keys before it (FlashAttention's window_size = (window - 1, 0))
    document         j <= p, and key j lies in the document of position p

Documents are what packing makes of short texts: a sequence holds several, one after the other, and none sees another. Real ones have
unequal lengths, and equal ones would flatter kernels that give the same work to each block. So lengths follow a rule that anybody can
recompute: each document has one token, and the tokens that are left are shared in the proportion 1 : n : 2 : n-1 : 3 : ... (n the
number of documents), cut at whole tokens from the left. 8 documents in 4096 tokens have 114, 910, 228, 796, 341, 683, 455, 569.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from bench.declare import AttentionSpec

if TYPE_CHECKING:
    import torch


def cut(length: int, documents: int) -> tuple[int, ...]:
    """Lengths of `documents` documents in `length` tokens, by the rule above. Raises ValueError where there are too few tokens."""
    if documents > length:
        raise ValueError(f"{documents} documents do not fit into {length} tokens")
    shares = [documents - index // 2 if index % 2 else index // 2 + 1 for index in range(documents)]
    whole, left = sum(shares), length - documents
    ends, share = [0], 0
    for index, own in enumerate(shares, start=1):
        share += own
        ends.append(index + left * share // whole)
    return tuple(end - start for start, end in itertools.pairwise(ends))


def visible_pairs(spec: AttentionSpec) -> int:
    """How many (query, key) pairs of one head the mask leaves."""
    if spec.mask == "full":
        return spec.seq_len * spec.kv_len
    first = max(0, spec.kv_len - spec.seq_len)  # the first position with a query; queries before position 0 see no key at all
    reach = spec.window or spec.kv_len
    pairs = start = 0
    for length in spec.document_lengths or (spec.kv_len,):
        without_query = min(max(0, first - start), length)
        pairs += _pairs(length, reach) - _pairs(without_query, reach)
        start += length
    return pairs


def _pairs(positions: int, reach: int) -> int:
    """Keys seen by all of `positions` queries together, the first of which sees one and each next one more, up to `reach`."""
    growing = min(positions, reach)
    return growing * (growing + 1) // 2 + (positions - growing) * reach


def visible(spec: AttentionSpec, device: torch.device | str) -> torch.Tensor:
    """Boolean (seq_len, kv_len), True where query i sees key j."""
    import torch

    if spec.mask == "full":
        return torch.ones(spec.seq_len, spec.kv_len, dtype=torch.bool, device=device)
    keys = torch.arange(spec.kv_len, device=device)
    positions = torch.arange(spec.seq_len, device=device)[:, None] + (spec.kv_len - spec.seq_len)
    seen = keys <= positions
    if spec.window is not None:
        seen &= keys > positions - spec.window
    if spec.document_lengths is not None:
        document = document_of_each_key(spec, device)
        seen &= document == document[positions.clamp(min=0)]
    return seen


def additive(spec: AttentionSpec, device: torch.device, dtype: torch.dtype, hidden: float) -> torch.Tensor:
    """(seq_len, kv_len) in `dtype`: 0 where query i sees key j, `hidden` elsewhere."""
    import torch

    seen = visible(spec, device)
    return torch.zeros(seen.shape, dtype=dtype, device=device).masked_fill_(seen.logical_not_(), hidden)


def document_of_each_key(spec: AttentionSpec, device: torch.device | str) -> torch.Tensor:
    """int32 (kv_len,), the number of the document in which each key lies."""
    import torch

    lengths = torch.tensor(spec.document_lengths, device=device)
    return torch.arange(len(lengths), dtype=torch.int32, device=device).repeat_interleave(lengths)
