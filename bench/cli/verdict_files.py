"""A comparison for programs: JSON with everything in it, and JUnit for what shows test results."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from bench.cli.verdicts import alarm_lines, counts_by_word, row_namer, side_line
from bench.plaintext import plain

if TYPE_CHECKING:
    from bench.judge.answer import Answer
    from bench.judge.compare import Comparison
    from bench.judge.evidence import Evidence
    from bench.judge.verdict import Series, Verdict

SCHEMA = 1
"""Raised when a key of the JSON changes its meaning or goes."""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def comparison_data(comparison: Comparison, answer: Answer) -> dict[str, Any]:
    """JSON-ready data: seconds, bytes, ratios of second over first."""
    from bench.judge.verdict import JUDGING_VERSION

    return {
        "schema": SCHEMA,
        "judging_version": JUDGING_VERSION,
        "exit_code": answer.exit_code,
        "why": answer.why,
        "words": dict(comparison.count()),
        "verdicts": counts_by_word(comparison.verdicts),
        "first": _side(comparison.first),
        "second": _side(comparison.second),
        "banners": list(comparison.banners),
        "news": list(comparison.news),
        "environment": [asdict(difference) for difference in comparison.environment],
        "mass_shift": asdict(comparison.mass_shift) if comparison.mass_shift else None,
        "totals": [asdict(total) for total in comparison.totals],
        "rows": [verdict_data(verdict) for verdict in comparison.verdicts],
        "canaries": [verdict_data(verdict) for verdict in comparison.canaries],
        "waiting": [{**_series_data(waiting.series), "last_judged": waiting.last_judged} for waiting in comparison.waiting],
    }


def unjudged_data(exit_code: int, why: str, banners: Sequence[str]) -> dict[str, Any]:
    """What stands in place of a comparison where nothing was compared: the same keys, with nothing in them but why."""
    from bench.judge.verdict import JUDGING_VERSION

    told = {"schema": SCHEMA, "judging_version": JUDGING_VERSION, "exit_code": exit_code, "why": why, "words": {}, "verdicts": {}}
    nothing = {"first": None, "second": None, "banners": list(banners), "news": [], "environment": [], "mass_shift": None}
    return {**told, **nothing, "totals": [], "rows": [], "canaries": [], "waiting": []}


def _side(evidence: Evidence) -> dict[str, Any]:
    return {
        "name": evidence.name,
        "runs": [run.id for run in evidence.runs],
        "suite": evidence.runs[0].suite,
        "started_at": evidence.runs[0].started_at,
        "states": [str(run.state) for run in evidence.runs],
        "revision": [asdict(item) for item in evidence.runs[0].revision],
        "trials": len(evidence.trials),
        "excluded": evidence.excluded,
    }


def verdict_data(verdict: Verdict) -> dict[str, Any]:
    """One row, with the series that `bench history` takes."""
    data = asdict(verdict)
    del data["series"]
    return {**_series_data(verdict.series), "reader_word": verdict.reader_word, **data}


def _series_data(series: Series) -> dict[str, Any]:
    return {
        "series": series.key,
        "workload": series.case.workload,
        "subject": dict(series.case.subject),
        "point": series.case.point_data(),
        "case_key": series.case_key,
        "arm": series.arm,
        "metric": series.metric,
        "method_version": series.method_version,
    }


def as_junit(comparison: Comparison, answer: Answer) -> str:
    """A test case a row: worse is a failure, what stopped running an error, what can't be told skipped. Nothing compared is an error."""
    from bench.judge.answer import COULD_NOT_JUDGE, SOMETHING_WORSE

    name = row_namer(verdict.series.case for verdict in comparison.verdicts)
    suite = ElementTree.Element("testsuite", name=_xml(f"bench: {comparison.first.name} and {comparison.second.name}"))
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for verdict in comparison.verdicts:
        series = verdict.series
        case = ElementTree.SubElement(
            suite, "testcase", classname=_xml(series.case.workload), name=_xml(f"{name(series.case)} {series.metric}")
        )
        counts["tests"] += 1
        kind = _element(verdict, ambiguous_fails=answer.exit_code == SOMETHING_WORSE and not _any_worse(comparison))
        if kind is not None:
            counts[{"failure": "failures", "error": "errors", "skipped": "skipped"}[kind]] += 1
            element = ElementTree.SubElement(case, kind, message=_xml(_message(verdict)))
            if alarm := alarm_lines(verdict, name(series.case)):
                element.text = "\n".join(map(_xml, alarm))
    if answer.exit_code == COULD_NOT_JUDGE:
        counts["tests"] += 1
        counts["errors"] += 1
        case = ElementTree.SubElement(suite, "testcase", classname="bench", name="could be judged")
        ElementTree.SubElement(case, "error", message=_xml(answer.why))
    suite.attrib.update({key: str(value) for key, value in counts.items()})
    properties = ElementTree.Element("properties")
    for key, value in _properties(comparison).items():
        ElementTree.SubElement(properties, "property", name=key, value=_xml(value))
    suite.insert(0, properties)
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _any_worse(comparison: Comparison) -> bool:
    from bench.judge.answer import is_worse

    return any(is_worse(verdict) for verdict in comparison.verdicts)


def _element(verdict: Verdict, *, ambiguous_fails: bool) -> str | None:
    from bench.judge.answer import is_worse
    from bench.judge.verdict import CANNOT_TELL, DID_NOT_RUN, Kind, Word

    if is_worse(verdict):
        return "error" if verdict.kind is Kind.STATUS else "failure"
    if ambiguous_fails and verdict.word in (Word.AMBIGUOUS, Word.INSUFFICIENT):
        return "failure"
    if verdict.accepted is not None:
        return "skipped"
    return "skipped" if verdict.reader_word in (CANNOT_TELL, DID_NOT_RUN) else None


def _message(verdict: Verdict) -> str:
    ratio = f"{verdict.ratio.value:.3f}x, " if verdict.ratio else ""
    accepted = (verdict.accepted,) if verdict.accepted else ()
    ended = f" ({verdict.first.outcome}; now {verdict.second.outcome})" if verdict.kind == "status" else ""
    return f"{verdict.word}: {ratio}{'; '.join((verdict.reason, *accepted, *verdict.notes))}{ended}"


def _properties(comparison: Comparison) -> Mapping[str, str]:
    banners = {f"banner {place}": text for place, text in enumerate(comparison.banners, start=1)}
    return {"first": side_line(comparison.first), "second": side_line(comparison.second), **banners}


def _xml(text: str) -> str:
    return _NOT_XML.sub("?", plain(text))
