"""A night whose device somebody else holds: it waits as long as its budget, and then says why it judged nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.cli import main
from bench.run.locks import device_lock
from bench.store import Store
from tests.cli.conftest import Bench

SUITE = """
schema: 1
name: small
question: Which?
workload: rms_norm
subjects: {rms_norm: [eager]}
sweep: {model: [tiny], seq_len: [32], batch: [1], dtype: [fp32], pass: [forward]}
protocol: {trials: 1}
"""


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The suite's file, while another run has the CPU."""
    monkeypatch.setenv("BENCH_LOCK_DIR", str(tmp_path / "locks"))
    (tmp_path / "small.yaml").write_text(SUITE)
    with device_lock("cpu", run_id="run-1", command="bench run other.yaml"):
        yield tmp_path / "small.yaml"


def test_a_night_waits_for_its_device_as_long_as_its_budget_and_says_who_held_it(held: Path, bench: Bench) -> None:
    words = ("night", held, "--device", "cpu", "--db", held.parent / "nights.db")
    night = bench(*words, "--budget", "1s")
    assert night.code == 3, night.err
    assert "could not judge: cpu was held all the while that there was time to wait, by process" in night.out
    assert "other.yaml" in night.out
    assert "all of it" not in night.out  # there is no run to look at
    told = json.loads(bench(*words, "--budget", "1s", "--json").out)
    assert (told[0]["exit_code"], told[0]["judgement"]) == (3, None)
    with Store.open(held.parent / "nights.db", create=False, read_only=True) as store:
        assert store.runs() == []


def test_a_night_that_may_not_wait_names_no_run_either(held: Path, bench: Bench) -> None:
    night = bench("night", held, "--device", "cpu", "--no-wait", "--db", held.parent / "nights.db")
    assert (night.code, "RUN" in night.out) == (2, False)
    assert "cpu is held by process" in night.out


def test_who_waits_is_shown_for_whom_on_a_terminal_and_cron_hears_nothing(
    held: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["night", str(held), "--device", "cpu", "--budget", "1s", "--db", str(held.parent / "nights.db")]
    assert main(words) == 3
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert main(words) == 3
    assert "waiting for cpu, held by process" in capsys.readouterr().err
