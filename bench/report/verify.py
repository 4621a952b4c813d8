"""Computes the numbers of a page again, from the trial medians inside it, and holds them against what the page prints.

What is compared is what a reader sees, as text: a page agrees where every marked element says what follows from its data. Whether the data
themselves are those that were measured, only the database can tell. A page that shows fewer cases than its data hold does not agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from bench.report.recomputed import Recomputed
from bench.report.stated import KINDS, OF_ONE_CASE
from bench.report.statements import statements
from bench.store.page_data import NoPage, PageData, read_page_data

ORDER = tuple(dict.fromkeys(("ratios", "intervals", "verdicts with their intervals", "verdicts", *KINDS.values())))


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

    @property
    def agrees(self) -> bool:
        return not self.differences and not self.unstated


def verify_page(text: str) -> Verification:
    """Verifies the text of a page. Raises NoPage for what is none."""
    page = read_page_data(text)
    again = Recomputed(page)
    found: Counter[str] = Counter()
    agreed: Counter[str] = Counter()
    differences: list[Difference] = []
    seen: set[int] = set()
    for statement in statements(text):
        what = KINDS.get(statement.kind)
        if what is None:
            raise NoPage(f"a statement of the unknown kind {statement.kind!r}: install a newer bench")
        found[what] += 1
        expected = again.words(statement)
        if statement.kind in OF_ONE_CASE:
            seen.update(statement.cases)
        if statement.text in expected:
            agreed[what] += 1
        else:
            differences.append(Difference(what, again.where(statement), statement.text, " or ".join(expected) or "no number"))
    unstated = tuple(again.name(place) for place in again.with_numbers() if place not in seen) if found else ()
    order = {what: found[what] for what in ORDER if found[what]}
    return Verification(page, order, agreed, tuple(differences), unstated)
