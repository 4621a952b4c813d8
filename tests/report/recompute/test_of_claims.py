"""A page of claims is judged again from the medians inside it, and an edit of what it prints is named."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import pytest

from bench.judge.claim_numbers import Row
from bench.judge.claim_records import Finding
from bench.judge.claims import judge_claims
from bench.report.outputs.claims import claims_page, packed_claims_page
from bench.report.outputs.folded import PLACE, unfolded
from bench.report.recompute.embedded import FINDINGS, element, stated_rows
from bench.report.recompute.of_claims import WORDS, claims_data, verify_claims
from bench.store.page_data import NoPage
from tests.judge.test_claims import claim, rows

TIMED = [*rows([0.0100, 0.0101, 0.0102]), *rows([0.0050, 0.0050, 0.0051], "flex"), *rows([0.001], seq_len=2048)]
CLAIMS = (
    claim(),
    claim(id="ratio", kind="ratio", unit="×", expected=3.0, by={"over": "flex"}, differs="another clock"),
    claim(id="one-process", by={"where": {"seq_len": 2048}}),
    claim(id="absent", by={"of": "nobody"}),
    claim(id="elsewhere", carries_over_to=["H100 SXM"]),
)
FOUND = judge_claims(CLAIMS, TIMED)


def made(findings: tuple[Finding, ...] = FOUND, of: list[Row] = TIMED) -> str:
    return claims_page(findings, element(FINDINGS, claims_data(findings, of)))


def test_every_claim_with_a_number_is_held_and_the_others_are_counted() -> None:
    found = verify_claims(made())
    assert found.agrees
    assert {count for what, count in found.stated.items() if what != WORDS} == {4}
    assert found.agreed == found.stated
    assert found.not_recomputed[0].startswith("1 claims that no number")


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ('<h2 class="not">Not reproduced', '<h2 class="reproduced">Reproduced', "verdicts"),
        (">10.1 ms<", ">10.2 ms<", "our numbers with interval and n"),
        ("n = 3, H200 SXM", "n = 5, H200 SXM", "our numbers with interval and n"),
        (">10 ms</td>", ">11 ms</td>", "claimed numbers"),
        ("another clock", "no reason", "reasons"),
    ],
)
def test_an_edit_is_named_with_its_claim(old: str, new: str, what: str) -> None:
    page = made()
    assert old in page
    found = verify_claims(page.replace(old, new, 1))
    assert not found.agrees
    assert {one[0] for one in found.differences} == {what}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Of 5 claims", "Of 9 claims"),
        (">theirs<", ">ours<"),
        (">Not reproduced: ", ">Not reproduced: 7"),
        ("not measured", "measured"),
        ("bench run ", "mine run "),
        ("<title>Published", "<title>My"),
        ('<tr id="absent"', '<tr hidden id="absent"'),
        ("</main>", "<p>All claims hold.</p></main>"),
    ],
)
def test_words_around_the_numbers_and_claims_without_one_are_held_as_the_data_repeat_them(old: str, new: str) -> None:
    page = made()
    assert old in page
    found = verify_claims(page.replace(old, new, 1))
    assert {one[0] for one in found.differences} == {WORDS}
    assert found.agreed[WORDS] < found.stated[WORDS]


def test_a_page_that_repeats_no_claim_without_a_number_is_held_by_its_numbers() -> None:
    told = claims_data(FOUND, TIMED)
    older = claims_page(FOUND, element(FINDINGS, {name: told[name] for name in ("claims", "rows")}))
    found = verify_claims(older)
    assert found.agrees
    assert WORDS not in found.stated
    assert "all around them" in found.not_recomputed[-1]


def test_a_claim_that_was_taken_out_is_missed() -> None:
    page = made()
    begin = page.index('<tr id="ratio"')
    found = verify_claims(page[:begin] + page[page.index("</tr>", begin) + 5 :])
    assert found.missing == ("ratio",)
    assert not found.agrees


def test_a_number_that_does_not_follow_of_the_rows_at_hand_is_not_told_as_if_it_did() -> None:
    assert [one["claim"]["id"] for one in claims_data(FOUND, TIMED[:2])["claims"]] == []
    assert [one["claim"]["id"] for one in claims_data(FOUND, TIMED[:3])["claims"]] == ["one", "elsewhere"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda page: page.replace('id="findings">', 'id="findings">!'), "cannot be unpacked"),
        (lambda page: page + page[page.index("<script") :], "twice"),
        (lambda page: page[: page.index("</script>")], "cut off"),
        (lambda _: element(FINDINGS, {"claims": [{"claim": {}, "rows": []}], "rows": []}), "no claims"),
        (lambda _: element(FINDINGS, {"claims": [{"claim": {"id": "a"}, "rows": ["b"]}], "rows": []}), "no claims"),
        (lambda page: page.replace('<tr id="ratio"', '<tr data-q="one"><td></tr><tr id="ratio"', 1), "states 'one' twice"),
    ],
)
def test_a_page_that_does_not_fit_together_is_refused_in_words(change: Callable[[str], str], words: str) -> None:
    with pytest.raises(NoPage, match=words):
        verify_claims(change(made()))


def test_a_packed_page_keeps_the_first_verdict_open_agrees_and_an_edit_of_what_is_packed_is_found() -> None:
    page = made(FOUND)
    small = packed_claims_page(page)
    heads = re.findall("<h2.*?</h2>", page)
    assert len(heads) > 2
    assert all(re.sub('"', "", head) in small.replace('"', "") for head in heads)
    assert small.count("<table") == 1
    assert small.count(PLACE) >= len(heads) - 1
    assert verify_claims(small) == verify_claims(page)
    whole = unfolded(small)
    reason = next(finding.why for finding in reversed(FOUND) if html.escape(finding.why) in whole)
    edited = packed_claims_page(page.replace(html.escape(reason), "because", 1))
    assert not verify_claims(edited).agrees


def test_words_of_others_stay_words_in_the_data_and_in_the_table() -> None:
    hostile = "</script><script>alert(1)</script>"
    page = made(judge_claims([claim(says=hostile, differs=hostile)], TIMED))
    assert page.count("<script") == 2  # the data, and what puts packed parts back
    assert stated_rows(page)["one"][5].endswith(hostile)
    assert verify_claims(page).agrees
