"""The pages in Traditional Chinese say the same as those in English: commands, figures, links, output, and the words that are explained."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks, codes, prose, table_rows

ENGLISH, CHINESE = ROOT / "README.md", ROOT / "README.zh-TW.md"
GLOSSARY, OWN_GLOSSARY = ROOT / "docs" / "glossary.md", ROOT / "docs" / "glossary-zh-TW.md"
ONLY_THERE = {"grows", "doubtful"}
"""What only readers of Chinese have to be told."""
HAN = re.compile("[\u4e00-\u9fff]")


def _links(page: Path) -> Counter[str]:
    return Counter(re.findall(r"\]\(([^)]+)\)", prose(page)))


def _numbers(page: Path) -> Counter[str]:
    """Those of the text, less code and links."""
    return Counter(re.findall(r"\d+(?:\.\d+)?", re.sub(r"`[^`\n]+`|\]\([^)]+\)", "", prose(page))))


def test_the_blocks_of_the_readme_are_the_same_but_for_comments() -> None:
    def told(page: Path) -> list[list[str]]:
        return [[line.split(" #")[0].rstrip() for line in block.text.splitlines()] for block in blocks(page)]

    assert told(CHINESE) == told(ENGLISH)


def test_the_readme_names_the_same_code_figures_and_links() -> None:
    assert Counter(codes(prose(CHINESE))) - Counter(codes(prose(ENGLISH))) == Counter(ONLY_THERE)
    assert Counter(codes(prose(ENGLISH))) - Counter(codes(prose(CHINESE))) == Counter()
    assert _numbers(CHINESE) == _numbers(ENGLISH)
    assert set(_links(ENGLISH)) - {"README.zh-TW.md"} <= set(_links(CHINESE))


def test_the_readme_has_the_same_parts_in_the_same_order() -> None:
    def parts(page: Path) -> list[int]:
        return [len(marks) for marks in re.findall(r"^(#+) ", prose(page), re.MULTILINE)]

    assert parts(CHINESE) == parts(ENGLISH)
    assert all(HAN.search(line) for line in prose(CHINESE).splitlines() if line.startswith("## "))


def test_the_table_of_statuses_has_the_same_lines() -> None:
    statuses = [[row[0] for row in table_rows(page) if re.fullmatch(r"`\w+`", row[0])] for page in (ENGLISH, CHINESE)]
    assert statuses[0] == statuses[1] != []


def test_the_glossary_explains_the_same_words_in_the_same_order() -> None:
    english, own = ([row[0] for row in table_rows(page) if row[0] not in ("Word", "英文")] for page in (GLOSSARY, OWN_GLOSSARY))
    assert own == english
    assert Counter(codes(prose(OWN_GLOSSARY))) == Counter(codes(prose(GLOSSARY)))


@pytest.mark.parametrize("page", [CHINESE, OWN_GLOSSARY], ids=lambda page: page.name)
def test_no_character_is_one_that_is_only_written_in_simplified_chinese(page: Path) -> None:
    simplified = "们这为时间会开关发现应该实验测试报告内存优化器显卡数据库网络运行错误结果环境选项类型号码线图层训练权重"
    traditional = "們這為時間會開關發現應該實驗測試報告內存優化器顯卡數據庫網絡運行錯誤結果環境選項類型號碼線圖層訓練權重"
    only = {one for one, other in zip(simplified, traditional, strict=True) if one != other}
    assert only & set(page.read_text(encoding="utf-8")) == set()
