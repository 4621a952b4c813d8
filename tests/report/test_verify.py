"""What a page states follows from the trial medians inside it, and a number that somebody changed is named."""

from __future__ import annotations

import dataclasses
import re

import pytest

from bench.records import Check, Result, Run, Status
from bench.report import render_page
from bench.report.findings import TOLERANCE_WORDS
from bench.report.stated import KINDS
from bench.report.statements import MAX_DEPTH, Statement, statements
from bench.report.verify import verify_page
from bench.store.page_data import BEGINNING, NoPage, read_page_data
from tests import factories
from tests.report.gpu_sample import gpu_run
from tests.report.hostile import hostile
from tests.report.step_sample import quantized_run, step_run
from tests.report.views_sample import crossing_run

NOW = "2026-01-02T04:00:00+00:00"


@pytest.fixture(scope="module")
def page() -> str:
    run, results = gpu_run()
    return render_page([run], results, now=NOW)


def edited(page: str, old: str, new: str) -> str:
    """The page with the first `old` before the data replaced."""
    body, data = page.split(BEGINNING)
    assert old in body
    return body.replace(old, new, 1) + BEGINNING + data


def test_every_statement_of_a_page_agrees_with_its_data(page: str) -> None:
    found = verify_page(page)
    assert found.agrees
    assert found.agreed == found.stated
    assert found.stated["ratios"] >= 12
    assert found.stated["values"] >= 60


@pytest.mark.parametrize(
    ("old", "new"),
    [("Use <b>flex", "Use <b>eager"), ("× faster than", "× slower than"), (", the same memory", ", half the memory")],
)
def test_what_to_use_is_held_word_for_word(old: str, new: str) -> None:
    run, results = crossing_run()
    found = verify_page(edited(render_page([run], results, now=NOW), old, new))
    (difference,) = found.differences
    assert difference.what == "sentences"
    assert "Use flex , 1.43× faster than sdpa_flash" in difference.computed


@pytest.mark.parametrize("everybody", [True, False])
def test_advice_of_what_declares_a_tolerance_follows_though_the_page_does_not_repeat_its_checks(everybody: bool) -> None:
    run = factories.run(id="run-t", suite_data={"baseline": {"attention": "sdpa_flash"}})
    declared = (Check("out", "small", 0.01, None, 0.1, True, TOLERANCE_WORDS),)
    rows = [
        factories.result(
            run.id, factories.case(name), index=index, time_s=time_s * (1 + 0.001 * index),
            **({"checks": declared} if everybody or name == "flex" else {}),
        )
        for name, time_s in (("sdpa_flash", 1.0), ("flex", 0.8), ("eager", 0.9))
        for index in range(3)
    ]  # fmt: skip
    page = render_page([run], rows, now=NOW)
    assert ("Where other numbers will do, use" in page) is not everybody
    assert verify_page(page).agrees


def test_a_ratio_that_somebody_changed_is_named_with_its_row(page: str) -> None:
    ratio = next(one for one in statements(page) if one.kind == "x").text
    found = verify_page(edited(page, f">{ratio}<", ">0.123×<"))
    (difference,) = found.differences
    assert (difference.what, difference.printed, difference.computed) == ("ratios", "0.123×", ratio)
    assert re.search(r"time_s of \w+ .*seq_len=\d+", difference.where)
    assert found.agreed["ratios"] == found.stated["ratios"] - 1


@pytest.mark.parametrize("kind", ["m", "R", "r", "t", "s"])
def test_a_number_changed_anywhere_is_noticed(page: str, kind: str) -> None:
    # A sentence is changed where it states its ratio.
    text = next(one.text for one in statements(page) if one.kind == kind and re.search(r"\d\.\d+", one.text))
    number = re.findall(r"\d+\.\d+(?=×)" if kind == "s" else r"\d+\.\d+", text)[0]
    shown = re.search(rf"{re.escape(number)}[^<]*<", page[page.index(text.split()[0]) :])
    assert shown
    other = f"{float(number) + 1.11:.2f}"
    changed = [
        found for found in (verify_page(edited(page, part, part.replace(number, other))) for part in {shown[0]}) if not found.agrees
    ]
    assert changed
    assert all(other in difference.printed for difference in changed[0].differences)


def test_data_that_somebody_changed_agree_with_nothing_that_was_printed_of_them(page: str) -> None:
    data = read_page_data(page)
    median = next(trial.medians["time_s"] for trial in data.trials if data.cases[trial.case].case.workload == "attention")
    assert not verify_page(page.replace(f",{median!r},", f",{median * 3!r},")).agrees


def test_a_row_that_was_taken_out_of_the_page_is_missed(page: str) -> None:
    assert verify_page(re.sub(r" data-q=[^\s>]+", "", page)).stated == {}
    rows = page.rindex("<tbody id=")  # of a canary, which stands in no matrix
    found = verify_page(page[:rows] + page[page.index("</tbody>", rows) + len("</tbody>") :])
    assert (found.agrees, found.differences, len(found.unstated)) == (False, (), 1)
    assert re.match("matmul|copy|torch", found.unstated[0])


def test_rows_without_numbers_state_none() -> None:
    run = factories.run(id="run-1")
    rows = [
        factories.result("run-1", factories.case("eager")),
        factories.result("run-1", factories.case("eager"), index=1, status=Status.TIMEOUT),
        factories.result("run-1", factories.case("flex"), status=Status.OOM),
        factories.result("run-1", factories.case("math"), status=Status.INCORRECT),
        factories.result("run-1", factories.case("aside"), excluded_reason="a backup ran"),
    ]
    page = render_page([run], rows, now=NOW)
    assert verify_page(page).agrees
    forged = re.sub(r"(<tbody id=[^>]*data-s=\"oom\".*?<td class=\"none\">)–", r"\g<1>1.00 ms", page, count=1, flags=re.S)
    assert forged != page
    assert not verify_page(forged).agrees


@pytest.mark.parametrize("made", [step_run, quantized_run, hostile], ids=["steps", "other numbers", "hostile names"])
def test_pages_of_all_kinds_agree(made: object) -> None:
    runs, rows = made()  # type: ignore[operator]
    found = verify_page(render_page([runs] if isinstance(runs, Run) else runs, rows, now=NOW))
    assert found.agrees, found.differences[:3]


def test_two_runs_on_one_page_are_told_apart() -> None:
    first, rows = gpu_run(sizes=(1024,))
    second = dataclasses.replace(first, id="run-h")
    others: list[Result] = [dataclasses.replace(row, id=f"{row.id}-h", run_id="run-h") for row in rows]
    page = render_page([first, second], [*rows, *others], now=NOW)
    assert verify_page(page).agrees


def test_each_kind_of_statement_is_counted_among_something() -> None:
    assert {"ratios", "intervals", "verdicts", "verdicts with their intervals", "values"} <= set(KINDS.values())


# --- files that were made to do harm ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<b data-q=m0.1>1 ms</b", "begins what no page"),
        ("<!-- <b>", "has no end"),
        ("<script>", "has no end"),
        ("<b data-q=m0>1</b>", "is of no case"),
        ("<b data-q=m0.99999999999999>1</b>", "no position"),
        ("<b>" * (MAX_DEPTH + 1), "nested deeper"),
        ("<" * 100_000, "begins what no page"),
        ("<a " + "b " * 100_000, "begins what no page"),
        ("<a b=" + "'" * 100_000, "begins what no page"),
    ],
    ids=lambda value: value[:24],
)
def test_what_no_page_of_ours_holds_is_refused_at_once(text: str, words: str) -> None:
    with pytest.raises(NoPage, match=words):
        list(statements(text))


def test_marks_of_cases_that_are_not_there_and_kinds_of_later_versions_are_refused(page: str) -> None:
    with pytest.raises(NoPage, match="speaks of number 4000"):
        verify_page(page.replace("<main", "<b data-q=m0.4000>1 ms</b><main", 1))
    with pytest.raises(NoPage, match="install a newer bench"):
        verify_page(page.replace("<main", "<b data-q=z0.0>1 ms</b><main", 1))


def test_a_line_of_a_table_states_what_its_heads_say_and_the_evidence_below_it_nothing() -> None:
    table = (
        "<table><thead><tr><th>who<th data-q=m0>time<th data-q=m1>peak</tr></thead>"
        "<tbody data-q=7><tr><td>eager<td>1 ms<td>2 MiB</tr><tr><td colspan=3><p>1<p>2</tr></tbody>"
        "<tbody data-q=-><tr><td>flex<td>–<td>–</tr></tbody></table>"
    )
    assert list(statements(table)) == [
        Statement("m", 0, (7,), "1 ms"),
        Statement("m", 1, (7,), "2 MiB"),
        Statement("m", 0, (), "–"),
        Statement("m", 1, (), "–"),
    ]
