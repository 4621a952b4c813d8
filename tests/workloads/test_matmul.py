"""What a matrix product costs."""

from __future__ import annotations

from bench.records import Pass
from bench.workloads.matmul import WORKLOAD, MatmulSpec


def test_bytes_are_each_input_once_and_each_output_once() -> None:
    m, n, k = 3, 5, 7
    of = MatmulSpec(m, n, k, "bf16")
    forward, backward = WORKLOAD.cost(of, Pass.FORWARD), WORKLOAD.cost(of, Pass.BACKWARD)
    assert forward.bytes == 2 * (m * k + k * n + m * n)
    assert backward.bytes == 2 * (m * n + 2 * m * k + 2 * k * n)
    assert (forward.flops, backward.flops) == (2 * m * n * k, 4 * m * n * k)
    both = WORKLOAD.cost(of, Pass.FORWARD_BACKWARD)
    assert (both.flops, both.bytes) == (6 * m * n * k, (forward.bytes or 0) + (backward.bytes or 0))
