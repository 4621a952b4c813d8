from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.machine import find_device
from bench.records import Protocol
from bench.run.selftest import Verdict, selftest
from bench.run.selftest.comparison import Comparisons
from bench.run.selftest.session import NotMeasured, open_session
from tests.run.laboratory import marked

QUICK = Protocol(trials=1, timeout_s=60.0, min_samples=5, max_samples=20, min_sampling_s=0.0, max_sampling_s=0.2, max_warmup_s=0.05)


@pytest.mark.slow
def test_the_cpu_proves_itself_and_whatever_is_missed_has_an_excuse(own_temporary_folder: Path) -> None:
    # A busy machine needs more than the minute that people are asked to wait.
    report = selftest(find_device("cpu"), budget_s=240.0)
    by_part: dict[str, list[Verdict]] = {}
    for line in report.judgements:
        by_part.setdefault(line.part, []).append(line.verdict)
        assert line.verdict is Verdict.PASS or line.reason or line.measured is not None
    assert list(by_part) == ["zero", "spins", "memory", "slow-down", "other timers", "spread between processes"]
    assert by_part["memory"] == [Verdict.PASS]  # bytes do not hang on who else computes here
    assert len(by_part["spins"]) == len(by_part["slow-down"]) == 3
    assert not marked(str(own_temporary_folder))


def test_without_time_every_part_says_so_and_none_is_missing() -> None:
    report = selftest(find_device("cpu"), budget_s=1e-9)
    assert {line.verdict for line in report.judgements} == {Verdict.CANNOT_TELL}
    assert report.exit_code == 3
    assert len({line.part for line in report.judgements}) == 6


@pytest.mark.slow
def test_the_comparing_process_ends_with_its_reason_and_leaves_nothing(own_temporary_folder: Path) -> None:
    with open_session(find_device("cpu"), budget_s=60.0, wait=True, notice=print) as session:
        case = session.case("matmul", "torch_matmul", m=8, n=8, k=8)
        wrong = session.case("matmul", "no_such_way", m=8, n=8, k=8)
        with Comparisons(session, {"right": case, "wrong": wrong}, rounds=2, protocol=QUICK) as running:
            running.ask()
            found = running.answer("right", 60.0)
            assert len(found.rounds("wall")) == len(found.rounds("torch_timer")) == 2
            with pytest.raises(NotMeasured, match="do_bench"):
                found.rounds("do_bench")
            with pytest.raises(NotMeasured, match="no_such_way"):
                running.answer("wrong", 60.0)
            with pytest.raises(NotMeasured, match="ended"):
                running.answer("never_asked_for", 60.0)
        running.end()
    assert not marked(str(own_temporary_folder))


@pytest.mark.slow
def test_ctrl_c_ends_the_command_with_130_and_leaves_no_process(own_temporary_folder: Path) -> None:
    command = [sys.executable, "-m", "bench", "selftest", "--device", "cpu", "--json"]
    process = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(own_temporary_folder)}, stdout=subprocess.PIPE, text=True)
    # Its folder is made after the handler of signals stands.
    while not list(own_temporary_folder.iterdir()):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    with pytest.raises(ValueError):
        json.loads(output)
    assert not marked(str(own_temporary_folder))
    assert not [path for path in own_temporary_folder.iterdir() if "selftest" in path.name]
