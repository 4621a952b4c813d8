"""Mistakes in a declaration, told where they are made."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bench.declare import fill_normal, implementation


def builder(spec: Any) -> Any:
    return spec


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ({"requires": "flash-attn>=2.5"}, r"requires takes a list: \['flash-attn>=2.5'\]"),
        ({"devices": "cuda"}, r"devices takes a list: \['cuda'\]"),
        ({"dtypes": "bf16"}, r"dtypes takes a list: \['bf16'\]"),
        ({"passes": "forward"}, r"passes takes a list: \['forward'\]"),
        ({"refuses": "No available kernel"}, r"refuses takes a list: \['No available kernel'\]"),
        ({"proof": {"ops": "aten::mm"}}, r"proof\['ops'\] takes a list: \['aten::mm'\]"),
        ({"proof": {"cuda": {"not": "flash"}}}, r"proof\['not'\] takes a list: \['flash'\]"),
        ({"proof": ["aten::mm"]}, "proof takes a mapping"),
        ({"proof": {"cpu": ["aten::mm"]}}, r"proof\['cpu'\] takes a mapping"),
        ({"proof": {"kernel": ["x"]}}, "proof has no kernel"),
        ({"proof": {"ops": ["("]}}, r"proof\['ops'\]: '\(' is no regular expression"),
        ({"refuses": ["["]}, r"refuses: '\[' is no regular expression"),
        ({"requires": [1]}, "requires takes a list of strings"),
        ({"devices": ["gpu"]}, "unknown devices gpu; known: cpu, cuda, cpu-interpreter"),
        ({"passes": ["backwards"]}, "unknown passes backwards; known: forward, backward, forward_backward"),
        ({"tolerance": 0.0}, "tolerance takes a number above 0, not 0.0"),
        ({"tolerance": "5 %"}, "tolerance takes a number above 0, not '5 %'"),
        ({"tolerance": 0.1, "multiplies_in": "bf16"}, "multiplies_in takes one of dtype, fp8, int8, not 'bf16'"),
        ({"multiplies_in": "int8"}, "multiplies_in needs a tolerance"),
        ({"dtypes": ["fp8", "float"]}, "unknown dtypes float, fp8; known: fp32"),
    ],
)
def test_a_mistake_in_a_declaration_is_a_type_error_in_words(declared: dict[str, Any], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        implementation(**declared)(builder)


def test_tuples_are_lists_too() -> None:
    made = implementation(workload="x", devices=("cuda",), passes=("forward",), refuses=("no",), proof={"ops": ("mm",)})(builder)
    assert (made.devices, made.refuses, made.proof["cuda"].ops) == (("cuda",), ("no",), ("mm",))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_normal_numbers_fill_a_tensor_of_any_layout(dtype: torch.dtype) -> None:
    tensor = torch.zeros(64, 8, 32, dtype=dtype).transpose(0, 1).requires_grad_()
    made = fill_normal(tensor.detach(), torch.Generator().manual_seed(2))
    assert made.stride() == tensor.stride()
    assert abs(float(made.double().mean())) < 0.05
    assert 0.95 < float(made.double().std()) < 1.05
    assert tensor.grad_fn is None
