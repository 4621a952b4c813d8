"""The command of a row: typed by a stranger, it selects that case and no other."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

import pytest

from bench.catalogue import load_catalogue
from bench.run.commands import case_command, run_command
from bench.run.options import RunOptions
from bench.suite import expand, load_suite, parse_filters

_SUITE = """
schema: 1
name: many
question: Which?
workload: attention
subjects: {attention: [eager, sdpa_flash]}
sweep:
  model: [tiny, {from: tiny, heads: [4, 8], kv_heads: [2, 4]}]
  seq_len: [16, 32]
  batch: [{tokens: 32}]
  dtype: [fp32, bf16]
  pass: [forward]
  mask: [causal, full]
profiles: {short: {seq_len: [16]}}
"""


@pytest.mark.parametrize("profile", [None, "short"])
def test_each_case_of_a_suite_has_a_command_that_selects_it_alone(tmp_path: Path, profile: str | None) -> None:
    file = tmp_path / "a suite's file.yaml"
    file.write_text(_SUITE)
    catalogue = load_catalogue()
    options = RunOptions(suite_file=str(file), profile=profile, sets=("protocol.timeout_s=9",))
    suite = load_suite(file, catalogue, profile=profile, sets=options.sets)
    cases = expand(suite, catalogue, device="cpu").cases
    assert len(cases) > 10
    for case in cases:
        words = shlex.split(case_command(case, suite, options, trials=3))
        assert words[:3] == ["bench", "run", str(file)]
        assert words[words.index("--set") + 1] == "protocol.timeout_s=9"
        assert words[words.index("--device") + 1] == "cpu"
        assert words[-2:] == ["--trials", "3"]
        filters = [words[i + 1] for i, word in enumerate(words) if word == "--filter"]
        assert expand(suite, catalogue, device="cpu", filters=parse_filters(filters)).cases == (case,)


def test_the_command_of_a_run_holds_all_that_decides_what_is_measured() -> None:
    options = RunOptions("suites/a b.yaml", "cpu", ("x=1",), ("y=a,b",), 3, (1, 2), 90.0, "label", "cpu", ("/p q.py",), 7)
    assert run_command(options) == (
        "bench run 'suites/a b.yaml' --profile cpu --set x=1 --plugin '/p q.py' --device cpu --filter y=a,b --trials 3 --shard 1/2"
        " --budget 90s --seed 7"
    )


def test_a_secret_in_an_option_is_not_in_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_TOKEN", "abcdef123456")
    options = dataclasses.replace(RunOptions("a.yaml"), plugins=("/home/abcdef123456/p.py",))
    assert "abcdef123456" not in run_command(options)
