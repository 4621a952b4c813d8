"""Reads a profiled step: whose the time of each operator and kernel was, by phase, module and way of attention.

An operator belongs to the innermost watched module around it. An operator of the backward belongs to the module of the forward operator
whose autograd node it evaluates: torch numbers the nodes of a thread, and tells the number at both ends. On CUDA the time is that of the
kernels, each counted for the operator that launched it; on a CPU it is the operators' own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from bench.worker.audit.attention_kinds import is_backward, kind_of_kernel, kind_of_operator
from bench.worker.audit.marks import module_number, phase_of
from bench.worker.proof import _is_work

_NODE = "autograd::engine::evaluate_function: "
COMPILED = "Torch-Compiled Region"
_MATRIX_PRODUCTS = frozenset(
    (
        "aten::mm",
        "aten::addmm",
        "aten::bmm",
        "aten::baddbmm",
        "aten::_scaled_mm",
        "aten::_int_mm",
        "aten::_grouped_mm",
        "aten::linear",
    )
)


@dataclass(slots=True)
class Operator:
    """One operator on the host, with the time that it alone took."""

    name: str
    start_ns: int
    end_ns: int
    thread: int
    own_ns: int
    kernels: list[tuple[str, int]]
    """(name, ns) of what the device ran for it."""
    module: int | None
    """Number of the watched module; None outside of all."""
    phase: str
    attention: str | None
    """How attention was computed, where it lies within such an operator."""
    outermost: bool
    """Whether it is that operator itself."""
    dtype: str

    def time_ns(self, cuda: bool) -> int:
        return sum(ns for _, ns in self.kernels) if cuda else self.own_ns


@dataclass(slots=True)
class Timeline:
    """One profiled step."""

    operators: list[Operator]
    cuda: bool
    total_ns: int
    """Of all operators on a CPU, of all kernels on CUDA."""
    unclaimed: list[tuple[str, int]] = field(default_factory=list)
    """Kernels whose operator is not known."""

    def by_phase_s(self, windows: Iterable[tuple[str, int, int]]) -> dict[str, float]:
        """Device time by phase; on a CPU how long the phases lasted."""
        sums: dict[str, float] = defaultdict(float)
        if self.cuda:
            for operator in self.operators:
                sums[operator.phase] += operator.time_ns(True) * 1e-9
        else:
            for phase, start, end in windows:
                sums[phase] += (end - start) * 1e-9
        return dict(sums)

    def matmul_shares(self) -> dict[str, float]:
        """dtype of the inputs of matrix products to its share of their time."""
        sums: dict[str, int] = defaultdict(int)
        for operator in self.operators:
            if operator.name in _MATRIX_PRODUCTS and operator.dtype:
                sums[operator.dtype] += operator.time_ns(self.cuda)
        total = sum(sums.values())
        return {dtype: ns / total for dtype, ns in sums.items() if ns} if total else {}

    def kernel_names(self) -> set[str]:
        return {name for operator in self.operators for name, _ in operator.kernels} | {name for name, _ in self.unclaimed}

    def compiled_calls(self) -> int:
        return sum(operator.name.startswith(COMPILED) for operator in self.operators)


@dataclass(slots=True)
class _Open:
    """An operator that has begun and not ended, while a thread is walked through."""

    event: Any
    end_ns: int
    module: int | None
    attention: str | None
    inside_ns: int = 0


def phase_windows(events: Iterable[Any], last_ns: int) -> list[tuple[str, int, int]]:
    """(phase, start, end). What lies between a backward and an update is the update's: gradients are clipped there."""
    begins = sorted(
        (event.start_ns(), phase) for event in events if (phase := phase_of(event.name())) is not None and _on_host(event)
    )
    windows = []
    for number, (start, phase) in enumerate(begins):
        following = begins[number + 1] if number + 1 < len(begins) else (last_ns, "")
        if phase == "between":
            phase = "optimizer" if following[1] == "optimizer" else "other"
        windows.append((phase, start, following[0]))
    return windows


def read_timeline(events: list[Any], *, cuda: bool) -> tuple[Timeline, list[tuple[str, int, int]]]:
    """The step that the profiler's events tell, and when its phases began and ended."""
    hosts = [event for event in events if _on_host(event) and event.name() != "[memory]" and not event.is_hidden_event()]
    windows = phase_windows(hosts, max((event.end_ns() for event in hosts), default=0))
    launched, unclaimed = _kernels(events, hosts)
    threads: dict[int, list[Any]] = defaultdict(list)
    for event in hosts:
        threads[event.device_resource_id()].append(event)
    nodes: dict[tuple[int, int], int] = {}
    for of_thread in threads.values():
        of_thread.sort(key=lambda event: (event.start_ns(), -event.end_ns()))
        _note_nodes(of_thread, nodes)
    operators: list[Operator] = []
    for of_thread in threads.values():
        _walk(of_thread, nodes, launched, windows, operators)
    total = sum(operator.time_ns(cuda) for operator in operators) + (sum(ns for _, ns in unclaimed) if cuda else 0)
    return Timeline(operators, cuda, total, unclaimed), windows


def _on_host(event: Any) -> bool:
    """An operator or a mark; calls of the driver are linked to theirs and have numbers of their own."""
    return bool(event.device_type().name == "CPU") and not event.is_async() and event.linked_correlation_id() == 0


def _kernels(events: list[Any], hosts: list[Any]) -> tuple[dict[int, list[tuple[str, int]]], list[tuple[str, int]]]:
    """What the device ran by the number of the operator that launched it, and what no operator claims."""
    known = {event.correlation_id() for event in hosts}
    launched: dict[int, list[tuple[str, int]]] = defaultdict(list)
    unclaimed = []
    for event in events:
        if event.device_type().name == "CUDA" and _is_work(event):
            entry = (event.name(), event.duration_ns())
            number = event.linked_correlation_id()
            if number > 0 and number in known:
                launched[number].append(entry)
            else:
                unclaimed.append(entry)
    return launched, unclaimed


def _note_nodes(of_thread: list[Any], nodes: dict[tuple[int, int], int]) -> None:
    """Module by (thread, number) of the autograd nodes that forward operators made: of several with one number the last made it."""
    stack: list[tuple[int, int | None]] = []
    for event in of_thread:
        while stack and stack[-1][0] <= event.start_ns():
            stack.pop()
        module = stack[-1][1] if stack else None
        number = module_number(event.name())
        if number is not None:
            module = number
        elif module is not None and event.sequence_nr() >= 0 and not event.name().startswith(_NODE):
            nodes[(event.start_thread_id(), event.sequence_nr())] = module
        stack.append((event.end_ns(), module))


def _walk(
    of_thread: list[Any],
    nodes: dict[tuple[int, int], int],
    launched: dict[int, list[tuple[str, int]]],
    windows: list[tuple[str, int, int]],
    operators: list[Operator],
) -> None:
    stack: list[tuple[_Open, Operator]] = []
    window = 0

    def close(until: int) -> None:
        while stack and stack[-1][0].end_ns <= until:
            opened, operator = stack.pop()
            operator.own_ns = max(0, operator.own_ns - opened.inside_ns)

    for event in of_thread:
        start, end, name = event.start_ns(), event.end_ns(), event.name()
        close(start)
        while window + 1 < len(windows) and windows[window + 1][1] <= start:
            window += 1
        outer = stack[-1][0] if stack else None
        if outer is not None:
            outer.inside_ns += end - start
        module = outer.module if outer is not None else None
        number = module_number(name)
        if number is not None:
            module = number
        elif name.startswith(_NODE) and event.sequence_nr() >= 0:
            module = nodes.get((event.fwd_thread_id(), event.sequence_nr()), module)
        inherited = outer.attention if outer is not None else None
        attention = inherited or kind_of_operator(name.removeprefix(_NODE))
        kernels = launched.pop(event.correlation_id(), [])
        operator = Operator(
            name, start, end, event.device_resource_id(), end - start, kernels, module,
            windows[window][0] if windows and windows[window][1] <= start else "other",
            attention or next(filter(None, (kind_of_kernel(kernel) for kernel, _ in kernels)), None),
            inherited is None and attention is not None and not is_backward(name),
            _dtype(event),
        )  # fmt: skip
        operators.append(operator)
        stack.append((_Open(event, end, module, attention), operator))
    close(2**63)


def _dtype(event: Any) -> str:
    """Of the first tensor that an operator takes."""
    if event.name() not in _MATRIX_PRODUCTS:
        return ""
    first = next((dtype for dtype in event.dtypes() if dtype and not dtype.startswith("Scalar")), "")
    return _DTYPES.get(first, first.removeprefix("c10::").lower())


_DTYPES = {
    "float": "float32", "double": "float64", "c10::BFloat16": "bfloat16", "c10::Half": "float16", "signed char": "int8",
    "unsigned char": "uint8", "c10::Float8_e4m3fn": "float8_e4m3fn", "c10::Float8_e5m2": "float8_e5m2",
}  # fmt: skip
