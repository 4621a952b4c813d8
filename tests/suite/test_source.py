"""YAML is read as plain data with places; everything odd in it is a clear error, and quick."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import SuiteError
from bench.suite.source import MAX_DEPTH, Source, dotted, read_file, read_text


def problem_of(text: str) -> str:
    with pytest.raises(SuiteError) as caught:
        read_text(text, "s.yaml")
    return str(caught.value)


def test_values_are_those_of_yaml_1_2() -> None:
    data = read_text(
        "{a: no, b: 1e-5, c: 010, d: 2026-01-01, e: ~, f: 'x', g: true, h: -3, i: 1_000, j: '12', k: .5, l: 12:30}", None
    ).data
    assert data == {
        "a": "no", "b": 1e-5, "c": 10, "d": "2026-01-01", "e": None, "f": "x", "g": True, "h": -3, "i": "1_000", "j": "12", "k": 0.5,
        "l": "12:30",
    }  # fmt: skip
    assert type(data["c"]) is int


def test_every_key_and_item_knows_its_line() -> None:
    source = read_text("a: 1\nb:\n  c: [x,\n      y]\n  d: {e: 3}\n", "s.yaml")
    assert {dotted(key): place.line for key, place in source.places.items()} == {
        "a": 1, "b": 2, "b.c": 3, "b.c[0]": 3, "b.c[1]": 4, "b.d": 5, "b.d.e": 5,
    }  # fmt: skip
    assert str(source.problem(("b", "c", 1, "deeper"), "wrong")) == "s.yaml:4: b.c[1]: wrong"
    assert str(Source({}).problem(("x",), "wrong")) == "x: wrong"


def test_all_mistakes_of_form_come_together() -> None:
    text = "a: 1\na: 2\nb: !!python/object/apply:os.system [ls]\nc: .inf\n? [x]\n: 1\nd: 99999999999999999999999\ne: 1e999\n"
    lines = problem_of(text).splitlines()
    assert lines == [
        "s.yaml:2: a: this key is there twice, first on line 1",
        "s.yaml:3: b: the tag tag:yaml.org,2002:python/object/apply:os.system is not allowed: suites are plain data",
        "s.yaml:4: c: a number must be finite",
        "s.yaml:5: a key must be a word, not a list or a mapping",
        "s.yaml:7: d: this number is too large",
        "s.yaml:8: e: a number must be finite",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a:\n\tb: 1\n", ["s.yaml:2:", "use spaces"]),
        ("a: [1, 2\nb: 3", ["s.yaml:2:", "not valid YAML"]),
        ("a: 1\n---\nb: 2\n", ["s.yaml:2:", "document"]),
        ("a: *nothing\n", ["s.yaml:1:", "undefined alias"]),
        ("a: &a [*a]\n", ["contains itself"]),
        ("a: &a {b: *a}\n", ["contains itself"]),
        ('a: "\\ud800"\n', ["a: text with control characters"]),
        ('a: "x\\0y"\n', ["a: text with control characters"]),
        ('"a\\e": 1\n', ["control characters"]),
        ("a: \x07\n", ["not valid YAML"]),
        ('a: "\\UFFFFFFFF"\n', ["not valid YAML"]),
        ("[" * 3000, ["nested deeper"]),
        ("[" * 100 + "]" * 100, ["nested deeper"]),
        ("a: !x 1\n", ["the tag !x is not allowed"]),
        ("!x\na: 1\n", ["the tag !x is not allowed"]),
        ("a: " + "9" * 5000, ["too large"]),
        ("%YAML 9.9\n---\na: 1", ["not valid YAML"]),
    ],
)
def test_odd_yaml_is_a_clear_error(text: str, words: list[str]) -> None:
    message = problem_of(text)
    assert all(word in message for word in words), message
    assert len(message) < 1000


def test_a_bomb_of_aliases_is_stopped() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    assert "more than 20000 values" in problem_of("\n".join(lines))


def test_an_alias_is_fine_where_it_is_small() -> None:
    assert read_text("a: &x [1, 2]\nb: *x\n", None).data == {"a": [1, 2], "b": [1, 2]}


def test_a_merge_key_is_a_word_like_any_other() -> None:
    assert read_text("a: &x {b: 1}\nc:\n  <<: *x\n", None).data["c"] == {"<<": {"b": 1}}


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_bytes(b"a: 1\nb: \xff\xfe\n")
    with pytest.raises(SuiteError, match=r"s\.yaml:2: is not UTF-8"):
        read_file(path)
    path.write_bytes(b"a: " + b"x" * 300_000)
    with pytest.raises(SuiteError, match="larger than 64 KiB"):
        read_file(path)
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_file(path).data == {"a": 1}
    with pytest.raises(SuiteError, match="this is a folder: name the suite files in it"):
        read_file(tmp_path)
    with pytest.raises(SuiteError, match="no such file"):
        read_file(tmp_path / "absent.yaml")
    with pytest.raises(SuiteError, match="cannot be read"):
        read_file(Path("nul\0.yaml"))


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("ab:#-é😀 '\""),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc ", min_size=1), inner, max_size=3),
    max_leaves=10,
)


@given(json_values)
def test_json_means_itself(data: object) -> None:
    import json

    read = read_text(json.dumps(data), None).data
    assert read == data or (isinstance(data, float) and math.isclose(read, data))


@given(st.text())
def test_any_text_is_data_or_a_suite_error(text: str) -> None:
    try:
        read_text(text, "s.yaml")
    except SuiteError as error:
        assert str(error)  # noqa: PT017 - the property is that nothing else escapes


def test_the_depth_limit_leaves_room_for_every_suite() -> None:
    assert read_text("[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1), None).data
