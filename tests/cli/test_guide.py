"""`bench guide`: its tables from a database and from published files, into pages of two languages, and as data."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bench.cli.guide import guide
from bench.cli.plan import plan
from bench.errors import SelectionError, StoreError
from bench.report.outputs.guide import BEGIN, END, asked_command, written_into
from bench.store import Store
from tests import factories
from tests.report.answers.test_guide_answers import FUSED, LIGER, rows, step

COMMAND = "bench run suites/llama8b.yaml --profile published --device cuda:0 --filter compile=none --budget=5m"
NUMBERS = re.compile(r"`[^`]+`|\d[\d.]*")
HAN = re.compile("[\u4e00-\u9fff]")


def bench(*arguments: object) -> Result:
    result = CliRunner().invoke(guide, [str(argument) for argument in arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with steps of an 8B model of three trials and of one, a page of each language with the tables, and the tables as data."""
    folder = tmp_path_factory.mktemp("guide")
    pages = [folder / "page.md", folder / "page.zh-TW.md"]
    for page in pages:
        page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    doubts = {"launch_bound": True, "host_ahead_share": 0.05, "warmup_stable": False}
    run, results = rows(step(FUSED, params={"model": "llama-3-8b", "layers": 32}), 1.0, 1.1, 1.2, conditions=doubts)
    short, of_short = rows(step(LIGER, seq_len=2048, params={"model": "llama-3-8b", "layers": 32}), 1.0)
    with Store.open(folder / "bench.db") as store:
        store.add_run(short)
        store.add_results(of_short)
        store.add_run(factories.run(id=run.id, suite="llama8b", suite_data=run.suite_data, command=COMMAND))
        store.add_results(results)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bench.cli.guide.MODELS", ("llama-3-8b",))
        patch.setattr("bench.report.answers.by_memory.CARDS", {"24 GB": "rtx-4090", "80 GB": "h100", "141 GB": "h200"})
        told = bench("--db", folder / "bench.db", "--write", pages[0], "--write", pages[1], "--json")
    (folder / "data.json").write_text(told.stdout, encoding="utf-8")
    return folder


def test_pages_get_the_tables_in_their_language_and_keep_what_stands_around(folder: Path) -> None:
    english, own = ((folder / name).read_text(encoding="utf-8") for name in ("page.md", "page.zh-TW.md"))
    assert english.startswith(f"before\n{BEGIN}\n**")
    assert english.endswith(f"\n{END}\nafter\n")
    assert "| 7.45 ktokens/s (6.83–8.19), 16.0 GiB, n 3†<sup>b</sup> |" in english
    assert "\n- †: the device was done almost as soon as the host had launched everything; " in english
    assert "\n- a trial's time: the median of its steps, of which it has 5 or more; " in english
    assert "\n- not yet stable when warm-up ended: 1 of 1 times\n" in english
    assert "- 8192 tokens, all weights learn, the only one measured: fused kernels, full checkpointing (7.45 ktokens/s" in english
    assert f"`{asked_command(factories.run(command=COMMAND))}`" in english
    assert Counter(NUMBERS.findall(own)) == Counter(NUMBERS.findall(english))
    text = re.sub("`[^`]*`", "", own)
    told = [part for line in text.splitlines()[2:-2] for part in re.split(r"[|(]|<[^>]*>", line)]
    assert [part for part in told if re.search("[a-z]{3,} [a-z]{3,}", part) and not HAN.search(part)] == []


def test_each_number_as_data_has_the_command_that_gives_it_again(folder: Path) -> None:
    data = json.loads((folder / "data.json").read_text(encoding="utf-8"))
    cells = data["by_length"]["cells"]
    measured = [cell for cell in cells if cell["measured"] is not None]
    assert [(cell["seq_len"], cell["measured"]["n"], cell["fastest"]) for cell in measured] == [(2048, 1, True), (8192, 3, True)]
    assert all(cell["measured"]["command"] for cell in measured)
    assert [cell["measured"]["device_may_have_waited"] for cell in measured] == [False, True]
    kinds = [kind for row in data["by_memory"] for kind in row["kinds"].values()]
    for one in (cells[-1]["predicted"], next(kind for kind in kinds if kind["host_bytes"])):
        again = CliRunner().invoke(plan, [*one["command"].split()[2:], "--json"], standalone_mode=False)
        assert json.loads(again.stdout)["peak_bytes"] == one["peak_bytes"], one["command"]


def test_a_time_stands_only_in_the_line_of_the_gpu_that_it_was_measured_on(folder: Path) -> None:
    """The memory of a step hardly depends on the card, its speed does."""
    data = json.loads((folder / "data.json").read_text(encoding="utf-8"))
    told = {name: row["kinds"]["all weights, bf16"]["measured"] for row in data["by_memory"] for name in row["gpus"]}
    assert told["h100"]["peak_bytes"] == told["h200"]["peak_bytes"]
    assert (told["h100"]["gpu"], told["h100"]["tokens_per_s"], told["h200"]["tokens_per_s"]["n"]) == ("NVIDIA H200", None, 1)
    page = (folder / "page.md").read_text(encoding="utf-8")
    other, own = (line for line in page.splitlines() if "80 GB (`h100`)" in line or "141 GB (`h200`)" in line)
    assert "measured on `h200`: 16.0 GiB, n 1<sup>a</sup>" in other
    assert "ktokens/s" not in other
    assert "measured on `h200`: 8.19 ktokens/s, 16.0 GiB, n 1<sup>a</sup>" in own


def test_a_page_without_marks_and_a_folder_without_steps_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SelectionError, match="no lines"):
        written_into("a page", "tables")
    with pytest.raises(SelectionError, match="no published training steps"):
        bench("--published", tmp_path)
    with pytest.raises(StoreError, match="bench guide --published"):
        bench("--db", tmp_path / "none.db")


def test_a_run_s_command_is_told_without_where_and_how_long_it_ran() -> None:
    assert asked_command(factories.run(command=COMMAND)) == (
        "bench run suites/llama8b.yaml --profile published --filter compile=none"
    )
