"""A decoder of a billion random weights on a GPU, trained in the ways that people ask about.

python billion.py WAY, one of `WAYS`. `--block N` prints what each N steps took, with one wait for the GPU; `--after FILE` trains once that
file is there. Under torchrun `--share` says what ranks share: gradients (`ddp`) or all (`fsdp`).
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import torch
from transformers import BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM

WAYS = ("sdpa", "flash", "liger", "adam8bit", "qlora", "all", "lies")
"""`all` is FlashAttention-2, Liger, 8-bit AdamW and checkpoints; `lies` asks for FlashAttention-2, in whose place SDPA was put."""
parser = argparse.ArgumentParser()
parser.add_argument("way", choices=WAYS)
parser.add_argument("--batch", type=int, default=2)
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--block", type=int, default=0)
parser.add_argument("--after", type=Path)
parser.add_argument("--share", choices=["ddp", "fsdp"])
given = parser.parse_args()
if given.share:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")
way = given.way
torch.manual_seed(0)
config = LlamaConfig(
    hidden_size=2048,
    intermediate_size=8192,
    num_hidden_layers=16,
    num_attention_heads=32,
    num_key_value_heads=8,
    vocab_size=128256,
    tie_word_embeddings=True,
    attn_implementation="flash_attention_2" if way in ("flash", "all", "lies") else "sdpa",
)
if way in ("liger", "all"):
    from liger_kernel.transformers import apply_liger_kernel_to_llama

    apply_liger_kernel_to_llama()
if way == "lies":
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS["flash_attention_2"] = sdpa_attention_forward
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
if given.share == "ddp":
    model = torch.nn.parallel.DistributedDataParallel(model)
elif given.share == "fsdp":
    from torch.distributed.fsdp import fully_shard

    for layer in model.model.layers:
        fully_shard(layer)
    fully_shard(model)
learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
if way in ("adam8bit", "all"):
    import bitsandbytes

    model.gradient_checkpointing_enable()
    optimizer: torch.optim.Optimizer = bitsandbytes.optim.AdamW8bit(learned, lr=1e-5)
else:
    optimizer = torch.optim.AdamW(learned, lr=1e-5)
while given.after is not None and not given.after.exists():
    time.sleep(0.02)
began = time.perf_counter()
for step in range(1, given.steps + 1):
    ids = torch.randint(0, 128256, (given.batch, 2048), device="cuda")
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if given.block and step % given.block == 0:
        torch.cuda.synchronize()
        now = time.perf_counter()
        print(f"steps to {step}: {(now - began) / given.block:.6f} s each", flush=True)
        began = now
    elif not given.block and step % 5 == 1:
        print(f"step {step} loss {loss.item():.3f}", flush=True)
