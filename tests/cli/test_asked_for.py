"""What was typed is what is done: endings of files say the format, limits hold first, and printed commands are those asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.cli import options
from bench.plan.fits import CONTEXT_STEP, LONGEST
from tests.cli.conftest import Bench, Filled


def test_more_trials_than_a_suite_may_ask_for_are_refused_at_once(bench: Bench) -> None:
    schema = json.loads(bench("schema").out)
    assert schema["$defs"]["ProtocolForm"]["properties"]["trials"]["maximum"] == options.MOST_TRIALS
    for command in (("run", "attention", "--dry-run"), ("rerun", "0"), ("night", "attention")):
        said = bench(*command, "--trials", str(options.MOST_TRIALS + 1))
        assert (said.code, "'--trials'" in said.err) == (2, True)


@pytest.mark.parametrize("command", [("report", "-o"), ("run", "rms_norm", "--profile", "cpu", "--dry-run", "--report")])
def test_a_page_is_never_written_under_another_ending(
    bench: Bench, filled: Filled, tmp_path: Path, command: tuple[str, ...]
) -> None:
    said = bench(*command, tmp_path / "page.pdf", "--db", filled.path)
    assert (said.code, "no report is written as .pdf" in said.err) == (2, True)
    assert not (tmp_path / "page.pdf").exists()


def test_the_ending_of_a_file_says_the_format_and_what_is_typed_comes_first(bench: Bench, tmp_path: Path) -> None:
    for ending, start in ((".json", "{"), (".md", ""), (".html", "<!doctype html>"), (".txt", "verdict")):
        bench("claims", "--only", "copy-32gb", "--published", "results/published", "-o", tmp_path / f"claims{ending}")
        text = (tmp_path / f"claims{ending}").read_text(encoding="utf-8")
        assert text.lower().startswith(start)
        assert ending != ".md" or "| --- |" in text
    bench("claims", "--only", "copy-32gb", "--published", "results/published", "--format", "text", "-o", tmp_path / "typed.json")
    assert (tmp_path / "typed.json").read_text(encoding="utf-8").startswith("verdict")


def test_a_guide_names_the_command_that_made_it(bench: Bench, filled: Filled) -> None:
    assert f"again: `bench guide --db {filled.path} --gpu h100`" in bench("guide", "--gpu", "h100", "--db", filled.path).out


def test_where_a_search_ended_the_longest_context_is_told_as_the_least(bench: Bench) -> None:
    said = bench("plan", "--model", "tiny", "--gpu", "h200").out
    assert f"≥{LONGEST}" in said
    assert f"more than {LONGEST} tokens of a micro-batch were not looked at" in said
    ways = json.loads(bench("plan", "--model", "tiny", "--gpu", "h200", "--json").out)["choices"]
    assert {way["longest_context"] == LONGEST // CONTEXT_STEP * CONTEXT_STEP for way in ways} == {True, False}
    assert [way["longest_context_is_least"] for way in ways] == [way["longest_context"] == LONGEST for way in ways]
    assert "≥8" not in bench("plan", "--gpu", "h200").out
