"""A page and a table of claims: the same bytes each time, and nothing in a claim's words becomes markup."""

from __future__ import annotations

from bench.judge.claim_records import Bounds, Claim, Finding, Measured, Ours, Word
from bench.report.outputs.claims import claims_markdown, claims_page, expected_words, headline, rows_of

BY = Measured(suite="attention", metric="time_s", of="eager")


def claim(**changes: object) -> Claim:
    said = {
        "id": "one", "says": "<b>10 ms</b> | fast", "source": "a page", "made_on": "H100", "configuration": "as there", "kind": "figure",
        "unit": "ms", "expected": 10.0, "measured_by": BY,
    }  # fmt: skip
    return Claim.model_validate({**said, **changes})


OURS = Ours(0.0102, 0.0101, 0.0103, 0.99, 3, False, "H200 SXM", ("row-1", "row-2", "row-3"), "bench run suites/attention.yaml")
FINDINGS = (
    Finding(claim(), Word.REPRODUCED, "as claimed", OURS),
    Finding(claim(id="two"), Word.NOT_REPRODUCED, "more than claimed", OURS, more=True),
    Finding(claim(id="three"), Word.NOT_COMPARABLE, "not measured", measure="bench run suites/attention.yaml --profile published"),
)


def test_a_number_stands_in_the_unit_of_the_claim_with_its_interval() -> None:
    row = rows_of(FINDINGS)[0]
    assert (row.theirs, row.ours, row.interval, row.n, row.rows) == ("10 ms", "10.2 ms", "10.1–10.3 (99 %)", "3", 3)
    assert rows_of(FINDINGS)[2].missing == "bench run suites/attention.yaml --profile published"


def test_expectations_that_are_no_number_are_words() -> None:
    assert expected_words(claim(expected=Bounds(at_least=100, at_most=1000), unit="µs")) == "100 to 1000 µs"
    assert expected_words(claim(expected=Bounds(at_most=2), unit="%")) == "at most 2 %"
    order = claim(kind="ordering", expected="higher", measured_by=Measured(suite="s", metric="accuracy", of="QAT", over="PTQ"))
    assert expected_words(order) == "QAT higher than PTQ"


def test_an_exponent_says_that_it_is_one() -> None:
    along = Measured(suite="attention", metric="peak_bytes", of="eager", along="seq_len")
    grows = claim(kind="exponent", unit="×", expected=Bounds(at_least=0.8, at_most=1.1), measured_by=along)
    row = rows_of([Finding(grows, Word.REPRODUCED, "as claimed", Ours(0.96, 0.94, 0.99, 0.95, 5))])[0]
    assert (row.theirs, row.ours, row.interval) == ("exponent 0.8 to 1.1", "exponent 0.96", "0.94 – 0.99 (95 %)")


def test_the_first_sentence_counts_what_was_judged() -> None:
    assert headline(FINDINGS) == (
        "Of 3 claims 2 can be judged here: 1 reproduced, 1 not reproduced (1 of them because ours is more than claimed), 0 can't be told"
    )


def test_the_page_has_each_claim_and_takes_no_word_for_markup() -> None:
    page = claims_page(FINDINGS)
    assert page == claims_page(FINDINGS)
    assert "<b>10 ms" not in page
    assert page.count("&lt;b&gt;10 ms") == 3
    assert "http://" not in page
    assert "https://" not in page
    assert "row-1</code> and 2 more" in page


def test_a_claim_can_not_end_a_cell_of_the_table() -> None:
    table = claims_markdown(FINDINGS)
    lines = [line for line in table.splitlines() if line.startswith("| ") and "---" not in line]
    assert len(lines) == 4
    assert len({line.replace("\\|", "").count("|") for line in lines}) == 1
    assert "bench run suites/attention.yaml --profile published" in table.split("```")[1]


def test_what_is_computed_is_marked_so() -> None:
    computed = Finding(claim(), Word.REPRODUCED, "as claimed", Ours(0.01, 0.01, 0.01, None, 0, computed=True))
    assert (rows_of([computed])[0].n, rows_of([computed])[0].interval) == ("computed", "–")
    assert ">computed<" in claims_page([computed])
