"""transformers' Trainer on a tiny decoder. python trained.py OUTPUT ARGUMENTS [CONFIG], both in JSON.

With `lies` among the config's fields attention is computed in another way than the config says.
"""

from __future__ import annotations

import json
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

folder, arguments = sys.argv[1], json.loads(sys.argv[2])
options = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}


class Rows(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Sequences of a few lengths, padded to one."""

    def __len__(self) -> int:
        return 400

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        ids = torch.arange(16) * (number % 7 + 1) % 500
        mask = (torch.arange(16) < 12).long()
        return {"input_ids": ids, "attention_mask": mask, "labels": torch.where(mask == 1, ids, -100)}


torch.manual_seed(0)
sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 512}
lies = options.pop("lies", False)
model = LlamaForCausalLM(LlamaConfig(**sizes, **options))
if lies:
    for layer in model.model.layers:

        def forward(  # type: ignore[no-untyped-def]
            hidden_states: torch.Tensor, *args: object, attention=layer.self_attn, **kwargs: object
        ) -> tuple[torch.Tensor, None]:
            states = attention.q_proj(hidden_states), attention.k_proj(hidden_states), attention.v_proj(hidden_states)
            weights = (states[0] @ states[1].transpose(1, 2)).softmax(-1)
            return attention.o_proj(weights @ states[2]), None

        layer.self_attn.forward = forward
training = TrainingArguments(folder, **{"max_steps": 14, "report_to": [], "use_cpu": True, "save_strategy": "no", **arguments})
Trainer(model=model, args=training, train_dataset=Rows()).train()
print("trained")
