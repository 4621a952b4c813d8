"""A loop with accelerate, whose processes a launcher starts. python accelerated.py [WORD]: how ranks share the model.

Without a word they share gradients; `fully_shard`: torch's own words; `fsdp`: accelerate's plug-in; `deepspeed`: as the launcher was told.
"""

from __future__ import annotations

import os
import sys

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM

word = sys.argv[1] if len(sys.argv) > 1 else ""
torch.manual_seed(0)
if word == "deepspeed":
    os.environ["DS_ACCELERATOR"] = "cpu"
    import deepspeed

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    accelerator = Accelerator()
else:
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
if word == "fsdp":
    from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

    # What the launcher's --use_fsdp comes to on a GPU; on a processor accelerate leaves it out.
    accelerator.state.distributed_type = DistributedType.FSDP
    accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2,
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=["LlamaDecoderLayer"],
        cpu_ram_efficient_loading=False,
    )
model = LlamaForCausalLM(
    LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=4, vocab_size=512)
)
if word == "fully_shard":
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (accelerator.num_processes,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(torch.arange(4 * 64 * 16).view(-1, 16) % 500, batch_size=2)
if word == "fully_shard":
    optimizer, loader = accelerator.prepare(optimizer, loader)
else:
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for number, ids in enumerate(loader):
    with accelerator.accumulate(model):
        loss = model(input_ids=ids, labels=ids).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    if accelerator.is_main_process and number % 10 == 0:
        print(f"batch {number}", flush=True)
print("trained")
