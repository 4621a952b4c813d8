"""New numbers come into the tensors that are there, and no second set of them is ever made."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch

from bench.catalogue import load_catalogue
from bench.declare import Bound
from bench.records import Case, Pass
from bench.worker.memory_cpu import peak_bytes
from bench.worker.step import Step
from tests.workloads.test_every_implementation import CASES


@pytest.mark.parametrize("name", CASES)
def test_inputs_are_drawn_anew_in_place(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = load_catalogue().workloads[name]
    make: Callable[[str], Case] = CASES[name]
    spec: Any = workload.spec(dataclasses.replace(make("eager"), pass_=Pass.FORWARD))
    generator = torch.Generator().manual_seed(1)
    inputs = workload.make_inputs(spec, "cpu", generator)
    before = {key: (tensor.clone(), tensor.data_ptr(), tensor.stride()) for key, tensor in inputs.items()}

    class Redraw(Step):
        def __call__(self) -> dict[str, torch.Tensor]:
            workload.redraw(spec, inputs, generator)
            return {}

    (peak,) = peak_bytes(Redraw(Bound(lambda given: given), {}, {}, Pass.FORWARD))
    largest = max(tensor.nbytes for tensor in inputs.values())
    assert peak.samples[0] < largest / 4
    for key, (old, address, stride) in before.items():
        assert (inputs[key].data_ptr(), inputs[key].stride()) == (address, stride)
        assert not torch.equal(inputs[key], old)
        if old.is_floating_point():
            assert 0.05 < float(inputs[key].std()) < 2.0  # a weight's is one over the root of its width
