"""What a page states follows from the trial medians inside it, and a number that somebody changed is named."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable

import pytest

from bench.records import Check, Result, Run, Status
from bench.report import render_page
from bench.report.numbers.summary import TOLERANCE_WORDS
from bench.report.recompute.aligned import differences
from bench.report.recompute.former import FORMER, begins, today
from bench.report.recompute.statements import MAX_DEPTH, Statement, statements
from bench.report.recompute.verify import verify_page
from bench.store.page_data import BEGINNING, PACKED_BEGINNING, NoPage, data_text, read_page_data
from tests import factories
from tests.report.chromium import sample
from tests.report.gpu_sample import gpu_run
from tests.report.hostile import hostile
from tests.report.sample import everything
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
    assert "Use flex, 1.43× faster than sdpa_flash" in difference.computed


def test_a_page_whose_sentences_were_written_in_former_words_agrees_and_every_former_one_is_still_said() -> None:
    runs, results = everything(trials=1)
    page = render_page(runs, results, now=NOW, light=True)
    assert [now for now in FORMER.values() if now not in page] == []
    oldest = {now: old for old, now in reversed(FORMER.items())}
    for once in (oldest, {now: old for old, now in FORMER.items() if oldest[now] != old}):
        former = page
        for now, old in once.items():
            former = former.replace(now, old)
        assert former != page
        assert verify_page(former).agrees


@pytest.mark.parametrize(
    ("old", "now"),
    [
        ("97.0 MiB – and slower: 1.00× (1.00–1.00)", "97.0 MiB, and as fast within 0.5 %"),
        ("97.0 MiB – and slower: 1.00×; more", "97.0 MiB, and as fast within 0.5 %; more"),
        ("97.0 MiB, and faster: 0.998× (0.997–0.999)", "97.0 MiB, and as fast within 0.5 %"),
        ("97.0 MiB – and slower: 1.01× (1.00–1.01)", "97.0 MiB – and slower: 1.01× (1.00–1.01)"),
        ("97.0 MiB, and faster: 0.990×", "97.0 MiB, and faster: 0.990×"),
        ("the next, flex, takes 1.00× its time at 512", "the next, flex, is as fast within 0.5 % at 512"),
        ("counthard: rows are not comparable1 (2)", "countdevices of a trial: those of another number are other cases1 (2)"),
        ("canariesmatmul bf16 ok, copy ok", "canariesmatmul bf16 ok without a rate, copy ok without a rate"),
        ("zero2 overtakes ddp at world size 1.03 (1–1.9) by medians", "zero2 overtakes ddp between world size 1 and 2 by medians"),
        ("flex overtakes eager at seq len 2050 (1900–2200)", "flex overtakes eager at seq len 2050 (1900–2200)"),
        ("Only flex, nothing else was measured here", "Only flex, nothing else has a number here"),
        ("nothing else that computes the same was measured at 512", "nothing else that computes the same has a number at 512"),
        ("documents follows mask: None→None, document→16", "documents follows mask: not set→not set, document→16"),
        ("bias follows mask: causal→True, document→False", "bias follows mask: causal→yes, document→no"),
        ("(21 rows on GPU-a, 1 rows on GPU-b)", "(21 rows on GPU-a, 1 row on GPU-b)"),
    ],
)
def test_what_older_versions_said_with_numbers_is_read_as_today(old: str, now: str) -> None:
    assert today(old) == now


def test_an_older_version_may_quote_less_of_a_reason_and_no_other_one() -> None:
    whole = "A with B: wrong loss: error 0.06 > limit 0.02; keep that out of the graph"
    assert begins("A with B: wrong loss: error 0.06… (45 more characters)", whole)
    assert not begins("A with B: wrong loss: error 0.05… (45 more characters)", whole)
    assert not begins("A with B: wrong loss: error 0.06", whole)
    assert list(differences(["one", "A with B: wrong… (9 more characters)"], ["one", whole])) == []
    assert len(list(differences(["one", "A with C: wrong… (9 more characters)"], ["one", whole]))) == 1


def test_a_light_page_agrees_packed_and_as_older_versions_wrote_it() -> None:
    run, results = crossing_run()
    page = render_page([run], results, now=NOW, light=True)
    assert PACKED_BEGINNING in page
    assert verify_page(page).agrees
    before, _, rest = page.partition(PACKED_BEGINNING)
    plain = f"{before}{BEGINNING}{data_text(page)}</script>{rest.partition('</script>')[2]}"
    assert verify_page(plain).agrees
    assert not verify_page(plain.replace("× faster than", "× slower than", 1)).agrees


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
    ratio = next(found for one in statements(page) if one.kind == "M" for found in re.findall(r"\S+×", one.text))
    found = verify_page(edited(page, f"<i>{ratio}<", "<i>0.123×<"))
    (difference,) = found.differences
    assert (difference.what, difference.printed, difference.computed) == ("ratios", "0.123×", ratio)
    assert re.search(r"^\w+ .*seq_len=\d+", difference.where)
    assert found.agreed["ratios"] == found.stated["ratios"] - 1


@pytest.mark.parametrize("kind", ["m", "r", "t"])
def test_a_number_changed_anywhere_is_noticed(page: str, kind: str) -> None:
    text = next(one.text for one in statements(page) if one.kind == kind and re.search(r"\d\.\d+", one.text))
    number = re.findall(r"\d+\.\d+", text)[0]
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


VIEW = r'class="view {}".*?<tbody>.*?'
FORGED = [
    ("ladder", VIEW.format("steps") + r">(0\.\d+×)", "0.111×", "steps of ladders, and parts left out"),
    ("ladder", r"Leave one out.*?<tbody>.*?>(\d\.\d+×)", "0.111×", "steps of ladders, and parts left out"),
    ("ladder", r"measured, ([-+]\d+\.\d) %", "+0.1", "memory by cause, phases and predictions"),
    ("ladder", r"Peak by cause in numbers.*?<td>(\d[\d.]*) GiB", "0.11", "memory by cause, phases and predictions"),
    ("ladder", r"Unbeaten:? [^<]*?\((\d[\d.]*) ms", "11.1", "fronts of time and memory"),
    ("search", VIEW.format("frontier") + r">(65536)<", "32768", "frontiers of memory"),
    ("search", r'class="strips".*?>(16384 fits, 18432 does not)<', "32768 fits, 65536 does not", "frontiers of memory"),
    ("search", r"<b>(full)</b>, up to seq len", "plain", "sentences"),
    ("compat", VIEW.format("compat") + r">(✓ works)", "× refuses", "pairs"),
    ("compat", r'class="said".*?(wrong loss): loss_curve', "no effect", "pairs"),
    ("compat", r'class="view compat".*?<th scope="col">(flash)', "nf4", "heads of tables"),
    ("precision", VIEW.format("stability") + r">(33\.0 %)", "3.3 %", "stability"),
    ("ranks", VIEW.format("ranks") + r">(110 ms)", "100 ms", "ranks"),
    ("crossing", r"flex overtakes sdpa_flash at seq len (\d+)", "1111", "exponents and crossings"),
    ("crossing", r'class="growths".*?<sup>(\d\.\d+)', "3.33", "exponents and crossings"),
    ("crossing", r'scores">.*?<b>(\d\.\d+×)', "0.111×", "lines of scorecards"),
    ("crossing", r'chip w-better[^>]*><b>(\d+)', "77", "counts of verdicts"),
    ("crossing", r'class="matrix".*?<th scope="row">.*?(sdpa_flash)<i>', "flex", "subjects"),
    ("crossing", r'class="matrix".*?(seq len 512</th><th scope="col">seq len 1024)', "seq len 1024</th><th>seq len 512", "heads of tables"),
    ("crossing", r"Time against sdpa_flash: <b>\w[^<]*</b>, [^<]*?(\d)", "9", "verdicts with their intervals"),
    ("gpu", r'class="matrix".*?<p>(\d[\d.]*) TFLOP/s', "999", "rates and shares"),
    ("gpu", r"What this machine reaches.*?<b>(\d[\d.]*) TFLOP/s", "999", "rates and shares"),
    ("gpu", r"= (\d[\d.]*) % of matmul", "99", "rates and shares"),
    ("gpu", r"share of <span[^>]*>[^<]*?\((\d[\d.]*) ", "9", "denominators"),
    ("gpu", r'class="doubts".*?<li[^>]*><b>(\d+)', "77", "doubts and trust"),
    ("gpu", r"<dt>coverage</dt><dd>(\d+) of", "77", "doubts and trust"),
    ("gpu", r"<dt>gpu_model</dt><dd>(NVIDIA H200)", "NVIDIA H100", "environment and method"),
    ("gpu", r"<strong>(\d+)</strong> cases", "77", "counts"),
    ("gpu", r"<dt>Device</dt><dd>[^<]*(H200)", "H100", "headings"),
    ("gpu", r"Held fixed: [^<]*dtype (bf16)", "fp32", "headings"),
    ("step", r'<tbody id="r-.*?<td>(\d\.\de-\d\d) / ', "9.9e-09", "statuses, rates, errors and proofs"),
    ("step", r'class="matrix".*?MFU (\d[\d.]*) %', "99", "rates and shares"),
    ("formats", r'<tbody id="r-[^>]*><tr><td>.*?<div>(plain)', "nf4", "statuses, rates, errors and proofs"),
    ("formats", r'<tbody id="r-.*?(0\.170 %)', "0.017 %", "other metrics"),
]  # fmt: skip


@pytest.fixture(scope="module")
def rendered() -> Callable[[str], str]:
    """Samples as pages, each rendered once."""
    made: dict[str, str] = {}

    def page_of(name: str) -> str:
        if name not in made:
            made[name] = render_page(*sample(name), now=NOW)
        return made[name]

    return page_of


@pytest.mark.parametrize(("name", "pattern", "put", "what"), FORGED, ids=lambda value: value[:40])
def test_what_a_view_states_is_held_against_the_data(
    rendered: Callable[[str], str], name: str, pattern: str, put: str, what: str
) -> None:
    page = rendered(name)
    place = re.search(pattern, page[page.index("<main") :], flags=re.S)
    assert place, "the sample has no such view"
    start, end = (page.index("<main") + at for at in place.span(1))
    found = verify_page(page[:start] + put + page[end:])
    assert not found.agrees
    assert what in {difference.what for difference in found.differences}
    assert found.agreed[what] < found.stated[what]


@pytest.mark.parametrize("name", ["ladder", "compat", "search", "precision", "ranks", "crossing", "formats", "few"])
def test_every_view_agrees_with_its_data(rendered: Callable[[str], str], name: str) -> None:
    found = verify_page(rendered(name))
    assert found.agrees, (found.differences[:3], found.unsaid[:3])


@pytest.mark.parametrize("name", ["ladder", "compat", "crossing", "formats", "gpu", "two"])
def test_a_page_that_travels_light_states_the_same_in_a_fraction_and_agrees(rendered: Callable[[str], str], name: str) -> None:
    light = render_page(*sample(name), now=NOW, light=True)
    found = verify_page(light)
    assert found.agrees, (found.differences[:3], found.unsaid[:3])
    assert len(light) < 0.85 * len(rendered(name))
    whole = read_page_data(rendered(name))
    assert [trial.medians["time_s"] for trial in found.page.trials if "time_s" in trial.medians] == [
        trial.medians["time_s"] for trial in whole.trials if "time_s" in trial.medians
    ]


@pytest.mark.parametrize("name", ["gpu", "ladder", "precision", "ranks"])
def test_no_digit_of_a_page_outside_of_evidence_and_charts_can_be_changed_unnoticed(
    rendered: Callable[[str], str], name: str
) -> None:
    page = rendered(name)
    begin, end = page.index("<main"), page.index('<section class="method"')
    hidden = (
        r'<svg\b.*?</svg>|<div class="evidence">.*?</details>|<caption>.*?</caption>|<p class="small">.*?</p>|class="count">\d+'
        r"|All \d+ soft"
    )
    told = re.sub(hidden, lambda found: "\0" * len(found[0]), page[begin:end], flags=re.S)
    places = [found.start(1) + begin for found in re.finditer(r">[^<\0]*?(\d)[^<\0]*<", told)]
    assert len(places) > 40
    for place in random.Random(7).sample(places, 25):
        other = str((int(page[place]) + 1) % 10)
        assert not verify_page(page[:place] + other + page[place + 1 :]).agrees, page[place - 80 : place + 20]


def test_two_cells_of_a_line_that_changed_places_are_noticed(rendered: Callable[[str], str]) -> None:
    page = rendered("crossing")
    line = re.search(r'class="matrix".*?<tr data-q=M[^>]*>(.*?)</tr>', page, flags=re.S)
    assert line
    head, *cells = line[1].split("</td>")[:-1]
    first, own = head.split("</th>", 1)
    swapped = f"{first}</th>{cells[0]}</td>{own}</td>{''.join(f'{cell}</td>' for cell in cells[1:])}"
    assert not verify_page(page.replace(line[1], swapped, 1)).agrees


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        (r'(<div class="(?:fine|look)" data-q=T\d+>.*?</div>)', "doubts"),
        (r'class="view steps".*?<tbody>\s*(<tr data-q=T\d+>.*?</tr>)', "steps"),
    ],
)
def test_what_was_taken_out_is_missed(rendered: Callable[[str], str], pattern: str, what: str) -> None:
    page = rendered("ladder")
    place = re.search(pattern, page, flags=re.S)
    assert place
    found = verify_page(page.replace(place[1], "", 1))
    assert not found.agrees
    assert any(what in text for text in found.unsaid)


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
