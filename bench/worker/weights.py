"""Reads tensors by name from a folder of *.safetensors files, each when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch


def stored_tensors(folder: str) -> Callable[[str], torch.Tensor]:
    """The way from a tensor's name to the tensor, on the CPU and in its stored dtype. It raises KeyError for a name that no file has."""

    def read(name: str) -> torch.Tensor:
        from safetensors import safe_open

        for path in sorted(Path(folder).glob("*.safetensors")):
            with safe_open(path, framework="pt") as file:
                if name in file.keys():  # noqa: SIM118 - it is no mapping
                    tensor: torch.Tensor = file.get_tensor(name)
                    return tensor
        raise KeyError(f"{folder} has no tensor {name}")

    return read
