"""The catalogue fits together, still speaks of what the code says, and turns finished text so that it can be read back."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

from bench.lang import LANGUAGES, Language, language, said, speaking, spoken
from bench.lang.messages import CatalogueError, literals, placeholders

BENCH = Path(__file__).parents[2] / "bench"
SUITES = Path(__file__).parents[2] / "suites"
LIKE = {"number": "16.5", "ratio": "1.20× (1.10–1.30)", "label": "flex", None: "abc", "said": "lower is better"}
"""What may stand for each kind of placeholder."""
JOINTS = {"; ": "；", ", ": "，"}
FEW = 4
"""Places where the parts of a message meet."""


@pytest.fixture(scope="module")
def chinese() -> Language:
    return language("zh-TW", plan=True)


def test_every_language_has_a_catalogue_that_fits_together() -> None:
    for name in LANGUAGES:
        assert len(language(name, plan=True).messages) > len(language(name).messages) > 100


@pytest.mark.parametrize(
    "messages",
    [
        {"{n} more": "還有"},
        {"{n} more": "還有 {m} 項"},
        {"time": "時間", "Time": "時間"},
        {"{n:colour} more": "{n}"},
        {"{n} of {n}": "{n}"},
    ],
)
def test_a_catalogue_that_does_not_fit_together_is_refused(messages: dict[str, str]) -> None:
    with pytest.raises(CatalogueError):
        Language("zh-TW", messages, JOINTS)


def test_every_message_is_said_in_chinese_and_read_back_as_it_was(chinese: Language) -> None:
    for english in chinese.messages:
        text = english
        for name, kind in placeholders(english).items():
            text = re.sub(rf"\{{{name}(?::\w+)?\}}", LIKE[kind], text)
        turned = chinese.said(text)
        assert re.search("[\u4e00-\u9fff]", turned) or turned != text, text
        assert chinese.english(turned) == text


def test_no_message_has_a_single_character_since_that_could_be_anybodys(chinese: Language) -> None:
    short = {own for own in chinese.messages.values() if len(own) == 1}
    assert short <= {"列", "項", "是", "否", "值"}  # heads and cells of tables


def test_every_message_still_stands_in_the_code(chinese: Language) -> None:
    told = _told()
    whole, words = _alike(told), set(re.findall("[a-z]+", told.lower()))
    former = tomllib.loads((BENCH / "lang" / "zh_TW.toml").read_text(encoding="utf-8"))["former"]
    gone = []
    for english in chinese.messages.keys() - former.keys():
        pieces = [piece for part in literals(english) for piece in re.split(r"[;:,.()]", part)]
        runs = [run for piece in pieces for run in _runs(piece.split())]
        unknown = [word for piece in pieces for word in re.findall("[a-z]{3,}", piece.lower()) if word not in words]
        # What the code puts together of parts does not stand there in one piece where they meet.
        missing = sum(_alike(run) not in whole for run in runs)
        if unknown or missing > max(FEW, len(runs) / 2):
            gone.append(english)
    assert gone == []


def test_what_a_page_s_script_looks_up_is_what_it_can_find(chinese: Language) -> None:
    script = "\n".join(path.read_text(encoding="utf-8") for path in sorted((BENCH / "report" / "static").glob("*.js")))
    asked = {*re.findall(r'said\("([^"]+)"', script), *re.findall(r'[?:] "(\{n\}[^"]+)"', script)}
    assert asked == set(chinese.controls)


def _runs(words: list[str]) -> list[str]:
    """Every three words that follow each other."""
    return [" ".join(words[at : at + 3]) for at in range(len(words) - 2)]


def _told() -> str:
    """All that templates, constants of the code and suites say."""
    pieces = []
    rooms = ("judge", "plan", "records", "report")
    paths = [path for room in rooms for path in sorted((BENCH / room).rglob("*.py"))]
    for path in (*paths, BENCH / "metrics.py", *sorted((BENCH / "cli").glob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                pieces.append(node.value)
    pieces += [path.read_text(encoding="utf-8") for path in sorted(BENCH.rglob("*.j2"))]
    pieces += [path.read_text(encoding="utf-8") for path in sorted(SUITES.rglob("*.yaml"))]
    return "\0".join(pieces)


def _alike(text: str) -> str:
    """Without capitals, spaces, and what a template computes in between; what it says there stays."""
    said = re.sub(r"\{%.*?%\}|\{\{.*?\}\}", lambda found: "".join(re.findall('"([^"]*)"', found[0])), text)
    return re.sub(r"[\s_]+", "", said).lower()


@pytest.mark.parametrize(
    ("english", "own"),
    [
        (", 2.06× faster than sdpa_flash (2.03–2.09), 0.849× the memory at 16384", "，速度為 sdpa_flash 的 2.06×（2.03–2.09），"
            "記憶體為其 0.849×（尺寸 16384 時）"),
        ("forward + backward · seq len 1024–16384", "前向＋反向 ・ 序列長度 1024–16384"),
        (", nothing is shown to be faster; a, b and c can't be told from it", "，沒有誰被證實更快；"
            "a, b and c 與它分不出高下"),
        ("  lower is better\n", "  越低越好\n"),
    ],
)  # fmt: skip
def test_a_sentence_of_several_messages_is_said_as_a_whole(chinese: Language, english: str, own: str) -> None:
    assert chinese.said(english) == own
    assert chinese.english(own) == english


@pytest.mark.parametrize("text", ["", "flash_attn4", "Which colour is best?", "lower is better, as we all know", "越低越好"])
def test_what_no_message_is_of_stays_as_it_is(chinese: Language, text: str) -> None:
    assert chinese.said(text) == text


def test_what_a_plan_says_may_be_somebodys_name_on_a_page(chinese: Language) -> None:
    assert chinese.said("fused") != "fused"
    assert language("zh-TW").said("fused") == "fused"


def test_what_could_not_be_read_back_stays_english() -> None:
    own = Language("zh-TW", {"{a} over {b}": "{b} 之 {a}", "x": "叉"}, JOINTS)
    assert own.said("1 over 2") == "2 之 1"
    assert own.said("a over b 之 c") == "a over b 之 c"


def test_only_within_speaking_is_anything_said_in_another_language(chinese: Language) -> None:
    assert said("lower is better") == "lower is better"
    with speaking(chinese):
        assert spoken() is chinese
        assert said("lower is better") == "越低越好"
        with speaking(None):
            assert said("lower is better") == "lower is better"
    assert spoken() is None


def test_a_hostile_text_costs_no_time_worth_speaking_of(chinese: Language) -> None:
    for text in (", ".join(["x"] * 900), "(" * 2000, "1.0× faster than " * 100, "; ".join(["the same memory"] * 100), "a" * 10**6):
        assert chinese.english(chinese.said(text)) == text


def test_what_a_message_was_called_in_former_versions_is_read_back_and_no_longer_said() -> None:
    own = Language("zh-TW", {"{n:number} kernels": "{n} 個 kernel"}, JOINTS, once={"{n} 個核心": "{n:number} kernels"})
    assert own.said("3 kernels") == "3 個 kernel"
    assert own.english("3 個核心") == own.english("3 個 kernel") == "3 kernels"
    assert own.renewed("  3 個核心") == "  3 個 kernel"
    assert own.renewed("別人的話") == "別人的話"


@pytest.mark.parametrize(
    "once", [{"核心": "kernels"}, {"{m} 個核心": "{n:number} kernels"}, {"{n} 個 kernel": "{n:number} kernels"}]
)
def test_a_former_name_of_nothing_with_other_placeholders_or_of_today_is_refused(once: dict[str, str]) -> None:
    with pytest.raises(CatalogueError):
        Language("zh-TW", {"{n:number} kernels": "{n} 個 kernel"}, JOINTS, once=once)
