"""Kernels that torch.compile cannot analyse: heard while a step compiles, told in its row, and with the reason of a wrong curve."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bench.catalogue import load_catalogue
from bench.declare import Bound
from bench.records import Check
from bench.workloads.train_step import TrainStep, _learning
from bench.workloads.train_step._unanalysed import LOGGER, UNNAMED, hearing, in_words
from tests.workloads.training import training

# Torch's own, when it first compiles.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
HASTY = 20.0


def _rms_norm_backward_kernel() -> None:
    """In the place of a Triton kernel, and none: torch's analysis fails on it."""


def analyse(kernel: Any) -> None:
    """Torch's own analysis of a kernel, by its name of today or that of torch 2.11."""
    wrap: Any = torch._higher_order_ops.triton_kernel_wrap
    (getattr(wrap, "identify_accessed_tensors", None) or wrap.identify_mutated_tensors)(kernel, {}, {})


def listeners() -> list[logging.Handler]:
    return list(logging.getLogger(LOGGER).handlers)


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiles to what was traced, and has torch analyse a kernel that it cannot, once a graph; a curve has three steps."""
    compile_with = torch.compile

    def backend(graph: Any, _: Any) -> Callable[..., Any]:
        analyse(SimpleNamespace(fn=_rms_norm_backward_kernel))
        forward: Callable[..., Any] = graph.forward
        return forward

    monkeypatch.setattr(
        torch, "compile", lambda function=None, **options: compile_with(function, **{**options, "backend": backend})
    )
    monkeypatch.setattr(_learning, "STEPS", 3)
    torch._dynamo.reset()


def checked(workload: TrainStep, compile_: str, lr_factor: float = 1.0) -> tuple[list[Check], Any]:
    """The checks of a small step and what its row is told."""
    torch.set_num_threads(1)
    case = training(fills={"compile": compile_})
    catalogue, spec = load_catalogue(), workload.spec(case)
    built = {slot: catalogue.implementation(slot, name) for slot, name in case.subject.items()}
    made: list[Bound] = []

    def bind(part: Any) -> Bound:
        made.append(workload.bind(part, built, {"seed": torch.tensor(7)}))
        step: Any = made[-1].forward
        for group in step.update.optimizer.param_groups:
            group["lr"] *= lr_factor
        return made[-1]

    checks = workload.property_checks(spec, bind, "cpu", torch.Generator().manual_seed(4))
    return checks, workload.facts(spec, made[-1]).get("kernels_not_analysed")


def test_a_kernel_that_torch_cannot_analyse_is_told_in_the_row_and_follows_the_reason_of_a_wrong_curve(compiling: None) -> None:
    before = listeners()
    workload = TrainStep()
    checks, told = checked(workload, "layer")
    assert len(checks) == 3
    for check in checks:
        assert check.passed
        assert check.detail is not None
        assert "analysis" not in check.detail, "what is right has nothing to explain"
    assert told.startswith("torch's analysis of _rms_norm_backward_kernel failed (")
    (wrong, *_), _ = checked(workload, "layer", HASTY)  # whose layers are those that were compiled before
    assert not wrong.passed
    assert wrong.detail is not None
    assert wrong.detail.startswith("mean distance of 3 losses")
    assert wrong.detail.endswith(f"; {told}")
    assert listeners() == before


def test_a_wrong_curve_without_such_a_kernel_says_nothing_of_compiling(compiling: None) -> None:
    (wrong, *gradients), told = checked(TrainStep(), "none", HASTY)
    assert all(check.passed for check in gradients), "a learning rate does nothing to those of the first update"
    assert not wrong.passed
    assert wrong.detail is not None
    assert "analysis" not in wrong.detail
    assert told is None


def test_torchs_warning_is_heard_with_the_kernels_name_and_only_within() -> None:
    heard: dict[str, str] = {}
    with hearing(heard):
        analyse(SimpleNamespace(fn=_rms_norm_backward_kernel))
        logging.getLogger(LOGGER).warning("something else")
    assert list(heard) == ["_rms_norm_backward_kernel"]
    analyse(SimpleNamespace(fn=checked))
    assert list(heard) == ["_rms_norm_backward_kernel"]


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("at 41:24:\n    W_row = W_row + offset.to(tl.float32)\n    ^\nAttributeError(\"'float' object has no attribute 'to'\")",
         "'float' object has no attribute 'to'"),
        ("Kernel name f not found", "Kernel name f not found"),
        ("", "ValueError"),
    ],
)  # fmt: skip
def test_the_cause_is_the_end_of_what_the_error_says(message: str, cause: str) -> None:
    heard: dict[str, str] = {}
    with hearing(heard):
        try:
            raise ValueError(message)
        except ValueError:
            logging.getLogger(LOGGER).warning("Encountered an exception, assuming every input is mutated", exc_info=True)
    assert heard == {UNNAMED: cause}


def test_the_words_name_kernels_a_cause_and_the_slots_to_change() -> None:
    cause = "'float' object has no attribute 'to'"
    fills = {"rms_norm": "liger", "rope": "liger", "swiglu": "liger", "attention": "sdpa_flash"}
    assert in_words({"_rms_norm_backward_kernel": cause, "_rms_norm_forward_kernel": cause}, fills) == (
        "torch's analysis of _rms_norm_backward_kernel, _rms_norm_forward_kernel failed ('float' object has no attribute 'to'), so"
        " torch.compile takes every argument as overwritten, weights too: keep that out of the graph (rms_norm: eager), or try a newer"
        " torch"
    )
    many = [f"_{part}_{way}_kernel" for part in ("rms_norm", "swiglu", "rope") for way in ("forward", "backward")]
    words = in_words(dict.fromkeys(many, cause), fills)
    assert words is not None
    assert "_rms_norm_backward_kernel, _rms_norm_forward_kernel and 4 more failed" in words
    assert "(rms_norm: eager, rope: eager, swiglu: eager)" in words
    assert len(words) < 300, "a page would leave out the end"
    assert "keep that out of the graph, or" in (in_words({UNNAMED: cause}, fills) or "")
    assert in_words({}, fills) is None
