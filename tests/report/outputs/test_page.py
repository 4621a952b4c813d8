"""The page as text: honest, deterministic, closed to hostile names."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

from bench.records import Check, Measurement, Pass, Result, Run, Status
from bench.report import render_page
from bench.report.numbers.summary import TIME
from bench.report.outputs.page import breaks
from bench.report.recompute.statements import Loose, pieces
from tests import factories
from tests.report.hostile import NASTY, SCRIPT, hostile
from tests.report.sample import everything

NOW = "2026-01-02T04:00:00+00:00"
VOID = {"wbr", "meta", "link", "input", "br", "path", "use"}
OPTIONAL = {"li", "dt", "dd", "th", "td", "tr", "tbody", "thead", "p"}


class _Nesting(HTMLParser):
    """Raises where an element is closed that is not the innermost open one (those with optional ends aside)."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        while self.open and self.open[-1] != tag and self.open[-1] in OPTIONAL:
            self.open.pop()
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> inside <{self.open[-1]}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def _parsed(page: str) -> _Nesting:
    parser = _Nesting()
    parser.feed(page)
    parser.close()
    return parser


def _page(rows: list[Result], run: Run | None = None) -> str:
    return render_page([run or factories.run(id="run-1")], rows, now=NOW)


def _island(page: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found
    loaded: dict[str, object] = json.loads(found[1])
    return loaded


def test_two_renders_of_the_same_data_are_equal_whatever_the_order_of_rows() -> None:
    runs, results = everything(trials=2)
    first = render_page(runs, results, now=NOW)
    assert first == render_page(runs, list(reversed(results)), now=NOW)
    assert first != render_page(runs, results, now="2027-01-01T00:00:00+00:00")


def test_the_page_is_well_nested_with_unique_ids_and_links_that_lead_somewhere() -> None:
    page = render_page(*everything(trials=2), now=NOW)
    parser = _parsed(page)
    assert not [tag for tag in parser.open if tag not in OPTIONAL]
    assert len(parser.ids) == len(set(parser.ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(parser.ids)


def test_nothing_is_loaded_from_elsewhere() -> None:
    page = render_page(*everything(trials=1), now=NOW)
    without_namespace = page.replace("http://www.w3.org/1999/xlink", "")
    assert not re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', without_namespace)
    assert "http://" not in without_namespace
    assert "https://" not in without_namespace
    assert "default-src 'none'" in page


def test_every_row_and_every_status_is_there_with_its_command() -> None:
    runs, results = everything(trials=2)
    text = "".join(_parsed(render_page(runs, results, now=NOW)).text)
    assert all(result.command in text for result in results)
    assert all(result.reason in text for result in results if result.reason)
    assert "108 cases" in re.sub(r"\s+", " ", text)


def test_an_incorrect_row_shows_no_time_anywhere() -> None:
    case = factories.case("liar", seq_len=512)
    rows = [factories.result("run-1", factories.case(seq_len=s), time_s=0.5) for s in (128, 512)]
    timed = (Measurement(TIME, "s", (0.777, 0.777, 0.777)),)
    rows.append(factories.result("run-1", case, index=0, measurements=timed))
    rows.append(factories.result("run-1", case, index=1, status=Status.INCORRECT, measurements=timed,
                                 checks=(Check("out", "measured", 3.0, 0.1, 0.2, False),)))  # fmt: skip
    page = _page(rows)
    assert "777 ms" not in page
    assert "0.777" not in page
    assert "3.0e+00 / 2.0e-01" in page
    assert "incorrect" in page


def test_an_oom_is_a_word_in_matrix_table_and_chart_and_never_zero() -> None:
    rows = [factories.result("run-1", factories.case(n, seq_len=s)) for n in ("eager", "flex") for s in (128, 256)]
    rows.append(factories.result("run-1", factories.case("eager", seq_len=512)))
    rows.append(factories.result("run-1", factories.case("flex", seq_len=512), status=Status.OOM, reason="out of memory"))
    page = _page(rows)
    chart = page[page.index("<figure>") : page.index("</figure>")]
    assert ">OOM<" in chart
    assert re.search(r'class="word st-oom".*?OOM', page)
    columns = _island(page)["trials"]["columns"]  # type: ignore[index]
    (oom,) = [row for row in _island(page)["trials"]["rows"] if "oom" in row]  # type: ignore[index]
    assert oom[columns.index(TIME)] is None


def test_the_island_holds_every_trial_median() -> None:
    runs, results = everything(trials=2)
    data = _island(render_page(runs, results, now=NOW))
    trials = data["trials"]
    assert len(trials["rows"]) == len(results)  # type: ignore[index]
    by_id = {row[1]: row for row in trials["rows"]}  # type: ignore[index]
    measured = next(r for r in results if r.status is Status.OK)
    assert by_id[measured.id][trials["columns"].index(TIME)] is not None  # type: ignore[index]


def test_differences_between_environments_are_told_and_equal_items_are_not() -> None:
    rows = [
        factories.result("run-1", factories.case("eager"), environment=factories.environment(driver="570.1")),
        factories.result("run-1", factories.case("flex"), environment=factories.environment(driver="571.2")),
    ]
    page = _page(rows)
    differences = page[page.index("What differs between rows") :].split("</table>")[0]
    assert "570.1 (1), 571.2 (1)" in differences
    assert "package:torch" not in differences
    assert "Another environment than most rows" in page


def test_excluded_rows_are_listed_with_their_reason() -> None:
    page = _page([factories.result("run-1"), factories.result("run-1", index=1, excluded_reason="a backup ran")])
    assert "excluded: a backup ran" in page
    assert "rows are set aside" in page


def test_several_runs_have_a_chapter_each_and_are_never_mixed() -> None:
    runs = [factories.run(id=name) for name in ("run-1", "run-2")]
    page = render_page(runs, [factories.result("run-1", time_s=1.0), factories.result("run-2", time_s=2.0)], now=NOW)
    assert page.count('<article class="run"') == 2
    assert "2 runs" in page


def test_a_run_without_rows_and_a_report_without_runs_are_pages_too() -> None:
    assert "Nothing was measured" in _page([])
    assert "No runs" in render_page([], [], now=NOW)


def test_a_run_in_which_nothing_was_measured_shows_the_reasons() -> None:
    page = _page(
        [
            factories.result("run-1", factories.case(seq_len=s), status=Status.UNAVAILABLE, reason="no such package")
            for s in (1, 2, 3)
        ]
    )
    assert "Nothing was measured" in page
    assert "no such package" in page
    assert "<figure>" not in page


def test_hostile_names_stay_text() -> None:
    page = render_page(*hostile(), now=NOW)
    assert page.count("<script") == 2
    assert SCRIPT not in page
    assert "{{ 7*7 }}" in page
    text = "".join(_parsed(page).text)
    assert NASTY in text
    assert _island(page)["cases"]


def test_a_page_with_many_rows_leaves_secondary_evidence_out_and_says_where_it_is() -> None:
    rows = [factories.result("run-1", factories.case(seq_len=s)) for s in range(1, 1103)]
    page = _page(rows)
    assert "bench show" in page
    assert len(page) < 2_500_000


def test_a_panel_of_which_a_light_page_shows_nothing_says_where_its_numbers_are() -> None:
    run = factories.run(id="run-1")
    passes = (Pass.FORWARD, Pass.BACKWARD, Pass.FORWARD_BACKWARD)
    rows = [factories.result(run.id, factories.case(name, pass_=pass_)) for pass_ in passes for name in ("eager", "flex")]
    sentence = "Its numbers are those of the rows below."
    assert render_page([run], rows, now=NOW, light=True).count(sentence) == 2
    assert sentence not in render_page([run], rows, now=NOW)


def test_a_long_name_of_a_model_may_go_on_in_another_line_and_is_one_word_all_the_same() -> None:
    assert breaks("llama(layers=2,heads=4)") == "llama(layers=<wbr>2,<wbr>heads=<wbr>4)"
    assert breaks("a, b & c=d") == "a, b &amp; c=<wbr>d"
    (heard,) = pieces("<p>llama(layers=<wbr>2)</p>")
    assert isinstance(heard, Loose)
    assert heard.text == "llama(layers=2)"
