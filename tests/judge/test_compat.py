"""Every two techniques are told apart: what works, learns something else, was not at work, is refused, or says nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from bench.catalogue import load_catalogue
from bench.judge.compat import Compatibility, Fit, compatibilities
from bench.records import Proof, Result, Status
from bench.suite import arms_of, load_suite
from tests import factories

DEFAULTS = {"attention": "eager", "linear": "plain", "adaptation": "full"}
SUITE: dict[str, Any] = {
    "defaults": DEFAULTS,
    "pairs": {
        "flash": {"attention": "sdpa_flash"},
        "lora": {"adaptation": "lora"},
        "nf4": {"linear": "nf4_bnb", "adaptation": "lora"},
        "float8": {"linear": "float8"},
    },
}


def row(status: Status = Status.OK, *, seq_len: int = 128, index: int = 0, attempt: int = 0, **fills: str) -> Result:
    case = dataclasses.replace(factories.case(seq_len=seq_len), subject={**DEFAULTS, **fills})
    made = factories.result(of=case, status=status, index=index, reason=None if status is Status.OK else "so it said")
    return dataclasses.replace(made, trial=dataclasses.replace(made.trial, attempt=attempt))


def matrix(*rows: Result) -> Compatibility:
    (found,) = compatibilities(SUITE, rows)
    return found


def test_each_part_stands_alone_and_with_each_after_it_in_the_suites_order() -> None:
    found = matrix(row())
    assert found.parts == ("flash", "lora", "nf4", "float8")
    assert [(cell.one, cell.two) for cell in found.cells[:5]] == [
        ("flash", "flash"), ("flash", "lora"), ("flash", "nf4"), ("flash", "float8"), ("lora", "lora"),
    ]  # fmt: skip
    assert len(found.cells) == 10
    assert found.cell("nf4", "flash") is found.cell("flash", "nf4")


def test_a_row_that_is_ok_works_and_one_that_is_missing_cannot_be_told() -> None:
    found = matrix(works := row(attention="sdpa_flash", adaptation="lora"))
    cell = found.cell("flash", "lora")
    assert (cell.word, cell.words, cell.result_id, cell.status) == (Fit.WORKS, None, works.id, Status.OK)
    missing = found.cell("flash", "float8")
    assert (missing.word, missing.result_id, missing.status, missing.alone) == (Fit.UNTOLD, None, None, ())


def test_wrong_numbers_are_a_wrong_loss_unless_the_proof_says_that_something_was_not_at_work() -> None:
    wrong = row(Status.INCORRECT, attention="sdpa_flash")
    idle = dataclasses.replace(row(Status.INCORRECT, adaptation="lora"), proof=Proof("disproved", (), "adaptation: no adapter"))
    found = matrix(wrong, idle)
    assert found.cell("flash", "flash").word is Fit.WRONG_LOSS
    assert found.cell("lora", "lora").word is Fit.NO_EFFECT


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (Status.UNSUPPORTED, Fit.REFUSES),
        (Status.FAILED, Fit.REFUSES),
        (Status.CRASHED, Fit.REFUSES),
        (Status.UNAVAILABLE, Fit.UNTOLD),
        (Status.OOM, Fit.UNTOLD),
        (Status.TIMEOUT, Fit.UNTOLD),
        (Status.INVALID, Fit.UNTOLD),
    ],
)
def test_what_refuses_has_its_words_and_what_is_absent_or_too_large_is_no_answer(status: Status, word: Fit) -> None:
    cell = matrix(row(status, linear="float8")).cell("float8", "float8")
    assert (cell.word, cell.words) == (word, "so it said")


def test_two_ways_to_fill_one_slot_are_either_or() -> None:
    assert matrix(row()).cell("nf4", "float8").word is Fit.ONE_SLOT


def test_a_part_that_holds_the_other_is_what_the_pair_is() -> None:
    found = matrix(row(linear="nf4_bnb", adaptation="lora"))
    assert found.cell("lora", "nf4").same_as == ("nf4",)
    assert found.cell("lora", "nf4").result_id == found.cell("nf4", "nf4").result_id
    assert found.cell("nf4", "nf4").same_as == ()


def test_a_pair_says_which_of_the_two_ends_so_alone() -> None:
    refused = [row(Status.UNSUPPORTED, attention="sdpa_flash"), row(Status.UNSUPPORTED, attention="sdpa_flash", adaptation="lora")]
    found = matrix(*refused, row(adaptation="lora"))
    assert found.cell("flash", "lora").alone == ("flash",)
    assert found.cell("flash", "flash").alone == ()


def test_of_several_trials_the_gravest_counts_and_rows_that_are_set_aside_do_not() -> None:
    bad = row(Status.INCORRECT, index=1, attention="sdpa_flash")
    assert matrix(row(attention="sdpa_flash"), bad).cell("flash", "flash").word is Fit.WRONG_LOSS
    excluded = dataclasses.replace(bad, excluded_reason="the cable was loose")
    assert matrix(row(attention="sdpa_flash"), excluded).cell("flash", "flash").word is Fit.WORKS
    anew = row(attempt=1, attention="sdpa_flash")
    assert matrix(bad, anew).cell("flash", "flash").result_id == anew.id


def test_there_is_a_matrix_for_each_point_and_none_without_pairs() -> None:
    rows = [row(seq_len=64), row(seq_len=128)]
    assert [found.point for found in compatibilities(SUITE, rows)] == [one.case.point_data() for one in rows]
    assert compatibilities({"defaults": DEFAULTS, "arms": [{}]}, rows) == ()
    assert compatibilities({"pairs": "nonsense"}, rows) == ()
    with pytest.raises(KeyError):
        matrix(row()).cell("flash", "liger")


def test_the_suite_of_this_repository_asks_about_ten_techniques_and_every_two_of_them() -> None:
    data = load_suite(Path(__file__).parents[2] / "suites" / "compat.yaml", load_catalogue()).to_data()
    rows = [factories.result(of=dataclasses.replace(factories.case(), subject=arm.subject)) for arm in arms_of(data)]
    (found,) = compatibilities(data, rows)
    assert found.parts == (
        "flash attention", "Liger", "checkpointing", "LoRA", "nf4", "int8", "8-bit optimizer", "float8", "QAT", "compile",
    )  # fmt: skip
    assert len(found.cells) == 10 + 45
    assert {(cell.one, cell.two) for cell in found.cells if cell.word is not Fit.WORKS} == {
        ("nf4", "int8"), ("nf4", "float8"), ("int8", "float8"),
    }  # fmt: skip
    assert {(cell.one, cell.two, *cell.same_as) for cell in found.cells if cell.same_as} == {
        ("LoRA", "nf4", "nf4"),
        ("LoRA", "int8", "int8"),
    }
