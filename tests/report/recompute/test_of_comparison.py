"""A page of a comparison is judged again from the process medians inside it, and an edit of what it prints is named."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.cli import main
from bench.records import Status
from bench.report.recompute.embedded import VERDICTS, data_of, element
from bench.report.recompute.of_comparison import WORDS, verify_comparison
from bench.store import Store
from bench.store.page_data import NoPage
from tests import factories

NIGHTS = 13


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nights of which the last has one case slower, one faster, one out of memory, one larger, and one that twice ran elsewhere."""
    path, noise = tmp_path_factory.mktemp("comparison") / "nights.db", random.Random(3)
    cases = [factories.case(subject, seq_len=size) for subject in ("eager", "flex") for size in (128, 512, 1024)]
    with Store.open(path) as store:
        for night in range(NIGHTS):
            run = factories.run(started_at=f"2026-02-{night + 1:02}T03:00:00+00:00", label=f"n{night}", reason="nightly")
            store.add_run(run)
            late = night >= NIGHTS - 2
            for place, case in enumerate(cases):
                slow = {0: 1.2, 1: 0.8}.get(place, 1.0) if late else 1.0
                changes = {"status": Status.OOM} if place == 2 and night == NIGHTS - 1 else {}
                peak = 2.0**21 if place == 3 and night == NIGHTS - 1 else 2.0**20
                store.add_results(
                    factories.result(
                        run.id, case, index=index,
                        **(changes or {"measurements": (
                            factories.measurement("time_s", (1e-3 * slow * (1 + 0.004 * noise.random()),)),
                            factories.measurement("peak_bytes", (peak,)),
                        )}),
                    )
                    for index in range(4)
                )  # fmt: skip
    return path


def _page(database: Path, *words: str) -> str:
    target = database.parent / "page.html"
    main([*words, "--format", "html", "-o", str(target), "--db", str(database)])
    return target.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def compared(database: Path) -> str:
    return _page(database, "compare", f"n{NIGHTS - 3}", f"n{NIGHTS - 1}")


def test_every_row_of_two_sides_is_held_with_its_verdict(compared: str) -> None:
    found = verify_comparison(compared)
    assert found.agrees
    assert found.agreed == found.stated
    assert {count for what, count in found.stated.items() if what != WORDS} == {4}
    assert not [text for text in found.not_recomputed if "rows" in text]


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ('class="worse">worse<', 'class="worse">better<', "verdicts"),
        (">4 oom<", ">4 ok<", "second sides"),
        (">2.000×<", ">2.001×<", "ratios with intervals"),
        (">1.00 MiB<", ">1.01 MiB<", "first sides"),
        (">4/4<", ">4/5<", "numbers of processes"),
        ('<th scope="row">flex', '<th scope="row">eager', "rows"),
    ],
)
def test_an_edit_is_named_with_its_row(compared: str, old: str, new: str, what: str) -> None:
    assert old in compared
    found = verify_comparison(compared.replace(old, new, 1))
    assert [one[0] for one in found.differences] == [what]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<h1>", "<h1>0 worse, "),
        ("<title>", "<title>0 worse, "),
        ('class="n">first<', 'class="n">second<'),
        ("geometric mean ", "geometric mean 0."),
        ("bench accept ", "mine accept "),
        ("<h2>What to do", "<h2>Nothing to do"),
        ('<section class="todo"', '<section hidden class="todo"'),
        ('<td class="why">', '<td class="why">accepted: '),
        ("</main>", "<p>All is well.</p></main>"),
    ],
)
def test_headline_reasons_totals_and_what_to_do_are_held_as_the_data_repeat_them(compared: str, old: str, new: str) -> None:
    assert old in compared
    found = verify_comparison(compared.replace(old, new, 1))
    assert {one[0] for one in found.differences} == {WORDS}
    assert found.agreed[WORDS] < found.stated[WORDS]


def test_a_page_that_does_not_repeat_its_words_is_held_by_its_numbers(compared: str) -> None:
    begin = compared.index("<script")
    rows = {"rows": data_of(compared, VERDICTS)["rows"]}
    found = verify_comparison(compared[:begin] + element(VERDICTS, rows))
    assert found.agrees
    assert WORDS not in found.stated
    with pytest.raises(NoPage, match="no words of a page"):
        verify_comparison(compared[:begin] + element(VERDICTS, {**rows, "page": {"headline": "all is well"}}))


def test_an_interval_that_was_narrowed_is_noticed(compared: str) -> None:
    begin = compared.index('<span class="small">1.') + len('<span class="small">1.')
    other = str((int(compared[begin]) + 1) % 10)
    assert not verify_comparison(compared[:begin] + other + compared[begin + 1 :]).agrees


def test_a_row_of_news_that_was_taken_out_is_missed(compared: str) -> None:
    begin = compared.index("<tr data-q=")
    found = verify_comparison(compared[:begin] + compared[compared.index("</tr>", begin) + 5 :])
    assert len(found.missing) == 1
    assert not found.agrees


def test_of_a_screened_night_medians_and_ratios_are_held_and_what_is_not_is_counted(database: Path) -> None:
    page = _page(database, "regress", "--no-confirm", f"n{NIGHTS - 1}")
    found = verify_comparison(page)
    assert found.agrees
    assert found.stated["ratios with intervals"] == found.stated["rows"] == 4
    assert found.stated["verdicts"] == 2
    assert "the words of 2 rows that were screened against earlier nights" in found.not_recomputed
    assert not verify_comparison(page.replace(">1.2", ">1.3", 1)).agrees


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda page: page.replace('id="verdicts">', 'id="verdicts">!'), "cannot be unpacked"),
        (lambda _: element(VERDICTS, {"rows": [{"place": 0, "name": "a", "kind": "guess", "metric": "time_s"}]}), "no comparison"),
        (lambda _: element(VERDICTS, {"rows": [{"place": 0, "name": "a", "kind": "ends", "metric": "time_s", "sides": [{}, {}]}]}),
         "no comparison"),
        (lambda _: element(VERDICTS, {"rows": [{"place": 0, "name": "a", "kind": "pair", "sides": {"metric": "x"}}]}), "no comparison"),
        (lambda _: element(VERDICTS, {"rows": [{"place": 0, "name": "a", "kind": "nights", "metric": "time_s", "nights": [[]]}]}),
         "no comparison"),
    ],
)  # fmt: skip
def test_data_that_do_not_fit_together_are_refused_in_words(compared: str, change: Callable[[str], str], words: str) -> None:
    with pytest.raises(NoPage, match=words):
        verify_comparison(change(compared))


def test_the_command_holds_such_a_page_and_says_what_it_did_not_look_at(
    compared: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "compared.html"
    file.write_text(compared, encoding="utf-8")
    assert main(["verify", str(file)]) == 0
    said = capsys.readouterr().out
    assert "4 of 4 verdicts agree" in said
    assert "not recomputed: drawings; reasons, banners" in said
    file.write_text(compared.replace(">4/4<", ">4/5<", 1), encoding="utf-8")
    assert main(["verify", str(file), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["exit_code"], told["of"], len(told["differences"])) == (1, "a comparison", 1)
    assert told["differences"][0]["printed"] == "4/5"
