"""The same files at two altitudes: alone, and as the attention of a transformers Llama."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.catalogue import load_catalogue
from bench.declare import AttentionSpec
from bench.records import Pass, Status
from tests.worker.trials import answer, attention


def spec_of(config: Any, batch: int, seq_len: int, dropout: float) -> AttentionSpec:
    return AttentionSpec(
        batch=batch,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=config.head_dim,
        seq_len=seq_len,
        kv_len=seq_len,
        mask="causal",
        dropout=dropout,
        scale=1.0 / math.sqrt(config.head_dim),
        dtype="fp32",
    )


def logits_and_gradients(config: Any, interface: str, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
    from transformers import LlamaForCausalLM

    torch.manual_seed(4)
    config._attn_implementation = interface
    model = LlamaForCausalLM(config)
    logits = model(input_ids=tokens, use_cache=False).logits
    torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert len(gradients) == len(list(model.parameters()))
    return {"logits": logits.detach(), **gradients}


@pytest.mark.parametrize(("name", "theirs"), [("eager", "eager"), ("sdpa_flash", "sdpa")])
def test_one_file_serves_alone_and_in_a_two_layer_llama(tmp_path: Path, name: str, theirs: str) -> None:
    from transformers import AttentionInterface, LlamaConfig

    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=97,
        max_position_embeddings=64,
    )
    shape = {"heads": 4, "kv_heads": 2, "head_dim": 16, "seq_len": 24, "batch": 2}
    alone = answer(tmp_path, attention(name, params=shape, pass_=Pass.FORWARD_BACKWARD))
    assert alone.status is Status.OK, alone.reason

    impl = load_catalogue().implementation("attention", name)
    built: dict[AttentionSpec, Any] = {}

    def ours(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, dropout: float = 0.0, **_: Any) -> Any:
        spec = spec_of(module.config, query.shape[0], query.shape[2], dropout)
        if spec not in built:
            built[spec] = impl.builder(spec)
        return built[spec](query, key, value).transpose(1, 2), None

    # Its own name, since transformers takes any name with "flash" in it for a package that it must load.
    AttentionInterface.register("stepbench_subject", ours)
    tokens = torch.randint(0, 97, (2, 24), generator=torch.Generator().manual_seed(9))
    reference = logits_and_gradients(config, theirs, tokens)
    measured = logits_and_gradients(config, "stepbench_subject", tokens)
    assert len(built) == 1
    for tensor, expected in reference.items():
        torch.testing.assert_close(measured[tensor], expected, msg=lambda text, tensor=tensor: f"{tensor}: {text}")
