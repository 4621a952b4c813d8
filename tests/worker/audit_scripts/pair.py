"""A generator and a critic: two optimizers, one of a class of its own and one whose update is compiled, a scaler, data to validate with."""

from __future__ import annotations

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WIDTH = 16


class Sleepy(Dataset[torch.Tensor]):
    """Takes so long for each item."""

    def __init__(self, takes_s: float) -> None:
        self.takes_s = takes_s

    def __len__(self) -> int:
        return 60

    def __getitem__(self, number: int) -> torch.Tensor:
        time.sleep(self.takes_s)
        return torch.full((WIDTH,), number / 60)


class Adam2(torch.optim.AdamW):
    """Its step calls its parent's, which torch hooks as well once there is an instance of that."""

    def step(self, closure: object = None) -> object:  # type: ignore[override]
        return super().step(closure)  # type: ignore[arg-type]


class Generator(nn.Sequential):
    """The larger one."""


class Critic(nn.Sequential):
    """The other one."""


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    generator = Generator(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, WIDTH))
    critic = Critic(nn.Linear(WIDTH, 32), nn.ReLU(), nn.Linear(32, 1))
    makes, judges = torch.optim.AdamW(generator.parameters()), Adam2(critic.parameters())
    scaler = torch.amp.GradScaler("cpu")

    @torch.compile(backend="eager")
    def update() -> None:
        makes.step()

    for batch in DataLoader(Sleepy(0.0), batch_size=20):
        generator(batch)
    for number, batch in enumerate(DataLoader(Sleepy(0.05), batch_size=2)):
        with torch.autocast("cpu", torch.bfloat16):
            made = generator(batch)
            loss = critic(made.detach()).mean() - critic(batch).mean()
        judges.zero_grad()
        scaler.scale(loss.float()).backward()
        scaler.step(judges)
        scaler.update()
        makes.zero_grad()
        critic(made.float()).mean().backward()
        update()
        print(f"step {number}")


if __name__ == "__main__":
    main()
