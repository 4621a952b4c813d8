"""A mistake in a kernel's file that lies where it should is its author's: one sentence with file and line."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import bench.workloads
from bench.catalogue import Catalogue, load_catalogue
from bench.cli import main
from bench.errors import PluginError, SelectionError
from tests.catalogue.test_finding import WORKLOAD

WAY = """
    from bench.declare import implementation

    @implementation(dtypes=["fp32"])
    def way(spec): ...
"""
OTHER = WORKLOAD.replace('"toy"', '"other"')

Write = Callable[..., Path]


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Two workloads with a way each instead of ours: `folders("toy/mine.py", text)` adds a file."""
    root = tmp_path / "workloads"
    names = ("toy", "other", "toyy", "lonely")
    monkeypatch.setattr(bench.workloads, "__path__", [str(root)])

    def write(name: str, text: str) -> Path:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    for name, workload in (("toy", WORKLOAD), ("other", OTHER)):
        write(f"{name}/__init__.py", workload)
        write(f"{name}/way.py", WAY)
    yield write
    for module in [module for module in sys.modules if module.startswith(tuple(f"bench.workloads.{name}" for name in names))]:
        del sys.modules[module]
    for name in names:
        bench.workloads.__dict__.pop(name, None)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def broken(:\n", ":1: SyntaxError: invalid syntax"),
        ("\nimport nothing_of_that_name\n", ":2: ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("raise SystemExit(3)\n", ":1: SystemExit: 3"),
        (WAY.replace("fp32", "float32"), ":4: TypeError: unknown dtypes float32 (did you mean 'fp32'?); known: fp32"),
        (WAY.replace('dtypes=["fp32"]', 'workload="other"'), ":4: way: it lies in the folder of toy and says workload='other'"),
        (WAY, ":4: toy has an implementation named 'way' already, in "),
        (
            WAY.replace("dtypes", "requires").replace("fp32", "no requirement!"),
            ":4: way: requires 'no requirement!' is not a requirement",
        ),
        (
            "x = 1\n",
            ": it declares no implementation; decorate a builder with @implementation(...), or let the file's name begin with _",
        ),
        ("from bench.workloads.toy.way import way\n", ": it declares no implementation"),
    ],
)
def test_a_mistake_in_a_file_is_one_sentence_with_its_place(
    folders: Write, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    # Before the good one in the order of names, unless it is to come second.
    path = folders("toy/zz.py" if "already" in told else "toy/a_way.py", text)
    assert main(["list", "implementations"]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.startswith(f"bench: {path}{told}")
    assert list(load_catalogue().implementations("other")) == ["way"], "and nobody else is concerned"
    assert load_catalogue().workload("other").version == 3


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (WORKLOAD.replace('name = "toy"', 'name = "toys"'), ": WORKLOAD is named 'toys', and its folder 'toy': give both one name"),
        (WORKLOAD.replace("version = 3", ""), ": WORKLOAD: it lacks version"),
        ("WORKLOAD = 3\n", ": WORKLOAD: it must be an instance of bench.declare.Workload, not int"),
        (WORKLOAD.replace("def slice", "def part"), "Can't instantiate abstract class Toy"),
        ("import nothing_of_that_name\n", ":1: ModuleNotFoundError: "),
    ],
)
def test_a_mistake_in_a_workload_is_one_too_and_breaks_only_who_asks_for_it(folders: Write, text: str, told: str) -> None:
    path = folders("toy/__init__.py", text)
    catalogue = load_catalogue()
    assert catalogue.workload("other").name == "other"
    assert list(catalogue.implementations("other")) == ["way"]
    with pytest.raises(PluginError) as caught:
        catalogue.workload("toy")
    assert str(caught.value).startswith(str(path))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_mistake_in_a_file_that_others_import_is_told_at_its_own_place(folders: Write) -> None:
    helper = folders("other/_parts.py", "\n\nraise ValueError('not so')\n")
    folders("toy/mine.py", "from bench.workloads.other import _parts\n")
    with pytest.raises(PluginError) as caught:
        load_catalogue().implementations("toy")
    assert str(caught.value) == f"{helper}:3: ValueError: not so"


def test_a_mistake_once_mended_is_gone(folders: Write) -> None:
    folders("toy/mine.py", "import nothing_of_that_name\n")
    catalogue = load_catalogue()
    with pytest.raises(PluginError):
        catalogue.implementations("toy")
    # Of another length: within a second the interpreter tells a source from an older one by that.
    folders("toy/mine.py", WAY.replace("def way", "def mine_at_last"))
    assert "mine_at_last" in catalogue.implementations("toy")


def test_a_folder_that_nothing_looks_into_is_told(folders: Write) -> None:
    assert load_catalogue().problems == ()
    lost = folders("toyy/mine.py", WAY.replace("def way", "def mine"))
    folders("lonely/__init__.py", "")
    by_folder = {Path(problem.file or "").name: problem for problem in load_catalogue().problems}
    assert list(by_folder) == ["toyy", "lonely"]
    assert "it has no __init__.py" in by_folder["toyy"].message
    assert by_folder["toyy"].suggestion == "toy"
    assert "it declares no WORKLOAD, and none has a slot of this name" in by_folder["lonely"].message
    with pytest.raises(SelectionError, match=r"unknown implementation of toy 'mine'.*known: way") as caught:
        load_catalogue().implementation("toy", "mine")
    assert str(caught.value).endswith(f"; {lost} is in no slot, since its folder has no __init__.py")


def test_a_name_of_another_slot_is_told_as_such_and_a_broken_folder_does_not_hide_it(folders: Write) -> None:
    folders("other/mine.py", WAY.replace("def way", "def mine"))
    folders("toy/_left.py", "")
    catalogue = Catalogue()
    with pytest.raises(SelectionError, match=r"^unknown implementation of toy 'mine'; known: way; 'mine' is one of other$"):
        catalogue.implementation("toy", "mine")
    folders("lonely/__init__.py", "")
    folders("lonely/mine.py", "import nothing_of_that_name\n")
    assert Catalogue().elsewhere("mine") == "'mine' is one of other"
    assert Catalogue().elsewhere("yours") is None


def test_what_imports_torch_at_its_top_is_told_once_with_what_it_costs(
    folders: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = sys.modules.pop("torch", None)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "torch.py").write_text("print('a banner')\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    try:
        path = folders("toy/heavy.py", "import torch\n" + textwrap.dedent(WAY).replace("def way", "def heavy"))
        catalogue = load_catalogue()
        assert "heavy" in catalogue.implementations("toy")
        assert catalogue.implementations("toy")
    finally:
        del sys.modules["torch"]
        if real is not None:
            sys.modules["torch"] = real
    (notice,) = catalogue.notices
    assert notice.startswith(f"{path}: importing it imports torch too, so every command that reads it takes ")
    assert notice.endswith("inside the builder")
    assert load_catalogue().notices == []
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "a banner\n"), "output of ours may be read by a program"


def test_a_broken_folder_does_not_hide_suites_of_others(folders: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("toy", "other"):
        sweep = "sweep: {size: [1], dtype: [fp32], pass: [forward]}"
        text = f"schema: 1\nname: {name}\nquestion: Which?\nworkload: {name}\nsubjects: {{{name}: [way]}}\n{sweep}\n"
        (tmp_path / f"{name}.yaml").write_text(text)
    path = folders("toy/mine.py", "import nothing_of_that_name\n")
    assert main(["list", "suites", "--suites", str(tmp_path), "--json"]) == 0
    rows = {Path(row["file"]).stem: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["other"]["name"], rows["other"]["problems"]) == ("other", [])
    assert rows["toy"]["problems"] == [f"{path}:1: ModuleNotFoundError: No module named 'nothing_of_that_name'"]


def test_a_broken_folder_does_not_keep_others_from_being_imported_before_trials(folders: Write) -> None:
    from bench.worker.subject import import_declarations

    folders("toy/__init__.py", "raise ValueError('not so')\n")
    folders("other/a_way.py", "raise SystemExit(3)\n")
    import_declarations()
    assert "bench.workloads.other.way" in sys.modules
    assert "bench.workloads.other.a_way" not in sys.modules
