"""A plain loop over a tiny decoder. python plain_loop.py [--steps N] [--say] [--raise-at N] [--checkpoint] [--attention NAME] [--nf4] …"""

from __future__ import annotations

import argparse
import sys
import time

import torch
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--raise-at", type=int, default=0)
parser.add_argument("--interrupt-at", type=int, default=0)
parser.add_argument("--checkpoint", choices=["reentrant", "not reentrant"])
parser.add_argument("--attention", default="sdpa")
parser.add_argument("--optimizer", choices=["adamw", "adamw8bit"], default="adamw")
parser.add_argument("--lora", action="store_true")
parser.add_argument("--nf4", action="store_true")
parser.add_argument("--autocast", action="store_true")
parser.add_argument("--hidden", type=int, default=64)
parser.add_argument("--save-to", default=None)
parser.add_argument("--token", default=None)
given = parser.parse_args()

torch.manual_seed(0)
config = LlamaConfig(
    hidden_size=given.hidden,
    intermediate_size=2 * given.hidden,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=512,
    attn_implementation=given.attention,
)
model = LlamaForCausalLM(config)
if given.nf4:
    import tempfile

    from transformers import BitsAndBytesConfig

    four_bits = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.bfloat16
    )
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        model = LlamaForCausalLM.from_pretrained(folder, quantization_config=four_bits, device_map="cpu")
model.train()
if given.checkpoint:
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": given.checkpoint == "reentrant"})
    model.enable_input_require_grads()
if given.lora:
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
if given.optimizer == "adamw8bit":
    import bitsandbytes

    optimizer: torch.optim.Optimizer = bitsandbytes.optim.AdamW8bit(learned, lr=1e-3)
else:
    optimizer = torch.optim.AdamW(learned, lr=1e-3)


def example(number: int) -> dict[str, torch.Tensor]:
    length = 8 + number % 9
    ids = torch.full((16,), 0)
    ids[:length] = torch.arange(length) % 500 + 1
    mask = (torch.arange(16) < length).long()
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.where(mask == 1, ids, -100)}


loader = DataLoader([example(number) for number in range(4 * given.steps)], batch_size=4)  # type: ignore[arg-type]
step = 0
try:
    began = time.perf_counter()
    for batch in loader:
        with torch.autocast("cpu", torch.bfloat16, enabled=given.autocast):
            loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        print(f"step {step} loss {loss.item():.4f}", flush=True)
        if step == given.raise_at:
            raise ValueError("the data is spoilt\nand more")
        if step == given.interrupt_at:
            raise KeyboardInterrupt
finally:
    if given.save_to:
        torch.save(model.state_dict(), given.save_to)
print("done", time.perf_counter() - began, file=sys.stderr)
