"""A decoder of a billion random weights on a GPU, trained in the ways that people ask about. python billion.py WAY, one of `WAYS`."""

from __future__ import annotations

import sys

import torch
from transformers import BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM

WAYS = ("sdpa", "flash", "liger", "adam8bit", "qlora")
way = sys.argv[1]
if way not in WAYS:
    sys.exit(f"unknown way {way}: {', '.join(WAYS)}")
torch.manual_seed(0)
config = LlamaConfig(
    hidden_size=2048,
    intermediate_size=8192,
    num_hidden_layers=16,
    num_attention_heads=32,
    num_key_value_heads=8,
    vocab_size=128256,
    tie_word_embeddings=True,
    attn_implementation="flash_attention_2" if way == "flash" else "sdpa",
)
if way == "liger":
    from liger_kernel.transformers import apply_liger_kernel_to_llama

    apply_liger_kernel_to_llama()
with torch.device("cuda"):
    torch.set_default_dtype(torch.bfloat16)
    model = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
if way == "qlora":
    import tempfile

    from peft import LoraConfig, get_peft_model

    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        del model
        quantization = BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.bfloat16
        )
        model = LlamaForCausalLM.from_pretrained(folder, quantization_config=quantization, dtype=torch.bfloat16, device_map={"": 0})
    model = get_peft_model(model, LoraConfig(r=16, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]))
model.train()
learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
if way == "adam8bit":
    import bitsandbytes

    model.gradient_checkpointing_enable()
    optimizer: torch.optim.Optimizer = bitsandbytes.optim.AdamW8bit(learned, lr=1e-5)
else:
    optimizer = torch.optim.AdamW(learned, lr=1e-5)
for step in range(40):
    ids = torch.randint(0, 128256, (2, 2048), device="cuda")
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 5 == 0:
        print(f"step {step} loss {loss.item():.3f}", flush=True)
