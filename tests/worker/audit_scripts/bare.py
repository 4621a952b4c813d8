"""A loop and a decoder of its own, with torch alone. Writes one line a step, and where it was told to, a file in its `finally`."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

WIDTH, VOCABULARY, LENGTH = 32, 64, 16


class CausalSelfAttention(nn.Module):
    """Its config may say what it likes: `eager` is what it computes without `sdpa`."""

    def __init__(self, sdpa: bool) -> None:
        super().__init__()
        self.sdpa = sdpa
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH)
        self.c_proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(*states.shape[:2], 2, WIDTH // 2).transpose(1, 2) for part in self.c_attn(states).split(WIDTH, -1))
        if self.sdpa:
            out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            out = (q @ k.transpose(-1, -2) / 4).softmax(-1) @ v
        return self.c_proj(out.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """One layer."""

    def __init__(self, sdpa: bool) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(WIDTH)
        self.attn = CausalSelfAttention(sdpa)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        states = states + self.attn(self.ln(states))
        return states + self.mlp(states)


class Decoder(nn.Module):
    """Four layers, the second half of which may be checkpointed."""

    def __init__(self, sdpa: bool, checkpointed: int) -> None:
        super().__init__()
        self.checkpointed = checkpointed
        self.wte = nn.Embedding(VOCABULARY, WIDTH)
        self.h = nn.ModuleList(Block(sdpa) for _ in range(4))
        self.lm_head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        states = self.wte(ids)
        for number, block in enumerate(self.h):
            kept = number >= self.checkpointed
            states = block(states) if kept else torch.utils.checkpoint.checkpoint(block, states, use_reentrant=False)
        return self.lm_head(states)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--checkpointed", type=int, default=0)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--scaler", action="store_true")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--raise-at", type=int, default=0)
    parser.add_argument("--status", type=int, default=0)
    parser.add_argument("--wait-at", type=int, default=0)
    parser.add_argument("--profiles", action="store_true")
    parser.add_argument("--saves", type=Path)
    parser.add_argument("--api-key")
    given = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Decoder(not given.eager, given.checkpointed)
    called = torch.compile(model, backend="aot_eager") if given.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=given.scaler)
    ids = torch.arange(given.steps * 2 * LENGTH).view(-1, LENGTH) % VOCABULARY
    loader = DataLoader(TensorDataset(ids, ids.roll(-1, 1)), batch_size=2, num_workers=given.workers)
    own_profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) if given.profiles else None
    if own_profile is not None:
        own_profile.start()
    pool = ThreadPoolExecutor(1)
    pool.submit(int).result()
    daemon = threading.Thread(target=time.sleep, args=(600,), daemon=True)
    daemon.start()
    try:
        for number, (inputs, labels) in enumerate(loader, 1):
            loss = functional.cross_entropy(called(inputs).flatten(0, 1).float(), labels.flatten())
            if given.scaler and number in (2, 9):
                loss = loss * float("inf")
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            print(f"step {number}: {loss.item():.5f}")
            if number == given.raise_at:
                raise ValueError(f"the data is spoilt: {given.api_key}\nand more")
            if number == given.wait_at:
                print("waiting", flush=True)
                time.sleep(600)
    finally:
        if given.saves is not None:
            torch.save(model.state_dict(), given.saves)
    if own_profile is not None:
        own_profile.stop()
    print("trained", os.environ.get("WHO", "nobody"))
    sys.exit(given.status)


if __name__ == "__main__":
    main()
