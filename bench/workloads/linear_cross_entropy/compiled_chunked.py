"""torch.compile with inductor's automatic chunker: the compiler itself cuts the layer and its loss into eight chunks of tokens.

It does so on the joint graph of forward and backward, and gradients are made in the forward. By default it looks for layers that are
much larger than what they come from, and passes over a vocabulary of 128k on 4096 hidden dimensions and 32k tokens; here it takes any.
Where it cannot cut it compiles the plain computation without a word, so after the first compilation its counter is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.declare import Unavailable, Unsupported, implementation
from bench.workloads.linear_cross_entropy import LinearCrossEntropySpec
from bench.workloads.linear_cross_entropy.compiled import compiled
from bench.workloads.linear_cross_entropy.eager import eager

if TYPE_CHECKING:
    import torch

OPTIONS: dict[str, Any] = {
    "auto_chunker.enable": True,
    "auto_chunker.output_size_threshold": 0,
    "auto_chunker.amplify_ratio_threshold": 0,
}


@implementation(
    dtypes=compiled.dtypes,
    passes=["forward_backward"],
    proof={
        device: {"kernels": patterns.kernels, "ops": patterns.ops, "not": patterns.not_}
        for device, patterns in compiled.proof.items()
    },
    refuses=compiled.refuses,
)
def compiled_chunked(spec: LinearCrossEntropySpec) -> Any:
    import torch
    from torch._dynamo.utils import counters
    from torch._inductor import list_options, metrics

    if missing := sorted(set(OPTIONS) - set(list_options())):
        raise Unavailable(f"this torch's inductor has no {', '.join(missing)}; newer ones have")
    inner = torch.compile(eager.builder(spec), dynamic=False, fullgraph=True, options=OPTIONS)
    cut = False

    def loss(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        nonlocal cut
        found: torch.Tensor = inner(hidden, weight, labels)
        if not cut:
            # What comes from the case's own cache was asked when it was compiled.
            cut = metrics.num_auto_chunking > 0 or counters["aot_autograd"]["autograd_cache_hit"] > 0
            if not cut:
                raise Unsupported("inductor's automatic chunker did not cut this computation")
        return found

    return loss
