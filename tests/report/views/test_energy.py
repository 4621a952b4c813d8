"""Energy: who takes the least and the most at each point, by how much, and what is not told apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from bench.lang.messages import language
from bench.records import Measurement, Result, Run
from bench.report import render_markdown, render_page, rows_json
from bench.report.numbers.layout import Section, sections
from bench.report.numbers.summary import summarize
from bench.report.recompute.verify import verify_page
from bench.report.views.energy import energy_table, energy_words
from tests.report.step_sample import quantized_run, step_run

BEGAN = "2026-01-01T00:00:00Z"
SPREAD = 0.004


def with_energy(rows: list[Result], joules: Mapping[str, float]) -> list[Result]:
    """Each row with the joules of its subject, a little more from trial to trial; subjects without any have none."""
    made = []
    for row in rows:
        label = next((name for name in joules if name in row.case.subject.values()), None)
        values = {} if label is None else {"energy_j": joules[label] * (1 + SPREAD * row.trial.index)}
        tokens = row.cost.tokens if row.cost else None
        values |= {"energy_per_token_j": values["energy_j"] / tokens} if values and tokens else {}
        measured = tuple(Measurement(name, "J", (value,)) for name, value in values.items())
        made.append(dataclasses.replace(row, measurements=(*row.measurements, *measured)))
    return made


def section_of(run: Run, rows: list[Result]) -> Section:
    (section,) = sections(run, summarize(run, rows))
    return section


def test_the_least_and_the_most_are_named_with_their_ratio_and_the_baseline_s() -> None:
    run, rows = step_run(3, sizes=(1024, 2048))
    rows = with_energy(rows, {"liger": 80.0, "full": 160.0, "adamw": 100.0})
    table = energy_table(section_of(run, rows), {})
    assert table is not None
    heads = [head.text for head in table.heads]
    assert heads[:4] == ["subject", "point", "energy a call", "energy a token"]
    assert heads[4].startswith("energy, × of ")
    of_liger = next(line for line in table.lines if "liger" in line[0].text)
    assert (of_liger[2].text, of_liger[2].note) == ("80.3 J", "80.0–80.6 J, n 3")
    assert (of_liger[3].text, of_liger[4].text) == ("78.4 mJ", "0.800×")
    assert max(line[2].share or 0.0 for line in table.lines) == pytest.approx(1 / (1 + SPREAD), rel=1e-3)
    first = table.words[0]
    assert "seq len 1024: " in first
    assert "liger takes the least energy, 80.3 J a call" in first
    assert "161 J, 2.00× as much." in first


def test_who_computes_something_else_has_a_sentence_of_its_own_and_a_label() -> None:
    run, rows = quantized_run()
    rows = with_energy(rows, {"plain": 50.0, "plain_other": 60.0, "int8": 20.0, "nf4": 90.0})
    section = section_of(run, rows)
    assert energy_words(section) == [
        "plain takes the least energy, 50.2 J a call, and plain_other the most, 60.2 J, 1.20× as much.",
        "of those that compute something else on purpose int8 takes the least energy, 20.1 J a call, and nf4 the most, 90.4 J, "
        "4.50× as much.",
    ]
    table = energy_table(section, {})
    assert table is not None
    assert {line[0].text: line[0].note for line in table.lines} == {
        "plain": "", "plain_other": "", "int8": "≠ other numbers", "nf4": "≠ other numbers",
    }  # fmt: skip


def test_one_trial_may_be_off_by_a_tenth_and_three_by_their_range() -> None:
    joules = {"plain": 50.0, "plain_other": 55.0}
    run, rows = quantized_run(trials=1)
    (text,) = energy_words(section_of(run, with_energy(rows, joules)))
    assert text == "a call takes from 50.0 J (plain) to 55.0 J (plain_other), which these trials do not tell apart."
    run, rows = quantized_run(trials=3)
    (text,) = energy_words(section_of(run, with_energy(rows, joules)))
    assert text.startswith("plain takes the least energy")


def test_of_how_many_it_is_told_and_nothing_where_no_row_has_it() -> None:
    run, rows = quantized_run()
    assert energy_table(section_of(run, rows), {}) is None
    table = energy_table(section_of(run, with_energy(rows, {"nf4": 90.0})), {})
    assert table is not None
    assert table.words == ("Told of 1 of 4 cases with a time.",)


def test_page_markdown_and_json_tell_it_and_the_page_is_verified() -> None:
    run, rows = quantized_run()
    rows = with_energy(rows, {"plain": 50.0, "plain_other": 60.0, "int8": 20.0})
    page = render_page([run], rows, now=BEGAN)
    said = "plain takes the least energy, 50.2 J a call"
    assert said in page
    assert verify_page(page).agrees
    assert not verify_page(page.replace(said, said.replace("50.2", "40.2"))).agrees
    assert f"- Energy: {said}" in render_markdown([run], rows)
    (line,) = rows_json([run], rows)["energy"]
    assert (line["least"]["label"], line["most"]["label"], line["other_numbers"]) == ("plain", "plain_other", False)
    assert line["least"]["energy_j"] == pytest.approx(50.2)


def test_every_sentence_of_it_is_said_in_chinese() -> None:
    own = language("zh-TW")
    run, rows = step_run(3, sizes=(1024, 2048))
    sized = energy_table(section_of(run, with_energy(rows, {"liger": 80.0, "full": 80.1, "adamw": 100.0})), {})
    run, rows = quantized_run()
    apart = energy_table(section_of(run, with_energy(rows, {"plain": 50.0, "plain_other": 50.1, "int8": 20.0, "nf4": 90.0})), {})
    assert sized is not None
    assert apart is not None
    for text in (sized.title, sized.caption, *sized.words, *apart.words, *(head.text for head in sized.heads)):
        assert own.said(text) != text
