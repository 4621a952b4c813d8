"""DeepSpeed's engine around a tiny decoder on the CPU, started by `deepspeed` or torchrun; its configuration says `auto` nowhere."""

from __future__ import annotations

import os
import sys

os.environ["DS_ACCELERATOR"] = "cpu"
import deepspeed
import torch
from bare import LENGTH, VOCABULARY, Decoder
from torch.nn import functional

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
deepspeed.init_distributed("gloo")
torch.manual_seed(0)
stage = int(sys.argv[-1])
model = Decoder(sdpa=True, checkpointed=0)
configuration = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "gradient_clipping": 1.0,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
    "zero_optimization": {"stage": stage, "reduce_bucket_size": 100000, "stage3_param_persistence_threshold": 0},
}
engine, *_ = deepspeed.initialize(model=model, config=configuration, model_parameters=model.parameters())
for _ in range(40):
    ids = torch.randint(0, VOCABULARY, (2, LENGTH))
    loss = functional.cross_entropy(engine(ids).flatten(0, 1).float(), ids.flatten())
    engine.backward(loss)
    engine.step()
print("trained")
