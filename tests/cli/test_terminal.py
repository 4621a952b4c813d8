"""Text that others wrote, on a terminal."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.cli.terminal import counted, json_text, say, say_json, shortened, speak_any_locale, table, width
from bench.plaintext import plain


def test_control_characters_are_spelled_out() -> None:
    assert plain("a\x1b[31mred\x07\u202ebidi\r\n") == "a\\x1b[31mred\\x07\\x202ebidi\\x0d\\x0a"
    assert plain("a\nb\tc\x00", lines=True) == "a\nb\tc\\x00"


@given(st.text())
def test_plain_text_is_one_line_and_never_steers(text: str) -> None:
    shown = plain(text)
    assert "\n" not in shown
    assert "\x1b" not in shown
    assert plain(shown) == shown


def test_columns_line_up_also_with_wide_and_combining_characters() -> None:
    lines = table(("name", "n"), [("日本", "1"), ("e\u0301", "22")], right=(1,)).splitlines()
    assert [width(line) for line in lines] == [width(lines[0])] * 3


def test_long_cells_are_cut_and_say_so() -> None:
    assert shortened("x" * 61, 60) == "x" * 59 + "…"
    assert shortened("x" * 60, 60) == "x" * 60


def test_a_table_without_rows_has_its_heads() -> None:
    assert table(("a", "b"), []) == "a  b"


def test_json_spells_out_what_would_steer_a_terminal_and_stays_the_same_data() -> None:
    data = {"reason": "a\x1b[2J\x9b1m\u202eb\u200b\x7f\U000e0001é\n"}
    text = json_text(data)
    assert json.loads(text) == data
    assert all(char == "\n" or char.isprintable() for char in text)
    assert "é" in text


def test_a_locale_without_our_signs_gets_them_spelled_and_loses_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="latin-1"))
    speak_any_locale()
    say("103–105 ms … 1.2× é 日")
    say_json({"reason": "103–105 日"})
    sys.stdout.flush()
    first, *rest = written.getvalue().decode("latin-1").split("\n")
    assert first == "103-105 ms ... 1.2× é ?"
    assert json.loads("\n".join(rest)) == {"reason": "103–105 日"}


@pytest.mark.parametrize("encoding", ["latin-1", "big5", "koi8-r"])
def test_a_command_ends_well_in_any_locale(encoding: str) -> None:
    command = [sys.executable, "-m", "bench", "list", "metrics"]
    told = subprocess.run(command, env={**os.environ, "PYTHONIOENCODING": encoding}, capture_output=True, check=True).stdout
    assert "time_s" in told.decode(encoding)


def test_one_is_one_and_two_are_many() -> None:
    assert (counted(0, "block"), counted(1, "block"), counted(2, "block")) == ("0 blocks", "1 block", "2 blocks")
