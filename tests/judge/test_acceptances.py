"""What is accepted fails no job until its end, and only as far as it was accepted."""

from __future__ import annotations

import dataclasses

import pytest

from bench.errors import SelectionError
from bench.judge.acceptances import acceptance_of, apply_acceptances, resolve_baseline
from bench.judge.verdict import Kind, Ratio, Series, SideReading, Verdict, Word
from bench.store import Acceptance, Baseline
from tests import factories

NOW, LATER = "2026-02-01T00:00:00+00:00", "2026-03-01T00:00:00+00:00"


def verdict(word: Word = Word.WORSE, ratio: float | None = 1.2) -> Verdict:
    case = factories.case()
    series = Series(case, case.key, "time_s" if ratio else "status", "hard", 1)
    kind = Kind.VALUE if ratio else Kind.STATUS
    side = SideReading(5, 1e-3, "5 ok")
    return Verdict(series, word, kind, "because", side, side, Ratio(ratio) if ratio else None)


def accepted(of: Verdict, **changes: str) -> Acceptance:
    given = {"author": "a person", "reason": "the price of a fix", "now": NOW, "expires_at": LATER, **changes}
    return acceptance_of(of, **given)


@pytest.mark.parametrize("of", [verdict(), verdict(Word.MISSING, None), verdict(Word.WORSE, None)])
def test_an_accepted_row_keeps_its_verdict_counts_no_more_and_says_who_accepted_it(of: Verdict) -> None:
    (found,) = apply_acceptances([of], [accepted(of)], now=NOW)
    assert (found.word, found.counts) == (of.word, False)
    assert found.accepted == "accepted until 2026-03-01 by a person on 2026-02-01: the price of a fix"


def test_after_its_end_it_comes_back_and_says_that_it_was_accepted() -> None:
    (found,) = apply_acceptances([verdict()], [accepted(verdict())], now=LATER)
    assert (found.counts, found.accepted, "which is over" in found.notes[-1]) == (True, None, True)


def test_what_is_worse_than_what_was_accepted_counts() -> None:
    rows = [verdict(ratio=1.25), verdict(ratio=1.3)]
    assert [row.counts for row in apply_acceptances(rows, [accepted(verdict())], now=NOW)] == [False, True]


def test_another_series_and_another_word_are_not_covered() -> None:
    other = dataclasses.replace(verdict(), series=dataclasses.replace(verdict().series, metric="peak_bytes"))
    gone = dataclasses.replace(verdict(), word=Word.MISSING)
    assert all(row.counts for row in apply_acceptances([other, gone], [accepted(verdict())], now=NOW))


@pytest.mark.parametrize(
    ("of", "changes"),
    [
        (verdict(Word.SAME), {}),
        (verdict(), {"author": " "}),
        (verdict(), {"reason": ""}),
        (verdict(), {"expires_at": NOW}),
    ],
)
def test_what_cannot_be_accepted_is_refused_in_words(of: Verdict, changes: dict[str, str]) -> None:
    with pytest.raises(SelectionError):
        accepted(of, **changes)


def test_a_baseline_past_its_end_is_refused_and_an_unknown_one_is_none() -> None:
    lasting = Baseline("release", "run-1", "a person", "1.0", NOW)
    ended = Baseline("old", "run-1", "a person", "0.9", NOW, LATER)
    assert resolve_baseline([lasting, ended], "release", now=LATER) is lasting
    assert resolve_baseline([lasting, ended], "other", now=LATER) is None
    with pytest.raises(SelectionError, match="baseline set old"):
        resolve_baseline([lasting, ended], "old", now=LATER)
