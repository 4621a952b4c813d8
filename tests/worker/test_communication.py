"""What ranks send is added up by collective, and what nothing hides is told from what computing hides."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bench.worker.communication import count, covered, exposed, merged, sent, timeline
from bench.worker.step import PASS_MARK


def tensor(elements: int, dtype: torch.dtype = torch.float32) -> Any:
    return SimpleNamespace(sizes=[elements], dtype=dtype)


def node(name: str, *inputs: Any, children: tuple[Any, ...] = ()) -> Any:
    return SimpleNamespace(name=name, children=children, extra_fields=SimpleNamespace(inputs=inputs))


def test_the_whole_of_a_collective_counts_on_whichever_rank_its_parts_lie() -> None:
    half, whole = tensor(50), tensor(100)
    tree = [
        node("aten::mm", tensor(7), children=(node("c10d::allreduce_", [whole, tensor(10, torch.bfloat16)], None, True),)),
        node("c10d::_allgather_base_", whole, half, None),
        node("c10d::_reduce_scatter_base_", half, whole, None),
        node("c10d::allgather_", [], [half]),  # its outputs are lists of lists, which the profiler leaves empty
        node("c10d::barrier", tensor(1)),
    ]
    sizes, calls, unknown = count(tree, ranks=2)
    assert sizes["all_reduce"] == 400 + 20
    assert sizes["all_gather"] == 400 + 400
    assert sizes["reduce_scatter"] == 400
    assert calls == {"all_reduce": 1, "all_gather": 2, "reduce_scatter": 1}
    assert unknown == set()


def test_a_collective_within_another_counts_once_and_an_unknown_one_is_named() -> None:
    inner = node("c10d::allreduce_", [tensor(10)])
    sizes, calls, unknown = count(
        [node("_c10d_functional::all_reduce", tensor(10), "sum", "0", children=(inner,)), node("c10d::gather_", [tensor(3)])],
        ranks=2,
    )
    assert (sizes["all_reduce"], calls) == (40, {"all_reduce": 1})
    assert unknown == {"c10d::gather_"}


@pytest.mark.parametrize(
    ("kind", "ranks", "bytes_sent"),
    [("all_reduce", 2, 100.0), ("all_reduce", 4, 150.0), ("all_gather", 4, 75.0), ("broadcast", 4, 100.0), ("broadcast", 1, 0.0)],
)
def test_a_ring_of_n_sends_each_part_on_n_less_one_times(kind: str, ranks: int, bytes_sent: float) -> None:
    assert sent(kind, 100, ranks) == bytes_sent


def test_spans_that_overlap_count_once_and_what_computing_hides_is_not_exposed() -> None:
    communicating = [(0, 10), (5, 20), (30, 40)]
    assert list(merged(communicating)) == [(0, 20), (30, 40)]
    assert covered(communicating) == 30
    assert exposed(communicating, [(0, 5), (35, 100)]) == 20


def event(name: str, start: int, duration: int, device: str = "CPU") -> Any:
    return SimpleNamespace(
        name=lambda: name,
        start_ns=lambda: start,
        duration_ns=lambda: duration,
        device_type=lambda: SimpleNamespace(name=device),
        is_user_annotation=lambda: False,
    )


def test_on_a_cpu_operators_hide_collectives_and_what_lies_outside_the_call_does_not_count() -> None:
    events = [
        event("gloo:all_reduce", 0, 5),
        event(PASS_MARK, 10, 100),
        event("gloo:all_reduce", 20, 30),
        event("aten::mm", 40, 20),
        event("Optimizer.step", 0, 200),
    ]
    assert timeline(events, cuda=False) == (100, [(20, 50)], [(40, 60)])
    assert timeline(events[2:], cuda=False) is None


def test_on_a_gpu_kernels_hide_collectives() -> None:
    events = [
        event(PASS_MARK, 0, 100),
        event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 10, 50, "CUDA"),
        event("gemm", 30, 10, "CUDA"),
        event("aten::mm", 0, 90),
    ]
    assert timeline(events, cuda=True) == (100, [(10, 60)], [(30, 40)])
