"""A mistake on the command line: it is told first, with what was meant, and without what merely follows from it."""

from __future__ import annotations

import pytest

from bench.errors import SuiteError
from tests.suite.conftest import Load


def mistakes(load: Load, *sets: str) -> list[str]:
    with pytest.raises(SuiteError) as caught:
        load(baseline={"attention": "sdpa_flash"}, sets=sets)
    return str(caught.value).splitlines()


@pytest.mark.parametrize("named", ["sdpa_flsh", "eager,sdpa_flsh", "sdpa_flsh,eager"])
def test_a_misspelled_subject_is_no_complaint_about_the_baseline_of_the_file(load: Load, named: str) -> None:
    (said,) = mistakes(load, f"attention={named}")
    assert said.startswith("--set: attention")
    assert said.endswith("(did you mean 'sdpa_flash'?)")


def test_what_was_typed_comes_before_what_stands_in_the_file(load: Load) -> None:
    with pytest.raises(SuiteError) as caught:
        load(threads="many", sets=("attention=egar",))
    typed, written = str(caught.value).splitlines()
    assert (typed.startswith("--set: attention: unknown implementation 'egar'"), "threads" in written) == (True, True)


def test_subjects_that_leave_the_baseline_of_the_file_out_say_what_to_type(load: Load) -> None:
    (said,) = mistakes(load, "attention=eager")
    assert said.endswith(
        "'sdpa_flash' is not among the subjects (eager); add --set baseline.attention=eager, or --set baseline=null for none"
    )
    for more in ("baseline.attention=eager", "baseline=null"):
        assert load(baseline={"attention": "sdpa_flash"}, sets=("attention=eager", more)).subjects == {"attention": ("eager",)}


def test_a_name_of_another_slot_is_told_with_that_slot_and_not_as_a_misspelling(load: Load) -> None:
    (said,) = mistakes(load, "attention=torch_copy")
    assert "unknown implementation 'torch_copy'; known: " in said
    assert said.endswith("; 'torch_copy' is one of copy")
    (said,) = mistakes(load, "attention=liger")
    assert said.endswith(" slots more")


@pytest.mark.parametrize(("typed", "meant"), [("lama", "llama-2-7b"), ("Gema", "gemma-2-9b"), ("llama3-8b", "llama-3-8b")])
def test_the_family_of_a_model_is_enough_to_say_which_was_meant(load: Load, typed: str, meant: str) -> None:
    (said,) = mistakes(load, f"model={typed}")
    assert said.startswith(f"--set: model: unknown model '{typed}'")
    assert said.endswith(f"(did you mean '{meant}'?)")


def test_what_is_like_no_model_is_taken_for_none(load: Load) -> None:
    for typed in ("quick", "deep", "tin", "gpt"):
        (said,) = mistakes(load, f"model={typed}")
        assert ("did you mean" in said) == (typed == "tin"), said
