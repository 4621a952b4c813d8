"""A loop with accelerate, whose processes a launcher starts. python accelerated.py [WORD]: how ranks share the model.

Without a word they share gradients; `fsdp`: accelerate's plug-in; `deepspeed`: as the launcher was told.
"""

from __future__ import annotations

import os
import sys

import torch
from accelerate import Accelerator
from bare import LENGTH, VOCABULARY, Decoder
from torch.nn import functional
from torch.utils.data import DataLoader

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
        transformer_cls_names_to_wrap=["Block"],
        cpu_ram_efficient_loading=False,
    )
model = Decoder(sdpa=True, checkpointed=0)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(torch.arange(4 * 64 * LENGTH).view(-1, LENGTH) % VOCABULARY, batch_size=2)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for number, ids in enumerate(loader):
    with accelerator.accumulate(model):
        loss = functional.cross_entropy(model(ids).flatten(0, 1).float(), ids.flatten())
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    if accelerator.is_main_process and number % 10 == 0:
        print(f"batch {number}", flush=True)
print("trained")
