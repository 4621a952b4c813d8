"""Peaks and saved bytes against values known from the shapes, and against an independent count of live storages."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from bench.catalogue import load_catalogue
from bench.declare import Bound, Workload
from bench.records import Case, Pass
from bench.worker.check import random_like, track_gradients
from bench.worker.memory_cpu import peak_bytes
from bench.worker.saved import saved_bytes
from bench.worker.step import Step
from bench.worker.subject import Subject
from tests.worker.trials import attention, rms_norm

FLOAT = 4
SCALAR = 12
"""A Python number that multiplies a tensor is a double first, then a float: two tiny tensors."""


class LiveBytes(TorchDispatchMode):
    """Follows every storage that passes through the dispatcher; knows nothing of the profiler."""

    def __init__(self, before: list[torch.Tensor]) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._known = {tensor.untyped_storage()._cdata for tensor in before}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_iter(result):
            if isinstance(tensor, torch.Tensor):
                self._see(tensor.untyped_storage())
        return result

    def _see(self, storage: torch.UntypedStorage) -> None:
        address = storage._cdata
        if address in self._known:
            return
        self._known.add(address)
        self.live += storage.nbytes()
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._gone, address, storage.nbytes())

    def _gone(self, address: int, size: int) -> None:
        self._known.discard(address)
        self.live -= size


def step_of(case: Case) -> Step:
    catalogue = load_catalogue()
    workload = catalogue.workloads[case.workload]
    implementations = {slot: catalogue.implementation(slot, name) for slot, name in case.subject.items()}
    spec = workload.spec(case)
    generator = torch.Generator().manual_seed(5)
    inputs = workload.make_inputs(spec, "cpu", generator)
    bound = Subject(case, workload, implementations).build(spec, workload.make_parameters(spec, "cpu", generator))
    track_gradients(workload, spec, inputs, case.pass_)
    with torch.set_grad_enabled(case.pass_.differentiates):
        cotangents = random_like(bound.forward(inputs), generator) if case.pass_.differentiates else {}
    return Step(bound, inputs, cotangents, case.pass_)


def peak_of(step: Step) -> int:
    with torch.set_grad_enabled(step.pass_.differentiates):
        (measured,) = peak_bytes(step)
    assert measured.metric == "peak_bytes"
    assert measured.note is not None
    return int(measured.samples[0])


def lone(forward: Any, pass_: Pass, *sizes: int) -> Step:
    inputs = {f"x{i}": torch.randn(size, requires_grad=pass_.differentiates) for i, size in enumerate(sizes)}

    def named(given: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        return {"out": forward(*given.values())}

    cotangents = random_like(named(inputs), torch.Generator()) if pass_.differentiates else {}
    return Step(Bound(named), inputs, cotangents, pass_)


def test_one_output_of_known_size_is_exact_to_the_byte() -> None:
    assert peak_of(lone(lambda x: x.exp(), Pass.FORWARD, 1000)) == 1000 * FLOAT


def test_temporaries_count_while_they_live_and_not_after() -> None:
    # exp and sin live together (the second is made from the first), then only the sum and its operands.
    assert peak_of(lone(lambda x: x.exp().sin(), Pass.FORWARD, 1000)) == 2 * 1000 * FLOAT
    assert peak_of(lone(lambda x: x.exp().sin().cos().tan(), Pass.FORWARD, 1000)) == 2 * 1000 * FLOAT


def test_inputs_that_were_there_before_do_not_count() -> None:
    assert peak_of(lone(lambda x, y: x * 2, Pass.FORWARD, 10, 100_000)) == pytest.approx(10 * FLOAT, abs=SCALAR)


def test_a_backward_frees_what_its_forward_left_and_the_peak_knows() -> None:
    # Four saved outputs are resident before. Each backward node makes one gradient and frees one saved tensor:
    # never more than two new gradients live above the start.
    step = lone(lambda x: x.exp().exp().exp().exp(), Pass.BACKWARD, 1000)
    assert peak_of(step) <= 2 * 1000 * FLOAT
    step = lone(lambda x: x.exp().exp().exp().exp(), Pass.FORWARD_BACKWARD, 1000)
    assert 5 * 1000 * FLOAT <= peak_of(step) <= 6 * 1000 * FLOAT


def test_eager_attention_keeps_two_score_matrices_at_its_peak() -> None:
    params = {"heads": 4, "kv_heads": 4, "head_dim": 16, "seq_len": 128, "batch": 1, "mask": "full"}
    scores = 4 * 128 * 128 * FLOAT
    # The softmax reads one and writes the other.
    assert peak_of(step_of(attention("eager", params=params))) == pytest.approx(2 * scores, abs=SCALAR)


def test_eager_attention_of_grouped_heads_pays_for_the_repeated_keys_and_values() -> None:
    params = {"heads": 4, "kv_heads": 2, "head_dim": 16, "seq_len": 128, "batch": 1, "mask": "full"}
    scores, repeated = 4 * 128 * 128 * FLOAT, 2 * 4 * 128 * 16 * FLOAT
    assert peak_of(step_of(attention("eager", params=params))) == pytest.approx(2 * scores + repeated, abs=SCALAR)


@pytest.mark.parametrize("pass_", Workload.passes)
@pytest.mark.parametrize("case", [attention("eager"), attention("sdpa_math"), attention("sdpa_flash"), rms_norm("eager")])
def test_the_profiler_and_a_dispatch_mode_count_the_same_peak(case: Case, pass_: Pass) -> None:
    step = step_of(dataclasses.replace(case, pass_=pass_))
    with torch.set_grad_enabled(pass_.differentiates):
        seen = peak_of(step)
        # The dispatch mode cannot see what a kernel allocates inside: a row of a softmax, the tiles of flash attention.
        scratch = 20 * 1024 if case.subject_label == "sdpa_flash" else 4 * 1024
        step.clear_gradients()
        before = [*step.inputs.values(), *step.bound.parameters.values(), *step.cotangents.values()]
        with LiveBytes(before) as tracker:
            step.prepare()
            tracker.peak = start = tracker.live
            kept = step()
        del kept
    assert 0 <= seen - (tracker.peak - start) <= scratch


def saved_of(step: Step) -> tuple[int, int]:
    total, of_inputs = saved_bytes(step)
    assert (total.metric, of_inputs.metric) == ("saved_bytes", "saved_input_bytes")
    return int(total.samples[0]), int(of_inputs.samples[0])


def test_a_product_saves_both_operands_and_both_are_inputs() -> None:
    assert saved_of(lone(lambda x, y: x * y, Pass.BACKWARD, 1000, 1000)) == (8000, 8000)


def test_an_activation_that_saves_its_output_saves_no_input() -> None:
    assert saved_of(lone(lambda x: x.exp(), Pass.BACKWARD, 1000)) == (4000, 0)


def test_a_tensor_that_two_nodes_save_is_kept_once() -> None:
    assert saved_of(lone(lambda x: x.sin() + x.cos() + x[:10].sum() * x[0], Pass.BACKWARD, 1000))[1] == 4000


def test_parameters_are_not_counted_among_the_saved() -> None:
    case = rms_norm("torch_native", pass_=Pass.BACKWARD)
    with_weight = saved_of(step_of(case))[0]
    rows, hidden = 20, 64
    # x (an input), the reciprocal root of each row; the weight is a parameter.
    assert with_weight <= 2 * rows * hidden * FLOAT + rows * FLOAT + 64


def test_flash_attention_saves_a_vector_where_eager_saves_a_matrix() -> None:
    params = {"heads": 4, "kv_heads": 4, "head_dim": 16, "seq_len": 128, "batch": 1, "mask": "causal"}
    qkv = 3 * 4 * 128 * 16 * FLOAT
    out, logsumexp = 4 * 128 * 16 * FLOAT, 4 * 128 * FLOAT
    flash = step_of(attention("sdpa_flash", params=params, pass_=Pass.BACKWARD))
    assert saved_of(flash) == (qkv + out + logsumexp, qkv)
    # Softmax output, and the operands of both products; the mask is added, which saves nothing.
    eager = step_of(attention("eager", params=params, pass_=Pass.BACKWARD))
    assert saved_of(eager)[0] == pytest.approx(qkv + 4 * 128 * 128 * FLOAT, abs=64)
