"""`bench audit` with a real training in a process of its own: what it prints, stores and passes on, and what it says of wrong usage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.audit.session import _typed
from bench.cli import main
from bench.store import Store
from tests.cli.conftest import Bench

LOOP = """
import os
import sys
import torch

layers = [torch.nn.Linear(256, 256) for _ in range(8)]
model = torch.nn.Sequential(torch.nn.Embedding(32, 256), *layers, torch.nn.Linear(256, 32))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
for step in range(1000):
    batch = torch.randint(0, 32, (4, 8))
    loss = torch.nn.functional.cross_entropy(model(batch).flatten(0, 1), batch.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, flush=True)
    if step == 14 and sys.argv[1:] == ["crash"]:
        raise RuntimeError("no more " + os.environ["SOME_TOKEN"])
"""


@dataclass(frozen=True)
class Lab:
    """A database with an audit of a loop in it, and what the command wrote."""

    database: Path
    script: Path
    code: int
    out: str
    err: str
    files: Path


def typed(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *map(str, arguments)], capture_output=True, text=True, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "SOME_TOKEN": "abcdef-not-for-you"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    folder = tmp_path_factory.mktemp("audit")
    script, database, files = folder / "train.py", folder / "audits.db", folder / "files"
    script.write_text(LOOP)
    done = typed(
        "audit", "--steps", "12", "--label", "first", "--db", database, "--output", files, "--",
        sys.executable, script, "--token", "abcdef-not-for-you",
    )  # fmt: skip
    return Lab(database, script, done.returncode, done.stdout, done.stderr, files)


def test_the_scripts_output_stays_its_own_and_ends_with_the_steps(lab: Lab) -> None:
    assert lab.code == 0
    lines = lab.out.splitlines()
    assert lines == [f"step {number}" for number in range(len(lines))]
    assert 11 <= len(lines) <= 12


def test_findings_come_after_it_on_stderr_with_what_to_do_next(lab: Lab) -> None:
    assert "train.py on cpu, a loop of its own: 12 updates seen, 7 of them timed" in lab.err
    assert "AdamW of torch, foreach" in lab.err
    assert "Findings" in lab.err
    assert "bench audit --compare" in lab.err


def test_the_same_text_and_the_data_lie_in_the_folder(lab: Lab) -> None:
    assert (lab.files / "audit.txt").read_text().strip() in lab.err
    data = json.loads((lab.files / "audit.json").read_text())
    assert data["audit"]["ranks"][0]["ended"]["how"] == "stopped"
    assert data["timed_steps"] == 7


def test_no_secret_is_printed_or_stored(lab: Lab) -> None:
    with Store.open(lab.database, create=False, read_only=True) as store:
        run = store.find_run("first")
        kept = f"{run.command} {store.results([run.id])[0].conditions}"
    assert "[secret]" in kept
    assert "not-for-you" not in f"{kept}{lab.err}{lab.out}{(lab.files / 'audit.json').read_text()}"


def test_show_tells_it_anew_and_marks_whose_it_is(lab: Lab, bench: Bench) -> None:
    listed = bench("show", "--db", lab.database)
    assert "external:train.py" in listed.out
    said = bench("audit", "--show", "first", "--db", lab.database)
    assert said.out.strip() in lab.err
    again = bench("show", "first", "--db", lab.database)
    assert "Findings" in again.out
    row = bench(
        "show", json.loads(bench("audit", "--show", "first", "--json", "--db", lab.database).out)["result"], "--db", lab.database
    )
    assert "measured_by = external" in row.out
    assert "Findings" in row.out
    assert "audit.ranks" not in row.out


def test_a_crash_is_the_scripts_own_and_with_json_its_output_goes_to_stderr(lab: Lab, bench: Bench) -> None:
    done = typed(
        "audit", "--steps", "40", "--label", "crashed", "--json", "--db", lab.database, "--", sys.executable, lab.script, "crash"
    )
    assert done.returncode == 1
    data = json.loads(done.stdout)
    assert data["status"] == 1
    assert data["findings"][0]["name"] == "ending"
    assert "RuntimeError: no more [secret]" in data["findings"][0]["text"]
    assert "not-for-you" not in done.stdout
    assert "RuntimeError: no more" in done.stderr
    assert "step 14" in done.stderr
    said = bench("audit", "--compare", "first", "crashed", "--db", lab.database)
    assert said.code == 0
    assert said.out.startswith("crashed against first")
    refused = bench("compare", "first", "crashed", "--db", lab.database)
    assert refused.code == 2
    assert "bench audit --compare" in refused.err


def test_a_command_that_trains_nothing_keeps_its_status(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--no-store", "--", "sh", "-c", "echo hello; exit 7"]) == 7
    seen = capfd.readouterr()
    assert seen.out == "hello\n"
    assert "no update of weights was seen" in seen.err


def test_options_behind_the_command_are_the_commands(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--no-store", "sh", "-c", 'echo "$@"', "sh", "--steps", "3", "--bf16", "--json"]) == 0
    assert capfd.readouterr().out == "--steps 3 --bf16 --json\n"


def test_a_folder_that_cannot_be_written_is_told_before_the_command_begins(tmp_path: Path, bench: Bench) -> None:
    (tmp_path / "file").touch()
    said = bench("audit", "--no-store", "-o", tmp_path / "file" / "within", "--", "touch", tmp_path / "ran")
    assert (said.code, "cannot be written" in said.err) == (2, True)
    assert not (tmp_path / "ran").exists()


def test_words_after_a_secret_option_are_masked_however_they_are_quoted() -> None:
    words = ("--password", "p@ss w!rd", "--api-key=x y'z", "--token", "12", "--tokens", "512", "--use-token", "--lr")
    told = _typed(["python", "a b.py", *words])
    assert told == "python 'a b.py' --password [secret] --api-key=[secret] --token 12 --tokens 512 --use-token --lr"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["audit"], "say what to run after --"),
        (["audit", "--steps", "2", "--", "true"], "--steps must be at least 8"),
        (["audit", "--no-store", "--", "no-such-command"], "cannot be started"),
        (["audit", "--compare", "one"], "takes two audits"),
        (["audit", "--show", "latest", "--", "true"], "leave the command out"),
        (["audit", "--show", "latest", "--db", "no-such.db"], "no database at"),
    ],
)
def test_wrong_usage_says_what_to_do(arguments: list[str], words: str, bench: Bench) -> None:
    said = bench(*arguments)
    assert said.code == 2
    assert words in said.err
