"""What the pages tell one to add is added to a copy of the package, and the commands that stand below it are performed there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.records import Status
from bench.store import Store
from tests.docs.pages import ROOT, Block, blocks

PAGES = [ROOT / "docs" / f"add-{what}.md" for what in ("a-kernel", "a-workload", "a-suite", "a-device", "an-importer")]

HYPERFINE = {
    "results": [
        {"command": "sleep 0.1", "mean": 0.101, "times": [0.1, 0.102, 0.101], "exit_codes": [0, 0, 0]},
        {"command": "false", "mean": 0.01, "times": [0.01], "exit_codes": [1]},
    ]
}


class Copy:
    """The package and its suites with all that the pages add, and a database."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / "results.db"
        self.written: list[Path] = []
        for name in ("bench", "suites"):
            shutil.copytree(ROOT / name, folder / name)
        for page in PAGES:
            for block in blocks(page):
                self._add(block)

    def _add(self, block: Block) -> None:
        if (name := block.told("file")) is not None:
            target = self.folder / name
            assert not target.exists(), f"{name} is there already"
            target.parent.mkdir(exist_ok=True)
            target.write_text(block.text)
            self.written.append(target)
        elif (name := block.told("append")) is not None:
            with (self.folder / name).open("a") as file:
                file.write(block.text)
        elif (name := block.told("first")) is not None:
            # The one table of that module: the entry is its first.
            head, opening, rest = (self.folder / name).read_text().partition("...] = (\n")
            (self.folder / name).write_text(head + opening + block.text + rest)

    def run(self, *words: str) -> str:
        """What a command says; it must succeed."""
        variables = {**os.environ, "PYTHONPATH": str(self.folder), "BENCH_DB": str(self.database)}
        done = subprocess.run([sys.executable, *words], cwd=self.folder, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def commands(self, page: str) -> Iterator[list[str]]:
        """The lines of the page's blocks that call bench."""
        (found,) = [path for path in PAGES if path.name == page]
        for block in blocks(found):
            if not block.words:
                yield from (line.split()[1:] for line in block.text.splitlines() if line.startswith("bench "))

    def statuses(self) -> dict[str, set[Status]]:
        """How the rows of the newest run ended, by subject."""
        with Store.open(self.database, create=False, read_only=True) as store:
            rows = store.results([store.runs()[0].id])
        ended: dict[str, set[Status]] = {}
        for row in rows:
            ended.setdefault(row.trial.case.subject_label, set()).add(row.status)
        return ended


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("copy"))


def test_what_the_pages_add_keeps_the_rules_of_the_house(copy: Copy) -> None:
    assert len(copy.written) == 5
    python = [str(path) for path in copy.written if path.suffix == ".py"]
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--config", str(ROOT / "pyproject.toml"), *python],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_kernel_is_one_file_here_or_anywhere_and_one_with_wrong_numbers_is_caught(copy: Copy) -> None:
    listed, measured, outside = copy.commands("add-a-kernel.md")
    assert re.search(r"^rms_norm +by_length +installed", copy.run("-m", "bench", *listed), re.MULTILINE)
    copy.run("-m", "bench", *measured)
    assert copy.statuses() == {"eager": {Status.OK}, "by_length": {Status.OK}}
    # The page's other way: the same function in a file of its own. Beside it one that is ten per cent off.
    inside = (copy.folder / "bench/workloads/rms_norm/by_length.py").read_text()
    alone = inside.replace("@implementation(", '@implementation(workload="rms_norm", ').replace("def by_length(", "def my_norm(")
    (copy.folder / "my_norm.py").write_text(alone)
    wrong = alone.replace("def my_norm(", "def wrong_norm(").replace("return self.weight *", "return 1.1 * self.weight *")
    assert wrong.count("1.1") == 1
    (copy.folder / "wrong_norm.py").write_text(wrong)
    words = [word.replace("my_norm", "my_norm,wrong_norm") if "=" in word else word for word in outside]
    copy.run("-m", "bench", *words, "--plugin", "wrong_norm.py", "--set", "seq_len=64", "--filter", "pass=forward", "--trials", "1")
    assert copy.statuses() == {"eager": {Status.OK}, "my_norm": {Status.OK}, "wrong_norm": {Status.INCORRECT}}


@pytest.mark.slow
def test_a_workload_is_a_folder_and_a_suite_asks_about_it(copy: Copy) -> None:
    assert re.search(r"^squared_relu +", copy.run("-m", "bench", "list", "workloads"), re.MULTILINE)
    planned, measured, shown = copy.commands("add-a-suite.md")
    assert "4 cases" in copy.run("-m", "bench", *planned)
    copy.run("-m", "bench", *measured)
    assert copy.statuses() == {"eager": {Status.OK}}
    assert "squared_relu" in copy.run("-m", "bench", *shown)
    with Store.open(copy.database, create=False, read_only=True) as store:
        rows = store.results([store.runs(suite="squared_relu")[0].id])
    assert len(rows) == 4
    for row in rows:
        assert len(row.checks) >= 2, "of the small problem and of the measured one"
        assert all(check.passed for check in row.checks)


def test_a_gpu_is_a_line_in_each_of_two_tables(copy: Copy) -> None:
    for words in copy.commands("add-a-device.md"):
        assert "yes" in copy.run("-m", "bench", *words)
    told = copy.run("-c", "from bench.machine.datasheet import data_sheet; print(data_sheet('NVIDIA L40S').bandwidth)")
    assert float(told) == 864e9


def test_an_importer_is_one_file_and_keeps_what_failed_apart(copy: Copy) -> None:
    (copy.folder / "times.json").write_text(json.dumps(HYPERFINE))
    imported, shown = copy.commands("add-an-importer.md")
    assert "2 results are new" in copy.run("-m", "bench", *imported)
    assert "0 results are new" in copy.run("-m", "bench", *imported)
    line = next(line for line in copy.run("-m", "bench", *shown).splitlines() if "imported:hyperfine" in line)
    assert line.split()[1:4] == ["unknown", "imported:hyperfine", "unknown"], "neither its start nor its device are told"
    with Store.open(copy.database, create=False, read_only=True) as store:
        rows = store.results([store.runs(suite="imported:hyperfine")[0].id])
    assert [(row.status, row.measurements != ()) for row in rows] == [(Status.OK, True), (Status.FAILED, False)]
