"""Filters as they are typed: an axis, and the values of it that are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.catalogue.names import shown
from bench.errors import Problem, SuiteError
from bench.records import Case, Scalar
from bench.suite.overlay import split_list


@dataclass(frozen=True, slots=True)
class Filter:
    """An axis and the values of it that are wanted, as typed."""

    axis: str
    values: tuple[str, ...]

    def holds(self, case: Case) -> bool:
        """Whether a case has one of the values, as it is spelled here; one without the axis has none."""
        try:
            value = case.axis_value(self.axis)
        except KeyError:
            return False
        return spelled(value) in self.values


def spelled(value: Scalar) -> str:
    """A case's value of an axis as a filter is typed."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse_filters(texts: Sequence[str]) -> tuple[Filter, ...]:
    """`k=v` and `k=v1,v2`: several keys must all hold, several values of one key (also in several texts) are alternatives."""
    wanted: dict[str, list[str]] = {}
    problems = []
    for text in texts:
        axis, equals, values_text = text.partition("=")
        values = split_list(values_text)
        if not axis.strip() or not equals or not all(values):
            problems.append(Problem(f"write axis=value or axis=value1,value2, not {shown(text)}", "--filter"))
            continue
        wanted.setdefault(axis.strip(), []).extend(values)
    if problems:
        raise SuiteError(problems)
    return tuple(Filter(axis, tuple(dict.fromkeys(values))) for axis, values in wanted.items())
