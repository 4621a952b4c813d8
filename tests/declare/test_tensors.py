"""Normal numbers in tensors of any layout."""

from __future__ import annotations

import pytest
import torch

from bench.declare import fill_normal


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_normal_numbers_fill_a_tensor_of_any_layout(dtype: torch.dtype) -> None:
    tensor = torch.zeros(64, 8, 32, dtype=dtype).transpose(0, 1).requires_grad_()
    made = fill_normal(tensor.detach(), torch.Generator().manual_seed(2))
    assert made.stride() == tensor.stride()
    assert abs(float(made.double().mean())) < 0.05
    assert 0.95 < float(made.double().std()) < 1.05
    assert tensor.grad_fn is None
