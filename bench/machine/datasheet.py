"""What vendors say their GPUs can do at most: dense matrix rates and memory bandwidth, by the name that CUDA reports.

A name that is not in the table has no limits: a share of an invented limit is worse than none. The figures are the dense ones (half of
what is advertised "with sparsity"), for the form factor that the name tells. A measurement above them is not fast, it is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DataSheet:
    """Peak rates of one GPU model."""

    model: str
    flops: Mapping[str, float]
    """Dense FLOP/s by compute dtype."""
    bandwidth: float
    """Bytes per second to and from device memory."""
    source: str


_HOPPER_SXM = {"fp64": 67e12, "fp32": 67e12, "tf32": 494.7e12, "bf16": 989.4e12, "fp16": 989.4e12, "fp8": 1978.9e12}
_AMPERE_A100 = {"fp64": 19.5e12, "fp32": 19.5e12, "tf32": 156e12, "bf16": 312e12, "fp16": 312e12}

_SHEETS: tuple[tuple[str, DataSheet], ...] = (
    (r"\bH200 NVL\b", DataSheet(
        "H200 NVL", {"fp64": 60e12, "fp32": 60e12, "tf32": 417.5e12, "bf16": 835.5e12, "fp16": 835.5e12, "fp8": 1670.5e12}, 4.8e12,
        "NVIDIA H200 Tensor Core GPU data sheet",
    )),
    (r"\bH200\b", DataSheet("H200 SXM", _HOPPER_SXM, 4.8e12, "NVIDIA H200 Tensor Core GPU data sheet")),
    (r"\bH100 PCIe\b", DataSheet(
        "H100 PCIe", {"fp64": 51e12, "fp32": 51e12, "tf32": 378e12, "bf16": 756e12, "fp16": 756e12, "fp8": 1513e12}, 2.0e12,
        "NVIDIA H100 PCIe data sheet",
    )),
    (r"\bH100 NVL\b", DataSheet(
        "H100 NVL", {"fp64": 60e12, "fp32": 60e12, "tf32": 417.5e12, "bf16": 835.5e12, "fp16": 835.5e12, "fp8": 1670.5e12}, 3.9e12,
        "NVIDIA H100 NVL data sheet",
    )),
    (r"\bH100 80GB HBM3\b|\bH100 SXM", DataSheet("H100 SXM", _HOPPER_SXM, 3.35e12, "NVIDIA H100 Tensor Core GPU data sheet")),
    (r"\bA100-SXM4-80GB\b", DataSheet("A100 SXM 80GB", _AMPERE_A100, 2.039e12, "NVIDIA A100 Tensor Core GPU data sheet")),
    (r"\bA100 80GB PCIe\b", DataSheet("A100 PCIe 80GB", _AMPERE_A100, 1.935e12, "NVIDIA A100 Tensor Core GPU data sheet")),
    (r"\bA100-(SXM4|PCIE)-40GB\b", DataSheet("A100 40GB", _AMPERE_A100, 1.555e12, "NVIDIA A100 Tensor Core GPU data sheet")),
)  # fmt: skip


def data_sheet(gpu_name: str) -> DataSheet | None:
    """The limits of the GPU that calls itself `gpu_name`, or None where the table does not know it."""
    return next((sheet for pattern, sheet in _SHEETS if re.search(pattern, gpu_name)), None)
