"""Linear layer and cross-entropy in chunks of tokens, in plain PyTorch: no more logits at once than there are hidden states.

Gradients are made in the forward, chunk by chunk, while the chunk's softmax is at hand, and the backward only scales them. The other
way, to keep nothing and compute each chunk's logits again in the backward (checkpointing), takes four matrix products instead of
three and saves nothing where the loss is the last of all: the gradients are needed an instant later, and in full. Its price is that
they are rounded to their dtype before the outer gradient is known, so fp16 with a large loss scale should scale the hidden states.

The fp32 numbers of a chunk are changed in place from logits to their gradient. The weight's gradient is summed over chunks in the
weight's dtype, each product added within the matrix kernel, which sums in fp32 and rounds once a chunk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.cross_entropy._labels import IGNORED
from bench.workloads.linear_cross_entropy import LinearCrossEntropySpec

if TYPE_CHECKING:
    import torch

FEWEST_ROWS = 128
"""Below it a matrix product is limited by reading the weight."""


def rows_at_once(tokens: int, hidden_size: int, vocab_size: int) -> int:
    """Tokens of a chunk: a multiple of `FEWEST_ROWS`, so many that the chunk's logits are about as many as all hidden states."""
    return max(1, tokens * hidden_size // vocab_size // FEWEST_ROWS) * FEWEST_ROWS


@implementation(
    dtypes=["fp32", "tf32", "bf16", "fp16", "fp64"],
    passes=["forward", "forward_backward"],
    proof={
        "ops": ["^LinearCrossEntropyInChunks$"],
        "not": ["^aten::_?log_softmax$", "^aten::nll_loss", "liger_cross_entropy_kernel"],
    },
)
def chunked(spec: LinearCrossEntropySpec) -> Any:
    """A loop over chunks of tokens that holds a chunk's logits only and makes the gradients with the loss, in plain PyTorch."""
    import torch

    class LinearCrossEntropyInChunks(torch.autograd.Function):
        @staticmethod
        def forward(
            ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, of_hidden: bool, of_weight: bool
        ) -> torch.Tensor:
            counted = labels != IGNORED
            columns = labels.clamp(min=0)[:, None]
            accumulator = torch.promote_types(hidden.dtype, torch.float32)
            shares = counted.to(accumulator) / counted.sum()
            loss = torch.zeros((), dtype=accumulator, device=hidden.device)
            grad_hidden = torch.empty_like(hidden) if of_hidden else None
            grad_weight = torch.zeros_like(weight) if of_weight else None
            rows = rows_at_once(len(hidden), hidden.shape[1], len(weight))
            for start in range(0, len(hidden), rows):
                chunk = slice(start, start + rows)
                logits = hidden[chunk] @ weight.t()
                scores = logits.to(accumulator)
                scores -= scores.amax(-1, keepdim=True)
                of_label = scores.gather(-1, columns[chunk])
                sums = scores.exp_().sum(-1, keepdim=True)
                loss += ((sums.log() - of_label)[:, 0] * shares[chunk]).sum()
                if grad_hidden is None and grad_weight is None:
                    continue
                scores *= shares[chunk, None] / sums
                scores.scatter_add_(-1, columns[chunk], -shares[chunk, None])
                logits.copy_(scores)
                if grad_hidden is not None:
                    torch.mm(logits, weight, out=grad_hidden[chunk])
                if grad_weight is not None:
                    grad_weight.addmm_(logits.t(), hidden[chunk])
            ctx.save_for_backward(grad_hidden, grad_weight)
            return loss

        @staticmethod
        def backward(ctx: Any, *outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
            grad_hidden, grad_weight = (grad if grad is None else grad.mul_(outer[0]) for grad in ctx.saved_tensors)
            return grad_hidden, grad_weight, None, None, None

    def loss(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        asked = (torch.is_grad_enabled() and tensor.requires_grad for tensor in (hidden, weight))
        in_chunks: torch.Tensor = LinearCrossEntropyInChunks.apply(hidden, weight, labels, *asked)
        return in_chunks

    return loss
