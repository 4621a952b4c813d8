"""Tables on terminals of any width: nothing runs over, names stay whole, and what is left out is told with the way to see it."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.cli import fitting, plan_words, show
from bench.cli.case_layout import Heads, Line, fitted_table, whole_table
from bench.cli.fitting import folded, folded_table, paragraph, terminal_columns, widest_line
from bench.cli.planning import plan_all
from bench.cli.tables import case_table
from bench.cli.terminal import width
from bench.records import Status
from bench.run import RunOptions
from tests import factories
from tests.cli.conftest import Bench, Filled

HEADS = Heads(("pass", "seq_len"), "peak memory, residents included", ("weights", "loss gap", "gradient norm"))


def _line(subject: str = "eager", *, gap: str = "0.01 nat", reason: str = "", point: tuple[str, str] = ("forward", "128")) -> Line:
    if reason:
        return Line(point, subject, "oom", "3", "", "", "", ("", "", ""), reason, f"{subject}-1")
    return Line(point, subject, "ok", "3", "1.50 ms", "1.40–1.60 ms", "2.00 GiB", ("2.30 GiB", gap, "0.008 L2"), "", f"{subject}-1")


LINES = [_line(), _line("sdpa_flash", gap="0.02 nat"), _line("flex", reason="CUDA ran out of memory: 80 GiB were asked for")]


@given(st.text(), st.integers(1, 40))
def test_folded_text_holds_every_word_and_no_line_is_wider(text: str, most: int) -> None:
    lines = folded(text, most)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(width(line) <= most or len(line) == 1 for line in lines)


def test_a_number_and_its_unit_stay_on_one_line() -> None:
    assert folded("weights 2.30 GiB", 12) == ["weights", "2.30 GiB"]
    assert paragraph("took 1.5 ms and more", 16) == "took 1.5 ms\n  and more"
    assert paragraph("took 1.5 ms and more", None) == "took 1.5 ms and more"


def test_the_width_is_the_terminals_and_none_where_output_goes_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    assert terminal_columns() is None
    monkeypatch.setattr(fitting.sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "77")
    assert terminal_columns() == 77


def test_a_list_has_all_of_its_words_at_any_width_and_names_stay_whole() -> None:
    heads, row = (
        ("slot", "implementation", "what it is"),
        ("attention", "a_name_of_some_length", "Matrix product, softmax, and so on. " * 4),
    )
    for room in (40, 60, 80, 120):
        text = folded_table(heads, [row], room)
        assert widest_line(text) <= room
        assert row[1] in text
        assert " ".join(row[2].split()) in " ".join(text.split())


@pytest.mark.parametrize("words", [70, 2000])
def test_a_pipe_gets_every_word_of_a_table_however_long(words: int) -> None:
    row = ("attention", "a" * words, "Matrix product, softmax. " * words)
    assert folded_table(("slot", "implementation", "what it is"), [row], None).splitlines()[1] == "  ".join(
        ("attention", row[1].ljust(len("implementation")), row[2].rstrip())
    )


def test_lists_of_what_can_be_named_are_whole_in_a_pipe(bench: Bench) -> None:
    said = json.loads(bench("list", "--json").out)
    for kind, key in (
        ("workloads", "description"),
        ("implementations", "description"),
        ("models", "source"),
        ("metrics", "description"),
    ):
        lines = bench("list", kind).out.splitlines()[1:]
        assert [row["name"] for row, line in zip(said[kind], lines, strict=True) if not line.endswith(row[key])] == []


def test_columns_that_have_no_room_stand_below_their_row_after_their_heads() -> None:
    text = folded_table(("name", "devices", "what it is"), [("a_long_name", "cpu, cuda", "Words.")], 18)
    assert text.splitlines() == ["name", "    what it is", "a_long_name", "    devices cpu,", "    cuda; Words."]


def test_what_matters_first_is_there_at_eighty_columns_and_the_rest_is_named() -> None:
    fitted = fitted_table(HEADS, LINES, 84)
    assert widest_line(fitted.text) <= 84
    for word in ("forward", "eager", "ok", "1.50 ms", "1.40–1.60 ms", "2.00 GiB", "oom", "CUDA ran out of memory: 80 GiB were"):
        assert word in fitted.text
    shown = [head for head in HEADS.found if head.split()[0] in fitted.text]
    told = [*fitted.left_out, *(words.rsplit(" ", 2)[0] for words in fitted.alike)]
    assert sorted(shown + told) == sorted(HEADS.found)


def test_findings_that_differ_come_before_those_that_all_share() -> None:
    fitted = fitted_table(HEADS, LINES, 100)
    assert "0.02 nat" in fitted.text
    assert (fitted.left_out, set(fitted.alike)) <= ((), {"weights 2.30 GiB", "gradient norm 0.008 L2"})
    assert fitted.alike


def test_a_point_stands_above_its_rows_where_its_axes_have_no_room_and_the_range_goes_last() -> None:
    lines = [*LINES, _line(point=("forward_backward", "16384"))]
    text = fitted_table(HEADS, lines, 70).text
    assert [line for line in text.splitlines() if "=" in line] == [
        "pass=forward, seq_len=128",
        "pass=forward_backward, seq_len=16384",
    ]
    assert "1.40–1.60 ms" in text
    narrow = fitted_table(HEADS, lines, 48)
    assert "range over trials" in narrow.left_out
    assert "1.40–1.60 ms" not in narrow.text
    assert widest_line(narrow.text) <= 48


def test_a_long_subject_is_folded_and_never_cut() -> None:
    names = ["attention=sdpa_flash optimizer=adamw_fused", "attention=sdpa_flash optimizer=adamw8bit_bnb"]
    text = fitted_table(HEADS, [_line(name) for name in names], 74).text
    assert "…" not in text
    assert "optimizer=adamw_fused" in text
    assert "optimizer=adamw8bit_bnb" in text


def test_a_reason_beside_values_stands_below_its_row() -> None:
    mixed = dataclasses.replace(_line(), status="2 ok, 1 oom", reason="out of memory")
    lines = fitted_table(HEADS, [mixed, *LINES], 84).text.splitlines()
    place = next(place for place, line in enumerate(lines) if "2 ok, 1 oom" in line)
    assert "1.50 ms" in lines[place]
    assert lines[place + 1].strip() == "out of memory"


def test_a_run_is_told_whole_where_there_is_room_and_fitted_where_there_is_not(
    bench: Bench, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped = bench("show", "latest", "--db", filled.path).out
    monkeypatch.setattr(show, "terminal_columns", lambda: 400)
    assert bench("show", "latest", "--db", filled.path).out == piped
    room = max(len(line) for line in piped.splitlines() if line.endswith(filled.results[-1].id)) - 1
    monkeypatch.setattr(show, "terminal_columns", lambda: room)
    without_ids = bench("show", "latest", "--db", filled.path).out
    assert [line.split()[-1] for line in without_ids.splitlines() if line.startswith("seq_len")] == ["reason"]
    assert "left out" not in without_ids
    monkeypatch.setattr(show, "terminal_columns", lambda: 50)
    narrow = bench("show", "latest", "--db", filled.path).out
    assert narrow != piped
    assert bench("show", "latest", "--wide", "--db", filled.path).out == piped
    assert re.search(r"run +started", bench("show", "--db", filled.path).out)


def test_the_command_that_shows_every_column_is_told_with_what_is_left_out() -> None:
    run = factories.run()
    measured = (factories.measurement("time_s", (0.1,)), factories.measurement("weight_bytes", (2.0**30,)))
    rows = [factories.result(run.id, factories.case(name), measurements=measured) for name in ("eager", "flex")]
    text = case_table(run, rows, 30)
    assert "the same in all rows that have it: weights 1.00 GiB" in " ".join(text.split())
    assert text.splitlines()[-1] == f"every column: bench show {run.id[:13]} --wide"
    failed = [factories.result(run.id, status=Status.OOM, reason="too large")]
    assert "too large" in case_table(run, failed, 40)
    assert whole_table(HEADS, LINES, ids=True).count("CUDA ran out") == 1


def test_many_suites_are_planned_in_a_line_each_and_in_full_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["rms_norm", "rope", "swiglu", "optimizer"]
    options = RunOptions(profile="cpu", device="cpu")
    _, _, planned = plan_all([f"suites/{name}.yaml" for name in names], options, str(tmp_path / "no.db"))
    plan_words.say_plans(planned, budget_s=120.0, gpus=1, at_length=False)
    brief = capsys.readouterr().out
    assert [line.split()[0] for line in brief.splitlines()[2:6]] == names
    trials = sum(len(entry.plan.trials) for entry in planned)
    assert f"in all: 4 suites, {trials} trials, about " in brief
    assert "budget: 2 min; when it is spent" in brief
    assert "a plan in full: bench run SUITE --dry-run" in brief
    for room in (30, 60, 80):
        monkeypatch.setattr(plan_words, "terminal_columns", lambda room=room: room)
        plan_words.say_plans(planned, budget_s=None, gpus=1, at_length=False)
        lines = capsys.readouterr().out.splitlines()[1:6]
        assert [line.split()[0] for line in lines] == ["suite", *names]
        assert room < 45 or max(map(len, lines)) <= room
    monkeypatch.undo()
    plan_words.say_plans(planned, budget_s=None, gpus=1, at_length=True)
    full = capsys.readouterr().out
    assert full.count(" cases, ") == len(names)
    assert "1 case gets a row without being started:" in full


def test_a_table_without_times_says_why() -> None:
    run = factories.run()
    rows = [factories.result(run.id, dataclasses.replace(factories.case(), device="cpu-interpreter"))]
    for room in (None, 60):
        assert case_table(run, rows, room).splitlines()[-1] == "no time is shown: an interpreter says nothing of speed"


_CELLS = st.text("ab 日–é=", max_size=30)
_LINES = st.builds(
    Line,
    st.tuples(_CELLS, _CELLS),
    *([_CELLS] * 6),
    st.tuples(_CELLS, _CELLS, _CELLS),
    _CELLS,
    _CELLS,
)


@given(st.lists(_LINES, min_size=1, max_size=4), st.integers(1, 160))
def test_any_rows_are_told_in_any_room_and_no_finding_is_lost(lines: list[Line], room: int) -> None:
    fitted = fitted_table(HEADS, lines, room)
    held = {head for place, head in enumerate(HEADS.found) if any(line.found[place] for line in lines)}
    told = {head for head in HEADS.found if head in fitted.left_out or any(words.startswith(f"{head} ") for words in fitted.alike)}
    assert told <= held
    assert all(head.split()[0] in fitted.text for head in held - told)
