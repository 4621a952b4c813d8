"""Claims judged again from the medians inside their page, and held against what it prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from bench import __version__
from bench.judge.claim_numbers import Row, needed
from bench.judge.claim_records import Claim, Finding, Ours, Word
from bench.judge.claims import judge_claim
from bench.records import Environment, Json, Measurement, Result, Trial, dump, load
from bench.report.outputs.claims import COMPUTED, claims_page, rows_of
from bench.report.outputs.claims import Row as Line
from bench.report.recompute.aligned import differences, texts
from bench.report.recompute.embedded import FINDINGS, Checked, data_of, stated_rows
from bench.stats import median

WORDS = "words of all claims, and around them"
SOURCES = "whether sources say what they are said to say"
KINDS = ("verdicts", "claimed numbers", "our numbers with interval and n", "reasons")


def claims_data(findings: Sequence[Finding], rows: Sequence[Row]) -> dict[str, Json]:
    """Each claim that has a number of ours, with the medians that it follows of; left out where it does not follow of them alone."""
    by_id = {row.result.id: row for row in rows}
    slim: dict[str, Row] = {}
    told: list[Json] = []
    followed = set()
    for finding in findings:
        if finding.ours is None:
            continue
        own = [slim.setdefault(ident, _slim(by_id[ident])) for ident in finding.ours.rows if ident in by_id]
        kept = [_with(row, by_id[row.result.id], finding.claim) for row in own]
        slim |= {row.result.id: row for row in kept}
        if _same(judge_claim(finding.claim, kept), finding):
            followed.add(finding.claim.id)
            told.append(
                {"claim": finding.claim.model_dump(mode="json", exclude_defaults=True), "rows": [row.result.id for row in kept]}
            )
    return {
        "claims": told,
        "rows": [dump(row) for row in slim.values()],
        "others": [_other(finding) for finding in findings if finding.claim.id not in followed],
        "order": [finding.claim.id for finding in findings],
        "version": __version__,
    }


def _other(finding: Finding) -> dict[str, Json]:
    """A claim of which nothing follows here, as the page tells it."""
    told = dump(replace(finding, claim=None))  # type: ignore[arg-type]
    return {**told, "claim": finding.claim.model_dump(mode="json", exclude_defaults=True)}


def verify_claims(page: str) -> Checked:
    """Holds a page of claims against its data; what is packed is put back first. Raises NoPage."""
    from bench.report.outputs.folded import unfolded
    from bench.store.page_data import NoPage

    page = unfolded(page)
    data = data_of(page, FINDINGS)
    try:
        rows = {row.result.id: row for row in (load(Row, one) for one in data["rows"])}
        found = [judge_claim(Claim.model_validate(one["claim"]), [rows[ident] for ident in one["rows"]]) for one in data["claims"]]
        others = [_of_other(one) for one in data.get("others", ())]
        order = [str(ident) for ident in data.get("order", ())]
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise NoPage(f"the data inside the page are no claims ({' '.join(str(error).split())[:200]})") from error
    held = _held(found, stated_rows(page))
    all_of_them = {finding.claim.id: finding for finding in (*found, *others)}
    if not held.agrees or len(order) != len(all_of_them) or not all_of_them.keys() >= set(order):
        # Pages of older versions tell nothing of claims without a number.
        return held
    printed = texts(page)
    right = texts(claims_page([all_of_them[ident] for ident in order], "<i></i>", version=str(data.get("version"))))
    wrong = tuple((WORDS, *one) for one in differences(printed, right))
    return replace(
        held,
        stated={**held.stated, WORDS: len(right)},
        agreed={**held.agreed, WORDS: max(len(right) - len(wrong), 0)},
        differences=wrong,
        not_recomputed=(*held.not_recomputed[:-1], SOURCES),
    )


def _of_other(told: Mapping[str, Json]) -> Finding:
    ours = None if told["ours"] is None else load(Ours, told["ours"])
    more = told["more"] is True
    return Finding(
        Claim.model_validate(told["claim"]), Word(told["word"]), str(told["why"]), ours, _optional(told["measure"]), more
    )


def _optional(text: Json) -> str | None:
    return None if text is None else str(text)


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
    return Checked(
        "claims", stated, agreed, tuple(differences), missing, (*not_recomputed, "sources, places, commands, and all around them")
    )


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
