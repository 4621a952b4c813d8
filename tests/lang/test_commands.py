"""`--lang zh-TW` as a user calls it: a plan, its figure, a page with its figures, and what has no language."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bench.cli import cli
from bench.cli.terminal import width
from bench.store import Store
from tests.report.chromium import sample

HAN = re.compile("[\u4e00-\u9fff]")
PLAN = ("plan", "--model", "llama-3-8b", "--seq-len", "16384", "--gpu", "h200")


def bench(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lang") / "bench.db"
    runs, rows = sample("crossing")
    with Store.open(path) as store:
        for run in runs:
            store.add_run(run)
        for row in rows:
            store.add_result(row)
    return path


def test_a_plan_has_the_same_numbers_in_chinese_and_no_line_of_it_stays_english() -> None:
    english, own = bench(*PLAN).stdout, bench(*PLAN, "--lang", "zh-TW").stdout
    numbers = re.compile(r"\d+(?:\.\d+)?")
    assert numbers.findall(own) == numbers.findall(english)
    lines = own.splitlines()
    assert all(HAN.search(line) for line in lines if line and not re.match(r"\d+ ", line))
    starts = {width(line.rpartition("  ")[0]) for line in lines if re.match(r"\d+ |列", line)}
    assert len(starts) == 1  # the last column begins in one place, though characters are twice as wide


@pytest.mark.parametrize(("offload", "gpus"), [("parameters", 8), ("optimizer_nvme", 1)])
def test_what_lies_off_the_gpu_is_said_in_chinese_too(offload: str, gpus: int) -> None:
    words = ("plan", "--seq-len", "2048", "--precision", "bf16_master", "--attention", "sdpa_flash", "--checkpointing", "full",
             "--sharding", "zero3", "--optimizer", "adamw_cpu_deepspeed", "--offload", offload, "--world-size", gpus,
             "--gpu", "h200", "--host-memory", "100GB")  # fmt: skip
    said = bench(*words, "--lang", "zh-TW")
    lines = [line for line in (said.stdout + said.stderr).splitlines() if not re.match(r"\d+ ", line)]
    assert all(HAN.search(line) for line in lines if line), [line for line in lines if line and not HAN.search(line)]


def test_all_that_a_plan_explains_is_explained_in_chinese() -> None:
    for line in bench("plan", "--explain", "--lang", "zh-TW").stdout.splitlines():
        assert HAN.search(line) or not re.search("[a-z]{4}", line), line


def test_a_plan_as_json_and_its_settings_have_no_language() -> None:
    plan = PLAN[: PLAN.index("--gpu")]
    assert json.loads(bench(*plan, "--lang", "zh-TW", "--json").stdout) == json.loads(bench(*plan, "--json").stdout)
    assert bench(*plan, "--lang", "zh-TW", "--emit", "hf").stdout == bench(*plan, "--emit", "hf").stdout


def test_without_a_font_a_plans_figure_is_in_english_and_says_so(no_font: None, tmp_path: Path) -> None:
    result = bench(*PLAN, "--lang", "zh-TW", "--figure", tmp_path / "plan.svg")
    assert "圖以英文繪製" in result.stderr
    assert "fonts-noto-cjk" in result.stderr
    assert "predicted peak of allocated memory, GiB" in (tmp_path / "plan.svg").read_text()
    assert "峰值" in result.stdout


def test_where_a_font_has_the_characters_a_plans_figure_is_in_chinese(one_font: Path, tmp_path: Path) -> None:
    # A character that no font had would be a warning, which is an error in the tests.
    result = bench(*PLAN, "--lang", "zh-TW", "--figure", tmp_path / "plan.svg")
    assert "以英文" not in result.stderr
    drawn = (tmp_path / "plan.svg").read_text()
    assert "預測的已配置記憶體峰值（GiB）" in drawn
    assert "最佳化器狀態" in drawn


def test_a_report_in_chinese_is_verified_like_any_other(no_font: None, database: Path, tmp_path: Path) -> None:
    page, figures = tmp_path / "page.html", tmp_path / "figures"
    said = bench("report", "--db", database, "--lang", "zh-TW", "--figures", figures, "-o", page)
    assert "圖以英文繪製" in said.stderr
    assert not any(HAN.search(path.read_text()) for path in figures.rglob("*.svg"))
    assert '<html lang="zh-Hant-TW">' in page.read_text()
    assert bench("verify", page).return_value == 0


def test_with_a_font_the_figures_of_a_report_are_in_chinese(one_font: Path, database: Path, tmp_path: Path) -> None:
    said = bench("report", "--db", database, "--lang", "zh-TW", "--figures", tmp_path / "figures", "-o", tmp_path / "page.html")
    assert "figures" in said.stderr
    assert "以英文" not in said.stderr
    drawn = "".join(path.read_text() for path in (tmp_path / "figures").rglob("*.svg"))
    assert "每次呼叫時間（橫軸 seq_len）" in drawn
    assert "序列長度" in drawn


@pytest.mark.parametrize("kind", ["csv", "json", "markdown", "eml"])
def test_what_is_no_page_has_no_language(database: Path, tmp_path: Path, kind: str) -> None:
    with pytest.raises(Exception, match="--lang is of a page"):
        bench("report", "--db", database, "--lang", "zh-TW", "--format", kind, "-o", tmp_path / "out")


def test_a_language_that_is_none_is_a_usage_error_that_names_those_there_are() -> None:
    with pytest.raises(Exception, match=r"zh-TW"):
        bench(*PLAN, "--lang", "zh-CN")


def test_the_row_and_the_order_of_rows_are_told_in_chinese() -> None:
    lines = bench(*PLAN, "--row", "2", "--lang", "zh-TW").stdout.splitlines()
    assert lines[1].startswith("第 2 列：")
    assert any("依預期代價排序；" in line for line in lines)


@pytest.mark.parametrize(
    "words",
    [
        ("torchtune", "--sharding", "fsdp2", "--world-size", "4"),
        ("torchtune", "--adaptation", "lora", "--linear", "nf4_bnb", "--linear-cross-entropy", "liger"),
        ("accelerate", "--sharding", "fsdp2_root_unit", "--world-size", "4"),
        ("hf", "--sharding", "fsdp2", "--world-size", "4"),
        ("hf", "--sharding", "ddp", "--world-size", "2"),
    ],
)
def test_what_settings_leave_unsaid_is_told_in_chinese(words: tuple[str, ...]) -> None:
    told = bench("plan", "--seq-len", "128", "--attention", "sdpa_flash", "--lang", "zh-TW", "--emit", *words).stderr.splitlines()
    assert told
    assert all(HAN.search(line) for line in told), told
