"""Claims judged again from the medians inside their page, and held against what it prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from bench.judge.claim_numbers import Row, needed
from bench.judge.claim_records import Claim, Finding
from bench.judge.claims import judge_claim
from bench.records import Environment, Json, Measurement, Result, Trial, dump, load
from bench.report.outputs.claims import COMPUTED, rows_of
from bench.report.outputs.claims import Row as Line
from bench.report.recompute.embedded import FINDINGS, Checked, data_of, stated_rows
from bench.stats import median

KINDS = ("verdicts", "claimed numbers", "our numbers with interval and n", "reasons")


def claims_data(findings: Sequence[Finding], rows: Sequence[Row]) -> dict[str, Json]:
    """Each claim that has a number of ours, with the medians that it follows of; left out where it does not follow of them alone."""
    by_id = {row.result.id: row for row in rows}
    slim: dict[str, Row] = {}
    told = []
    for finding in findings:
        if finding.ours is None:
            continue
        own = [slim.setdefault(ident, _slim(by_id[ident])) for ident in finding.ours.rows if ident in by_id]
        kept = [_with(row, by_id[row.result.id], finding.claim) for row in own]
        slim |= {row.result.id: row for row in kept}
        if _same(judge_claim(finding.claim, kept), finding):
            told.append(
                {"claim": finding.claim.model_dump(mode="json", exclude_defaults=True), "rows": [row.result.id for row in kept]}
            )
    return {"claims": told, "rows": [dump(row) for row in slim.values()]}


def verify_claims(page: str) -> Checked:
    """Holds a page of claims against its data. Raises NoPage."""
    from bench.store.page_data import NoPage

    data = data_of(page, FINDINGS)
    try:
        rows = {row.result.id: row for row in (load(Row, one) for one in data["rows"])}
        found = [judge_claim(Claim.model_validate(one["claim"]), [rows[ident] for ident in one["rows"]]) for one in data["claims"]]
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise NoPage(f"the data inside the page are no claims ({' '.join(str(error).split())[:200]})") from error
    return _held(found, stated_rows(page))


def _held(found: Sequence[Finding], printed: Mapping[str, Sequence[str]]) -> Checked:
    stated: Counter[str] = Counter()
    agreed: Counter[str] = Counter()
    differences = []
    for line in rows_of(found):
        own = printed.get(line.id)
        if own is None:
            continue
        for what, expected, told in zip(KINDS, _words(line), _printed(own), strict=True):
            stated[what] += 1
            agreed[what] += expected == told
            if expected != told:
                differences.append((what, line.id, told, expected))
    missing = tuple(finding.claim.id for finding in found if finding.claim.id not in printed)
    others = len(printed.keys() - {finding.claim.id for finding in found})
    not_recomputed = (f"{others} claims that no number inside the page answers",) if others else ()
    return Checked("claims", stated, agreed, tuple(differences), missing, (*not_recomputed, "sources, places and commands"))


def _words(line: Line) -> tuple[str, ...]:
    """What the cells of a claim have to say, kind by kind."""
    n = COMPUTED if line.n == COMPUTED else f"n = {line.n}{f', {line.device}' if line.device else ''}"
    ours = " ".join(part for part in (line.ours, line.interval if line.interval != "–" else "", n if line.n != "–" else "") if part)
    return line.word, line.theirs, ours, " ".join(f"{line.why} {line.differs}".split())


def _printed(cells: Sequence[str]) -> tuple[str, ...]:
    """The same of a row of the page below its heading: claim, source, theirs, ours, why, row."""
    heading, _, _, theirs, ours, why, *_ = (*cells, *[""] * 7)
    return heading.rpartition(":")[0].lower(), theirs, ours, why


def _same(again: Finding, finding: Finding) -> bool:
    return rows_of([again])[0] == replace(rows_of([finding])[0], missing=rows_of([again])[0].missing)


def _slim(row: Row) -> Row:
    """Of a row what judging a claim looks at, without its numbers."""
    result = row.result
    run = replace(row.run, suite_data={}, options={}, question="", command="")
    told = {name: result.conditions[name] for name in ("gpu_uuid", "launch_bound") if name in result.conditions}
    trial = Trial(result.case, result.trial.index, 0, 0, result.trial.arm)
    made = Result(
        id=result.id, run_id=run.id, trial=trial, status=result.status, reason=result.reason,
        environment=Environment(result.environment.hard, {}), started_at=result.started_at, duration_s=None, seed=None,
        command=result.command, cost=result.cost, conditions=told, method_version=result.method_version,
        harness_version=result.harness_version,
    )  # fmt: skip
    return Row(run, row.label, made)


def _with(slim: Row, row: Row, claim: Claim) -> Row:
    """With the medians of the metrics that a claim needs."""
    there = {one.metric for one in slim.result.measurements}
    found = [one for name in needed([claim]) if name not in there and (one := row.result.measurement(name)) is not None]
    added = tuple(Measurement(one.metric, one.unit, (median(one.samples),)) for one in found)
    return replace(slim, result=replace(slim.result, measurements=(*slim.result.measurements, *added)))
