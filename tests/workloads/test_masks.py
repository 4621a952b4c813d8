"""Masks, in numbers small enough to see: what they show, how it is counted, and that kernels, slices and small problems agree."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.catalogue import load_catalogue
from bench.declare import AttentionSpec, Unsupported
from bench.records import Case, Pass, Status
from bench.run.commands import case_filters
from bench.suite import Suite, expand, parse_filters, suite_from_data
from bench.workloads.attention import SMALL_SEQ_LEN, WORKLOAD
from bench.workloads.attention._masks import cut, visible, visible_pairs
from bench.workloads.attention._packed import packed
from tests.worker.trials import answer, attention, plugin
from tests.workloads.test_every_implementation import RIGHT_FOR_FLEX

MASKS: dict[str, dict[str, Any]] = {
    "causal": {"mask": "causal"},
    "full": {"mask": "full"},
    "window of 1": {"mask": "sliding_window", "window": 1},
    "window of 3": {"mask": "sliding_window", "window": 3},
    "window beyond the keys": {"mask": "sliding_window", "window": 99},
    "one document": {"mask": "document", "document_lengths": (7,)},
    "three documents": {"mask": "document", "document_lengths": (2, 4, 1)},
}
LENGTHS = [(7, 7), (2, 7), (1, 7), (9, 7)]

CASES: dict[str, dict[str, Any]] = {
    "sliding_window": {"mask": "sliding_window", "window": 5},
    "document": {"mask": "document", "documents": 3},
}
"""The masks as a case has them, narrow enough for 24 tokens."""


def spec(**changes: Any) -> AttentionSpec:
    made = AttentionSpec(2, 4, 2, 8, 7, 7, "causal", 0.0, 1 / math.sqrt(8), "fp32")
    return dataclasses.replace(made, **changes)


def shown(of: AttentionSpec) -> list[str]:
    return ["".join("x" if seen else "." for seen in row) for row in visible(of, "cpu").tolist()]


def by_definition(of: AttentionSpec, query: int, key: int) -> bool:
    """The definition, pair by pair, in other words than the program's."""
    position = query + of.kv_len - of.seq_len
    if of.mask == "full":
        return True
    if position < key:
        return False
    if of.mask == "sliding_window":
        return position - key < (of.window or 0)
    if of.mask == "document":
        owners = [number for number, length in enumerate(of.document_lengths or ()) for _ in range(length)]
        return owners[position] == owners[key]
    return True


def test_the_causal_mask_is_aligned_at_the_end() -> None:
    assert shown(spec(seq_len=2, kv_len=5)) == ["xxxx.", "xxxxx"]


def test_a_window_shows_a_query_itself_and_the_keys_just_before_it() -> None:
    assert shown(spec(seq_len=4, kv_len=4, mask="sliding_window", window=2)) == ["x...", "xx..", ".xx.", "..xx"]


def test_documents_do_not_see_each_other() -> None:
    of = spec(seq_len=5, kv_len=5, mask="document", document_lengths=(2, 3))
    assert shown(of) == ["x....", "xx...", "..x..", "..xx.", "..xxx"]


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("mask", MASKS)
def test_every_mask_is_what_its_definition_says_and_is_counted_exactly(mask: str, lengths: tuple[int, int]) -> None:
    of = spec(seq_len=lengths[0], kv_len=lengths[1], **MASKS[mask])
    seen = visible(of, "cpu")
    assert seen.tolist() == [[by_definition(of, query, key) for key in range(of.kv_len)] for query in range(of.seq_len)]
    assert visible_pairs(of) == int(seen.sum())


@pytest.mark.parametrize(("length", "documents"), [(4096, 8), (160, 8), (160, 64), (5, 5), (7, 1), (24, 3), (16384, 16)])
def test_a_sequence_is_cut_into_documents_that_fill_it(length: int, documents: int) -> None:
    lengths = cut(length, documents)
    assert (len(lengths), sum(lengths)) == (documents, length)
    assert min(lengths) >= 1


def test_documents_have_the_lengths_that_the_rule_says() -> None:
    assert cut(4096, 8) == (114, 910, 228, 796, 341, 683, 455, 569)


def test_more_documents_than_tokens_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="25 documents do not fit into 24 tokens"):
        WORKLOAD.spec(attention("eager", params={"mask": "document", "documents": 25}))


@pytest.mark.parametrize(
    "changes",
    [
        {"window": 3},
        {"mask": "sliding_window"},
        {"mask": "sliding_window", "window": 0},
        {"mask": "document"},
        {"document_lengths": (7,)},
        {"mask": "document", "document_lengths": (3, 3)},
        {"mask": "document", "document_lengths": (7, 0)},
    ],
    ids=str,
)
def test_a_spec_whose_mask_is_half_told_cannot_be_made(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"window|document"):
        spec(**changes)


@pytest.mark.parametrize("mask", MASKS)
def test_the_slice_alone_gives_the_slice_of_the_whole(mask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.workloads.attention.SLICE_SCORES", 2 * 7 * 3)
    of = spec(**MASKS[mask])
    inputs = {name: t.double() for name, t in WORKLOAD.make_inputs(of, "cpu", torch.Generator().manual_seed(1)).items()}
    sliced = WORKLOAD.slice(of)
    assert sliced is not None
    part, pick = sliced
    assert (part.batch, part.heads, part.kv_heads, part.seq_len, part.kv_len) == (1, 2, 1, 3, 7)
    picked = {name: pick(name, tensor) for name, tensor in inputs.items()}
    alone = WORKLOAD.reference(part, picked, {})["out"]  # type: ignore[arg-type]
    torch.testing.assert_close(alone, pick("out", WORKLOAD.reference(of, inputs, {})["out"]))


@pytest.mark.parametrize("mask", ["sliding_window", "document"])
def test_the_small_problem_hides_keys_as_the_measured_one_does(mask: str) -> None:
    params = {"seq_len": 4096, "mask": mask, "window": 1024, "documents": 8}
    small = WORKLOAD.small_spec(WORKLOAD.spec(attention("eager", params=params)))
    assert (small.mask, small.seq_len) == (mask, SMALL_SEQ_LEN)
    hidden = 1 - visible_pairs(small) / visible_pairs(dataclasses.replace(small, mask="causal", window=None, document_lengths=None))
    assert hidden > 0.3


def test_flops_are_those_of_the_pairs_that_the_mask_leaves() -> None:
    of = spec(mask="document", document_lengths=(2, 4, 1))
    assert WORKLOAD.cost(of, Pass.FORWARD).flops == 4 * 2 * 4 * (3 + 10 + 1) * 8
    assert WORKLOAD.cost(of, Pass.FORWARD).bytes == WORKLOAD.cost(spec(), Pass.FORWARD).bytes


@pytest.mark.parametrize("mask", CASES)
@pytest.mark.parametrize("name", ["eager", "sdpa_math", "sdpa_flash"])
def test_kernels_that_take_a_matrix_measure_under_every_mask(tmp_path: Path, name: str, mask: str) -> None:
    reply = answer(tmp_path, attention(name, params=CASES[mask], pass_=Pass.FORWARD_BACKWARD))
    assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"
    assert reply.proof is not None
    assert reply.proof.verdict == "proved"


@pytest.mark.slow
@pytest.mark.parametrize("mask", CASES)
def test_flex_measures_under_every_mask(tmp_path: Path, mask: str) -> None:
    params = {**CASES[mask], **RIGHT_FOR_FLEX}
    reply = answer(tmp_path, attention("flex", params=params, dtype="bf16" if mask == "document" else "fp32"))
    assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"
    assert reply.proof is not None
    assert reply.proof.verdict == "proved"


@pytest.mark.parametrize("mask", CASES)
def test_dropout_is_checked_under_every_mask(tmp_path: Path, mask: str) -> None:
    reply = answer(tmp_path, attention("eager", params={**CASES[mask], "dropout": 0.25}))
    assert reply.status is Status.OK, reply.reason
    assert "dropout_rate" in {check.tensor for check in reply.checks}


@pytest.mark.parametrize("mask", CASES)
def test_a_kernel_that_ignores_the_mask_is_incorrect(tmp_path: Path, mask: str) -> None:
    blind = (
        "    import dataclasses\n"
        "    spec = dataclasses.replace(spec, mask='causal', window=None, document_lengths=None)\n"
        "    return eager.builder(spec)"
    )
    path = plugin(tmp_path, "blind", blind)
    reply = answer(tmp_path, attention("blind", params=CASES[mask]), plugins=(path,))
    assert reply.status is Status.INCORRECT
    assert {check.at for check in reply.checks if not check.passed} == {"small"}


def rows_by_document(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **given: Any) -> torch.Tensor:
    """FlashAttention's interface for variable lengths, in plain PyTorch: each document alone."""
    starts = given["cu_seqlens_q"]
    assert starts.dtype is torch.int32
    assert torch.equal(starts, given["cu_seqlens_k"])
    assert given["max_seqlen_q"] == given["max_seqlen_k"] == int(starts.diff().max())
    outs = []
    for start, end in itertools.pairwise(starts.tolist()):
        one = [tensor[start:end].transpose(0, 1)[None] for tensor in (q, k, v)]
        out = torch.nn.functional.scaled_dot_product_attention(*one, is_causal=True, enable_gqa=True)
        outs.append(out[0].transpose(0, 1))
    return torch.cat(outs)


def test_packed_rows_give_the_attention_of_the_reference_without_a_copy() -> None:
    of = spec(mask="document", document_lengths=(2, 4, 1))
    inputs = WORKLOAD.make_inputs(of, "cpu", torch.Generator().manual_seed(1))
    seen: list[torch.Tensor] = []

    def kernel(*rows: torch.Tensor, **given: Any) -> torch.Tensor:
        seen.extend(rows)
        return rows_by_document(*rows, **given)

    out = packed(kernel, of)(inputs["q"], inputs["k"], inputs["v"])
    torch.testing.assert_close(out, WORKLOAD.reference(of, inputs, {})["out"])
    assert out.transpose(1, 2).is_contiguous()
    assert [rows.data_ptr() for rows in seen] == [inputs[name].data_ptr() for name in ("q", "k", "v")]


def test_documents_with_more_keys_than_queries_are_refused() -> None:
    with pytest.raises(Unsupported, match="as many keys as queries"):
        packed(rows_by_document, spec(seq_len=3, mask="document", document_lengths=(2, 4, 1)))


def suite(**sweep: Any) -> Suite:
    data = {
        "schema": 1,
        "name": "masks",
        "question": "What do masks cost?",
        "workload": "attention",
        "subjects": {"attention": ["eager"]},
        "sweep": {"model": ["tiny"], "seq_len": [64], "dtype": ["fp32"], "pass": ["forward"], **sweep},
    }
    return suite_from_data(data, load_catalogue())


def cases_of(of: Suite, *filters: str) -> tuple[Case, ...]:
    return expand(of, load_catalogue(), device="cpu", filters=parse_filters(filters)).cases


def test_a_swept_window_multiplies_no_case_of_another_mask() -> None:
    cases = cases_of(suite(mask=["causal", "sliding_window", "document"], window=[4, 16], documents=[2, 4]))
    told = [{k: v for k, v in case.params.items() if k in ("mask", "window", "documents")} for case in cases]
    assert told == [
        {"mask": "causal"},
        {"mask": "sliding_window", "window": 4},
        {"mask": "sliding_window", "window": 16},
        {"mask": "document", "documents": 2},
        {"mask": "document", "documents": 4},
    ]


def test_a_case_of_an_old_mask_has_the_key_that_it_had_before_there_were_windows() -> None:
    assert set(cases_of(suite(mask=["causal"]))[0].params) == {
        "model",
        "heads",
        "kv_heads",
        "head_dim",
        "seq_len",
        "batch",
        "mask",
        "dropout",
    }


def test_a_filter_of_a_window_leaves_only_cases_that_have_it() -> None:
    cases = cases_of(suite(mask=["causal", "sliding_window"], window=[4, 16]), "window=16")
    assert [case.params["window"] for case in cases] == [16]


def test_each_row_of_a_swept_window_has_the_command_that_leaves_it_alone() -> None:
    swept = suite(mask=["causal", "sliding_window"], window=[4, 16])
    cases = cases_of(swept)
    assert len(cases) == 3
    for case in cases:
        assert cases_of(swept, *case_filters(case, swept)) == (case,)


def test_a_rule_about_a_window_leaves_the_cases_that_have_none() -> None:
    data = suite(mask=["causal", "sliding_window"], window=[4, 16]).to_data()
    ruled = suite_from_data({**data, "exclude": [{"window": {"ne": 4}}]}, load_catalogue())
    assert [case.params.get("window") for case in cases_of(ruled)] == [None, 4]
