"""The semantics of embeddings: gradients of words that come several times are sums, and columns stand alone."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from bench.catalogue import load_catalogue, missing_requirements
from bench.records import Pass, Reply, Status
from bench.workloads.embedding import WORKLOAD, EmbeddingSpec
from tests.worker.trials import answer
from tests.workloads.test_cross_entropy import loss_case, needs_liger

SPEC = EmbeddingSpec(tokens=40, hidden_size=24, vocab_size=12, dtype="fp32")


def inputs(spec: EmbeddingSpec = SPEC) -> dict[str, torch.Tensor]:
    return WORKLOAD.make_inputs(spec, "cpu", torch.Generator().manual_seed(5))


def test_the_gradient_of_a_word_is_the_sum_over_its_tokens() -> None:
    drawn = inputs()
    weight = drawn["weight"].double().requires_grad_()
    out = WORKLOAD.reference(SPEC, {**drawn, "weight": weight}, {})["out"]
    outer = torch.randn(out.shape, dtype=torch.float64)
    (gradient,) = torch.autograd.grad(out, weight, outer)
    assert len(set(drawn["ids"].tolist())) < SPEC.tokens
    for word in range(SPEC.vocab_size):
        torch.testing.assert_close(gradient[word], outer[drawn["ids"] == word].sum(0))


def test_the_slice_is_some_columns_of_all_words_and_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.workloads.embedding.SLICE_ELEMENTS", 5 * SPEC.tokens)
    sliced = WORKLOAD.slice(SPEC)
    assert sliced is not None
    part, pick = sliced
    assert (part.tokens, part.vocab_size, part.hidden_size) == (40, 12, 5)
    drawn = inputs()
    picked = {name: pick(name, tensor) for name, tensor in drawn.items()}
    assert torch.equal(WORKLOAD.reference(part, picked, {})["out"], pick("out", WORKLOAD.reference(SPEC, drawn, {})["out"]))  # type: ignore[arg-type]


def test_the_gradient_is_the_whole_matrix_so_its_zeros_are_moved_too() -> None:
    forward, backward, both = (WORKLOAD.cost(SPEC, pass_).bytes for pass_ in (Pass.FORWARD, Pass.BACKWARD, Pass.FORWARD_BACKWARD))
    assert forward == 2 * 40 * 24 * 4 + 8 * 40
    assert backward == (40 + 12) * 24 * 4 + 8 * 40
    assert both == (forward or 0) + (backward or 0)


LOSES_REPETITIONS = """
import torch
from bench.declare import implementation

@implementation(workload="embedding")
def loses_repetitions(spec):
    class LookedUp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, weight, ids):
            ctx.save_for_backward(ids)
            ctx.shape = weight.shape
            return weight[ids]

        @staticmethod
        def backward(ctx, gradient):
            made = gradient.new_zeros(ctx.shape)
            made[ctx.saved_tensors[0]] = gradient
            return made, None

    return LookedUp.apply
"""


def test_who_keeps_the_last_of_a_words_gradients_only_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(LOSES_REPETITIONS)
    shape = {"tokens": 300, "hidden_size": 16, "vocab_size": 40, "pass_": Pass.FORWARD_BACKWARD}
    reply = answer(tmp_path, loss_case("embedding", "loses_repetitions", **shape), plugins=(path,))
    assert reply.status is Status.INCORRECT, reply.traceback
    assert {check.tensor for check in reply.checks if not check.passed} == {"grad_weight"}


@pytest.mark.slow
def test_ligers_kernels_are_right_in_both_directions(interpreted: Callable[..., list[Reply]]) -> None:
    needs_liger()
    shape = {"tokens": 150, "hidden_size": 136, "vocab_size": 40, "device": "cpu-interpreter"}
    (reply,) = interpreted(loss_case("embedding", "liger", **shape, pass_=Pass.FORWARD_BACKWARD))
    assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"
    assert reply.proof is not None
    assert reply.proof.verdict == "proved"
    assert {check.tensor for check in reply.checks} == {"out", "grad_weight"}


def test_ligers_kernels_have_the_names_that_prove_them_and_that_rivals_may_not_show() -> None:
    implementations = load_catalogue().implementations("embedding")
    if missing := missing_requirements(implementations["liger"]):
        pytest.skip(missing[0])
    files = importlib.metadata.files("liger-kernel") or []
    (source,) = [file for file in files if str(file) == "liger_kernel/ops/experimental/embedding.py"]
    own = re.findall(r"^@triton\.jit\ndef (\w+)\(", Path(str(source.locate())).read_text(), re.MULTILINE)
    (wanted,) = implementations["liger"].proof["cuda"].kernels
    assert len(own) == 2
    for kernel in own:
        assert re.search(wanted, kernel)
        assert any(re.search(ban, kernel) for ban in implementations["compiled"].proof["cuda"].not_)
