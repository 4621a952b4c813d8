"""Computes the numbers of a page again, from the trial medians inside it, and holds them against what the page prints.

What is compared is what a reader sees, as text: a page agrees where every marked element says what follows from its data. Whether the data
themselves are those that were measured, only the database can tell. A page that shows fewer cases than its data hold does not agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from bench.lang.pages import language_of, page_in_english
from bench.report.outputs.folded import unfolded
from bench.report.recompute.frame import frame
from bench.report.recompute.recomputed import Recomputed
from bench.report.recompute.stated import KINDS, OF_ONE_CASE
from bench.report.recompute.statements import statements
from bench.store.page_data import NoPage, PageData, read_page_data

ORDER = ("ratios", "verdicts with their intervals", "counts of verdicts", "sentences", "values", "ranges", "rates and shares")
"""What comes first, where it is there."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A statement that does not follow from the data."""

    what: str
    """`ratios`, `intervals` …"""
    where: str
    """Case, metric and run in words."""
    printed: str
    computed: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What came out: by kind how many statements there are and how many agree, and those that don't."""

    page: PageData
    stated: Mapping[str, int]
    agreed: Mapping[str, int]
    differences: tuple[Difference, ...]
    unstated: tuple[str, ...]
    """Cases with numbers in the data that no statement of the page is of."""
    unsaid: tuple[str, ...]
    """What the page would have to say in words, and does not."""
    unlike: tuple[str, ...] | None = None
    """What looks otherwise than this version writes it; None where that was not looked at, since numbers differ already."""

    @property
    def agrees(self) -> bool:
        return not self.differences and not self.unstated and not self.unsaid


def verify_page(text: str) -> Verification:
    """Verifies the text of a page. Raises NoPage for what is none. What is packed is put back, and another language read back, first."""
    text = unfolded(text)
    page = read_page_data(text)
    own = language_of(text)
    whole, text = text, text if own is None else page_in_english(text, own)
    again = Recomputed(page)
    found: Counter[str] = Counter()
    agreed: Counter[str] = Counter()
    differences: list[Difference] = []
    seen: set[int] = set()
    for statement in statements(text):
        if statement.kind not in KINDS:
            raise NoPage(f"a statement of the unknown kind {statement.kind!r}: install a newer bench")
        if statement.kind in OF_ONE_CASE:
            seen.update(statement.cases)
        for held in again.held(statement):
            found[held.what] += 1
            if held.case is not None:
                seen.add(held.case)
            agreed[held.what] += held.agrees
            if not held.agrees:
                where = again.where(statement) if held.case is None else again.name(held.case)
                differences.append(
                    Difference(held.what, where, statement.text if held.printed is None else held.printed, held.expected)
                )
    unstated = tuple(again.name(place) for place in again.to_be_shown() if place not in seen) if found else ()
    order = {what: found[what] for what in (*(what for what in ORDER if found[what]), *sorted(found))}
    unsaid = tuple(again.unsaid()) if found else ()
    if not found or differences or unstated or unsaid:
        return Verification(page, order, agreed, tuple(differences), unstated, unsaid)
    around = frame(whole, own)
    wrong = Counter(what for what, *_ in around.differences)
    stated = {what: count for what, count in around.stated.items() if count}
    agreed.update({what: max(count - wrong[what], 0) for what, count in stated.items()})
    return Verification(page, order | stated, agreed, tuple(Difference(*one) for one in around.differences), (), (), around.unlike)
