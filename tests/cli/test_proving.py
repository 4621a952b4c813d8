"""`bench selftest` and `bench doctor`: what they print of what was found, and how they exit."""

from __future__ import annotations

import json

import pytest

import bench.run.doctor
import bench.run.selftest
from bench.cli import main
from bench.machine.findings import ok, problem, warn
from bench.run.selftest import Report
from bench.run.selftest.judgement import Judgement, at_most, cannot_tell, exact, slow_down, spin, spread

PASSED = (
    at_most("zero", "call that does nothing", 340e-9, 5e-6, "s", "≤ 5 µs"),
    spin("spins", "busy wait of 1 ms", 1e-3, [[1.0012e-3]]),
    exact("memory", "peak", 8_000_004, 8_000_004),
    slow_down("slow-down", 0.02, 1.02, [1.0, 1.0], [1.019, 1.021]),
    spread("spread", "matmul, in ms", [[1.0], [1.001], [0.999]], 0.01),
)


def found(monkeypatch: pytest.MonkeyPatch, *lines: Judgement) -> None:
    monkeypatch.setattr(bench.run.selftest, "selftest", lambda _device, **_: Report("A CPU", lines, 12.3))


def test_the_table_has_what_was_expected_measured_and_allowed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found(monkeypatch, *PASSED)
    assert main(["selftest", "--device", "cpu"]) == 0
    text = capsys.readouterr().out
    for words in (
        "340 ns",
        "1.001 ms",
        "± 0.5 %",
        "8000004 B",
        "1.0200 (1.0190 – 1.0210)",
        "0.10 % (within one",
        "5 pass, in 12 s",
    ):
        assert words in text, words


def test_a_miss_exits_with_1_and_a_reason_stands_below_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found(monkeypatch, *PASSED, exact("memory", "peak", 1, 2), cannot_tell("other timers", "all of it", "no Triton \x1b[31m here"))
    assert main(["selftest", "--device", "cpu"]) == 1
    text = capsys.readouterr().out
    assert "MISS" in text
    assert "other timers, all of it: no Triton \\x1b[31m here" in text


def test_what_cannot_be_told_exits_with_3(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found(monkeypatch, *PASSED, cannot_tell("other timers", "all of it", "why"))
    assert main(["selftest", "--device", "cpu"]) == 3
    assert "can't tell here" in capsys.readouterr().out


def test_json_has_every_number_in_si_units(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found(monkeypatch, *PASSED)
    assert main(["selftest", "--device", "cpu", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["judgements"][1]["measured"] == pytest.approx(1.0012e-3)
    assert {line["verdict"] for line in data["judgements"]} == {"pass"}


FINDINGS = [ok("python", "Python 3.11"), warn("memory", "little", "free some"), problem("torch", "broken\nbadly", "install it")]


def test_the_doctor_says_what_to_do_and_fails_on_problems_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench.run.doctor, "examine", lambda *_, **__: FINDINGS)
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "PROBLEM broken\n          badly\n          → install it" in text
    assert "1 problem, 1 warning, 1 in order" in text
    monkeypatch.setattr(bench.run.doctor, "examine", lambda *_, **__: FINDINGS[:2])
    assert main(["doctor"]) == 0


def test_the_doctors_json_has_all_findings(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(bench.run.doctor, "examine", lambda *_, **__: FINDINGS)
    assert main(["doctor", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert [finding["severity"] for finding in data["findings"]] == ["ok", "warn", "problem"]
